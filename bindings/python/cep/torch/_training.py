# SPDX-License-Identifier: Apache-2.0
"""A plain training loop, instrumented as a whole in one line."""

from __future__ import annotations

from typing import Any, Generic, Iterable, Iterator, Optional, TypeVar, Union

from .._profiler import Profiler, profiler_first
from .._region import length_of
from .._settings import note_training
from .._streams import HOST
from ._data import to_device
from ._hooks import NotFinished, Phase
from ._instrument import instrument
from ._pytorch import Module, Optimizer

Batch = TypeVar("Batch")


class TrainingSteps:
    """The steps of a training, each a span ``training_step`` from the wait for its data to the end of its optimizer.

    A step begins with its first phase. What happens between two steps (evaluation, checkpoints, logging) is in neither
    span; its rows have the number of the step before.

    A training that nothing has to tell the phases of a step that is not recorded may only count such steps: with skip().
    """

    def __init__(self, profiler: Profiler, first_step: int) -> None:
        self.profiler = profiler
        self.sampling = profiler._sampling
        self._recording = profiler._recording
        self._span = Phase(profiler.region("training_step", kind="step")) if profiler.enabled else None
        self.next_step = first_step
        self.is_under_way = False
        self.made = 0
        """Steps that came to their end."""

    def begin(self, step: Optional[int] = None) -> None:
        """Begins the next step, unless it has begun. Its number is one more than the last, unless it is given."""
        if self.is_under_way:
            return
        if step is not None:
            self.next_step = step
        self.profiler.step(self.next_step)
        self.is_under_way = True
        if self._recording and self._span is not None:
            self._span.begin(None)

    def end(self, error: Optional[type[BaseException]] = None) -> None:
        """Ends the step, if it has begun."""
        if self.is_under_way:
            self.is_under_way = False
            if self._span:
                self._span.end(None, error)
            self.next_step += 1
            self.made += error is None

    def skip(self, following: Optional[int] = None) -> None:
        """Ends a step that is not recorded, whether it has begun or not. The next one's number is one more, unless it is given."""
        step = self.next_step
        self.profiler.step(step)  # for what comes after it
        self.next_step = step + 1 if following is None else following
        self.is_under_way = False
        self.made += 1

    def abandon(self) -> None:
        """Ends the step, if it has begun, as not finished."""
        self.end(NotFinished)


class TracedTraining(Generic[Batch]):
    """What trace_training() returns. Can be iterated as often as the loader, and has a length if the loader has."""

    def __init__(
        self,
        loader: Iterable[Batch],
        profiler: Profiler,
        model: Module,
        optimizer: Union[Optimizer, Iterable[Optimizer], None],
        device: Any,
        next_step: int,
        batches_per_step: int,
        options: dict[str, Any],
    ) -> None:
        self._loader, self._profiler, self._device = loader, profiler, device
        self._model, self._optimizer, self._options = model, optimizer, options
        self._batches_per_step = batches_per_step
        self._steps = TrainingSteps(profiler, next_step)
        self._waiting = profiler.region("data_load", kind="data", stream=HOST)
        note_training(profiler, loader=loader)

    @property
    def next_step(self) -> int:
        """The number of the step that begins next."""
        return self._steps.next_step + self._steps.is_under_way

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        with instrument(self._profiler, self._model, self._optimizer, **self._options):
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
    ``device``) and those of instrument(): ``forward``, ``backward``, ``optimizer``, collectives. So no time of the loop is
    outside of all phases. The loop does not call ``prof.step()`` itself.

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
    return TracedTraining(loader, profiler, model, optimizer, device, first_step, batches_per_step, options)
