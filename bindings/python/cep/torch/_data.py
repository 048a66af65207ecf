# SPDX-License-Identifier: Apache-2.0
"""Input: waiting for a DataLoader, and copying a batch to the device."""

from __future__ import annotations

from typing import Any, Iterable, Optional, TypeVar, Union, cast

from .._profiler import Profiler
from .._region import TimedIterable
from ._pytorch import Device, torch

Item = TypeVar("Item")
Batch = TypeVar("Batch")


def iterate(
    profiler: Profiler, loader: Iterable[Item], *, name: str = "data_load", first_step: Optional[int] = None
) -> TimedIterable[Item]:
    """Iterates over a DataLoader, timing each wait for the next batch on the host clock, as a row of kind ``data``.

    Args:
        profiler: The profiler.
        loader: The DataLoader, or any iterable. The result has a length if the loader has.
        name: The rows' name.
        first_step: The step of the first batch. The iteration then calls profiler.step() itself, before each batch.
            None: a wait belongs to the step that was current when it began.
    """
    return profiler.iterate(name, loader, kind="data", first_step=first_step)


def _bytes_in(batch: Any) -> int:
    if isinstance(batch, torch.Tensor):
        return int(batch.nbytes)
    if isinstance(batch, dict) or hasattr(batch, "items"):
        return sum(_bytes_in(value) for _, value in batch.items())
    if isinstance(batch, (list, tuple)):
        return sum(map(_bytes_in, batch))
    return 0


def _moved(batch: Any, device: Union[str, int, Device], non_blocking: bool) -> Any:
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=non_blocking) if isinstance(batch, torch.Tensor) else batch.to(device)
    if isinstance(batch, dict):
        return {key: _moved(value, device, non_blocking) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_moved(member, device, non_blocking) for member in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(_moved(member, device, non_blocking) for member in batch)
    return batch


def to_device(
    profiler: Profiler,
    batch: Batch,
    device: Union[str, int, Device],
    *,
    non_blocking: bool = True,
    name: str = "host_to_device",
) -> Batch:
    """Copies a batch to the device on the current stream. The copy is a row of kind ``data`` with its ``bytes``.

    Args:
        profiler: The profiler.
        batch: A tensor, an object with a ``to(device)`` of its own, or a dict, list or tuple of these. Anything else is
            returned as it is.
        device: The device to copy to.
        non_blocking: For tensors: do not wait for copies from pinned memory.
        name: The rows' name.

    Returns:
        The batch on the device, in the same structure.

    Thread-safe.
    """
    if not profiler.recording:
        return cast(Batch, _moved(batch, device, non_blocking))
    with profiler.region(name, kind="data", bytes=_bytes_in(batch)):
        return cast(Batch, _moved(batch, device, non_blocking))
