# SPDX-License-Identifier: Apache-2.0
"""
CEP, the CUDA Event Profiler: coarse phase timing for long training jobs.

    using CEP

    Profiler("output"; record_every_n_steps = 10) do prof
        for step in 0:999
            step!(prof, step)
            region(prof, "forward") do
                forward_pass()
            end
            @region prof "backward" backward_pass()
        end
    end

Each rank writes `output/cuda_event_profiler/cuda_events_rank_<rank>.jsonl`; `cep summarize output` reads these files.
The package is a thin layer over libcep.so (see cep(3)). It loads the library that `CEP_LIBRARY` names, or else
`libcep.so.0` from the loader's search path, when a profiler is first opened. If that fails, it is an error that tells
why; `using CEP` alone needs no library.
"""
module CEP

using Libdl

export Profiler, Region, Span, @region, region, start!, stop!, switch!, phase!, end_phase!, step!, counter!, mark!, record!, set_meta!,
       recording, stats

include("lib.jl")
include("codes.jl")
include("json.jl")
include("streams.jl")
include("options.jl")
include("profiler.jl")
include("region.jl")

end
