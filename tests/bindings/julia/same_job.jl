# SPDX-License-Identifier: Apache-2.0
# The job of same_rows_test.py in Julia: same_job.jl DIRECTORY

using CEP

struct DiskFull <: Exception end

meta = (dp = 1, flops_per_step = 1.5e9, model = "tiny")
prof = Profiler(directory = ARGS[1], rank = 3, world_size = 8, record_every_n_steps = 1, backend = :host, meta = meta,
                max_overhead_percent = 12.5)
forward, backward = Region(prof, "forward"), Region(prof, "backward")
for step in 0:2
    step!(prof, step)
    region(prof, "training_step") do
        region(() -> nothing, prof, "load"; kind = :data, stream = CEP.HOST)
        stop!(switch!(start!(forward), backward))
        @region prof "sync" kind = :comm bytes = 4096 flops = 2e6 group = "dp" coll = step meta = (op = "sum",) nothing
    end
    counter!(prof, "loss", 0.5 * step)
end
mark!(prof, "checkpoint", (format = "sharded",))
try
    region(() -> throw(DiskFull()), prof, "save"; kind = :host, stream = CEP.HOST)
catch failure
    failure isa DiskFull || rethrow()
end
exit(flush(prof) && close(prof) ? 0 : 1)
