# SPDX-License-Identifier: Apache-2.0
"""Iterates over a loader, and times each wait for the next item."""

from __future__ import annotations

from typing import Any, Generic, Iterable, Iterator, Optional, TypeVar

from ._region import Region

Item = TypeVar("Item")


class TimedIterable(Generic[Item]):
    """What Profiler.iterate() returns. Can be iterated as often as the loader, and has a length if the loader has."""

    def __init__(
        self, profiler: Any, region: Region, iterable: Iterable[Item], first_step: Optional[int]
    ) -> None:
        self._profiler = profiler
        self._region = region
        self._iterable = iterable
        self._first_step = first_step

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Item]:
        region = self._region
        step = self._first_step
        end_step = None if step is None else self._end_step(step)
        iterator = iter(self._iterable)
        while True:
            if step is not None and step != end_step:
                self._profiler.step(step)
                step += 1
            with region:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def _end_step(self, first_step: int) -> Optional[int]:
        """The step after the last item's, if the loader has a length. It never begins: its wait only finds the end."""
        try:
            return first_step + len(self)
        except TypeError:
            return None
