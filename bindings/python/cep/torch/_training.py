# SPDX-License-Identifier: Apache-2.0
"""The steps of a training, and its input: waiting for a DataLoader, and copying a batch to the device; and a plain
training loop, instrumented as a whole in one line."""

from __future__ import annotations

import functools
from typing import Any, Callable, Generic, Iterable, Iterator, Optional, TypeVar, Union, cast

from .._native import Phase, StepSpans
from .._profiler import Profiler, profiler_first
from .._region import TimedIterable, length_of
from .._options import note_training
from .._attributes import HOST
from ._instrument import Instrumentation, instrument, tensors_in
from ._pytorch import Device, Module, Optimizer, torch

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
    with profiler.region(name, kind="data", bytes=sum(int(tensor.nbytes) for tensor in tensors_in(batch, depth=100))):
        return cast(Batch, _moved(batch, device, non_blocking))


class TrainingSteps(StepSpans):  # type: ignore[misc]
    """The steps of a training, each a span ``training_step`` from the wait for its data to the end of its optimizer.

    A step begins with its first phase. What happens between two steps (evaluation, checkpoints, logging) is in neither
    span; its rows have the number of the step before.

    A training that nothing has to tell the phases of a step that is not recorded may only count such steps: with skip().
    """

    def __init__(self, profiler: Profiler, first_step: int) -> None:
        super().__init__(profiler, Phase(profiler.region("training_step", kind="step")), first_step)


class _StepsThatAreOff:
    """Of a profiler that is off: also without the extension module."""

    def __init__(self, first_step: int) -> None:
        self.next_step, self.is_under_way = first_step, False

    def begin(self) -> None:
        self.is_under_way = True

    def end(self) -> None:
        self.next_step, self.is_under_way = self.next_step + self.is_under_way, False

    abandon = end


class TracedTraining(Generic[Batch]):
    """What trace_training() returns. Can be iterated as often as the loader, and has a length if the loader has."""

    def __init__(
        self, loader: Iterable[Batch], profiler: Profiler, device: Any, next_step: int, batches_per_step: int,
        instrument_it: Callable[[], Instrumentation],
    ) -> None:  # fmt: skip
        self._loader, self._profiler, self._device = loader, profiler, device
        self._batches_per_step, self._instrument_it = batches_per_step, instrument_it
        self._steps: Any = TrainingSteps(profiler, next_step) if profiler.enabled else _StepsThatAreOff(next_step)
        self._waiting = profiler.region("data_load", kind="data", stream=HOST)
        note_training(profiler, loader=loader)

    @property
    def next_step(self) -> int:
        """The number of the step that begins next."""
        return int(self._steps.next_step + self._steps.is_under_way)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        with self._instrument_it():
            try:
                yield from self._batches()
            finally:  # the last step has fewer batches, or the loop was left
                self._steps.end()

    def _batches(self) -> Iterator[Batch]:
        batches = iter(self._loader)
        left = length_of(self)  # None: unknown
        in_step = 0
        while left != 0:
            if in_step == 0:
                self._steps.begin()
            with self._waiting:
                try:
                    batch = next(batches)
                except StopIteration:
                    if in_step == 0:  # the loader has no length, and there is no such step
                        self._steps.abandon()
                    return
            yield batch if self._device is None else to_device(self._profiler, batch, self._device)
            in_step = (in_step + 1) % self._batches_per_step
            left = None if left is None else left - 1
            if in_step == 0:
                self._steps.end()


@profiler_first
def trace_training(
    profiler: Profiler,
    loader: Iterable[Batch],
    model: Module,
    optimizer: Union[Optimizer, Iterable[Optimizer], None] = None,
    *,
    device: Any = None,
    first_step: int = 0,
    batches_per_step: int = 1,
    **options: Any,
) -> TracedTraining[Batch]:
    """Instruments a training loop: iterate over the result in the place of the loader.

    ::

        for inputs, targets in cep.torch.trace_training(prof, loader, model, optimizer, device=device):
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    Each pass of the loop is a step, and a row ``training_step`` of kind ``step`` from the wait for its batch to the end of
    the loop's body. Inside it are the rows ``data_load`` (the wait, on the host clock), ``host_to_device`` (with
    ``device``) and those of instrument(). The loop does not call ``prof.step()`` itself.

    Args:
        profiler: The profiler.
        loader: A DataLoader, or any iterable. If it has no length, its end is found in one more step, whose row
            ``training_step`` has the error ``NotFinished``.
        model: As for instrument(); so is optimizer.
        device: Where batches are copied to. None: the loop copies them itself, and that is part of no phase but the step.
        first_step: The number of the first step. It goes on counting when the result is iterated again.
        batches_per_step: Batches until the optimizer steps, with gradient accumulation.
        options: Further arguments of instrument(): prefix, collectives, ddp_buckets, memory, memory_phases.

    Raises:
        ImportError: As instrument() does.
        ValueError: batches_per_step is less than 1.
    """
    if batches_per_step < 1:
        raise ValueError(f"batches_per_step: {batches_per_step} is less than 1")
    instrument_it = functools.partial(instrument, profiler, model, optimizer, **options)
    return TracedTraining(loader, profiler, device, first_step, batches_per_step, instrument_it)
