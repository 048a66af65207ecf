# SPDX-License-Identifier: Apache-2.0
"""The job of same_rows_test.py in Python: same_job.py DIRECTORY"""

import sys

import cep


class DiskFull(Exception):
    pass


meta = {"dp": 1, "flops_per_step": 1.5e9, "model": "tiny"}
options = {"record_every_n_steps": 1, "backend": "host", "meta": meta, "max_overhead_percent": 12.5}
prof = cep.Profiler(None, directory=sys.argv[1], rank=3, world_size=8, **options)
for step in range(3):
    prof.step(step)
    with prof.region("training_step"):
        with prof.region("load", kind="data", stream=cep.HOST):
            pass
        prof.phase("forward")
        prof.phase("backward")
        prof.end_phase()
        with prof.region("sync", kind="comm", bytes=4096, flops=2e6, group="dp", coll=step, meta={"op": "sum"}):
            pass
    prof.counter("loss", 0.5 * step)
prof.mark("checkpoint", {"format": "sharded"})
try:
    with prof.region("save", kind="host", stream=cep.HOST):
        raise DiskFull
except DiskFull:
    pass
sys.exit(0 if prof.flush() and prof.close() else 1)
