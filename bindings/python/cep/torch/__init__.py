# SPDX-License-Identifier: Apache-2.0
"""cep in PyTorch trainers.

    import cep, cep.torch

    model = DistributedDataParallel(model)
    with cep.Profiler("output") as prof, cep.torch.instrument(prof, model, optimizer):
        for batch in cep.torch.iterate(prof, loader, first_step=0):
            loss = model(cep.torch.to_device(prof, batch, device))
            loss.backward()
            optimizer.step()

Needs PyTorch 2.4 or later. What hooks models, optimizers or collectives needs the package's extension module, too.

| name | does |
|---|---|
| trace_training() | a whole training loop: data, copies, forward, backward, optimizer, in a training_step |
| instrument() | forward, backward and optimizer phases through hooks; collectives and memory with them |
| instrument_optimizers() | optimizer phases alone |
| instrument_collectives() | a row for each collective of torch.distributed, FSDP's and FSDP2's included |
| hook_failures() | how many calls of hooks have failed, and left a row out |
| record_memory() | the CUDA allocator's state as counters |
| snapshot_on_oom() | PyTorch's snapshot of its memory, once, when memory runs out |
| iterate(), to_device() | waiting for a DataLoader; copies to the device |
| build_profiler() | torch.profiler with a schedule, a trace for each rank, and a summary |
| Escalation, Profiler.escalate() | torch.profiler for a few steps, once a rule on cep's own timings fires |
| slower_than_median(), named_straggler() | such rules |
| gather() | a live summary of all ranks |
| CUDATimer, CUDATimerCollection | stopwatches for a quick measurement |

Only reading a stopwatch synchronises the device. Nothing here raises into the training loop.
"""

from __future__ import annotations

from .._own_rows import OwnSpan
from ._collectives import InstrumentedCollectives, instrument_collectives
from ._escalation import Escalation, Rule, named_straggler, slower_than_median
from ._gather import Gather, PhaseSummary, Summary, gather
from ._instrument import Instrumentation, instrument, instrument_optimizers
from ._memory import record_memory, snapshot_on_oom
from ._pytorch import hook_failures
from ._trace import TraceProfiler, build_profiler
from ._training import TracedTraining, iterate, to_device, trace_training
from .timers import CUDATimer, CUDATimerCollection

__all__ = [
    "CUDATimer", "CUDATimerCollection", "Escalation", "Gather", "InstrumentedCollectives", "Instrumentation",
    "OwnSpan", "PhaseSummary", "Rule", "Summary", "TraceProfiler", "TracedTraining", "build_profiler", "gather",
    "hook_failures", "instrument", "instrument_collectives", "instrument_optimizers", "iterate", "named_straggler",
    "record_memory", "slower_than_median", "snapshot_on_oom", "to_device", "trace_training",
]  # fmt: skip
