# SPDX-License-Identifier: Apache-2.0
import sys

import cep

with cep.Profiler(sys.argv[1] if len(sys.argv) > 1 else "output") as prof:
    for step in range(100):
        prof.step(step)
        with prof.region("forward"):
            loss = sum(weight * weight for weight in range(20_000))
        with prof.region("optimizer"):
            ranked = sorted(range(20_000), key=lambda weight: -weight)
