# SPDX-License-Identifier: Apache-2.0
"""Which GPU the spans of a profiler are on."""

from __future__ import annotations

from .._profiler import Profiler
from .._streams import current_stream_source_on, exchange_device
from ._capture import warn
from ._pytorch import Module, torch


def follow_device_of(model: Module, profiler: Profiler) -> None:
    """Has the profiler's spans be on the GPU of the first model, also where that is not the current one, as in a process
    that says ``model.to("cuda:1")`` and never torch.cuda.set_device(1). They would be on an idle stream of another GPU.
    """
    parameter = next(model.parameters(), None)
    if parameter is None or not parameter.is_cuda:
        return
    device = int(parameter.device.index)
    if profiler._device is None:
        profiler._device = device
        if device != torch.cuda.current_device():
            profiler._set_stream_source(current_stream_source_on(device))
            profiler._set_device(exchange_device, device)
    elif device != profiler._device:
        warn(
            f"a model is on GPU {device}, and the first model of this profiler is on GPU {profiler._device}: "
            f"all spans are timed on GPU {profiler._device}"
        )
