# SPDX-License-Identifier: Apache-2.0
# The job of chain_test.py in Julia: chain_job.jl CONTEXT DIRECTORY

using CEP
using Libdl

Libdl.dlopen(ARGS[1])
prof = Profiler(directory = ARGS[2], rank = 0, world_size = 1, record_every_n_steps = 1)
data, forward = Region(prof, "data"), Region(prof, "forward")
for step in 0:2
    step!(prof, step)
    phase!(data; stream = CEP.HOST)
    phase!(forward)
end
end_phase!(prof; stream = CEP.HOST)
span = switch!(start!(prof, "last"), Region(prof, C_NULL)) # only ends the span
exit(!CEP.recorded(span) && close(prof) ? 0 : 1)
