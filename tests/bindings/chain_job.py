# SPDX-License-Identifier: Apache-2.0
"""The job of chain_test.py in Python: chain_job.py CONTEXT DIRECTORY"""

import ctypes
import sys

import cep

ctypes.CDLL(sys.argv[1])
with cep.Profiler(None, directory=sys.argv[2], rank=0, world_size=1, record_every_n_steps=1) as prof:
    for step in range(3):
        prof.step(step)
        prof.phase("data", stream=cep.HOST)
        prof.phase("forward")
    prof.phase("save", stream=cep.HOST)
    prof.end_phase()
