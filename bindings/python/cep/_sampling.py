# SPDX-License-Identifier: Apache-2.0
"""Which steps are recorded: cep_step()'s rule again, so that a step that changes nothing needs no call into libcep."""

from __future__ import annotations

from ._ffi import Options


class Sampling:
    """The window, stride and flush cadence of one profiler."""

    __slots__ = ("_first", "_last", "_every", "_flush_every")

    def __init__(self, options: Options) -> None:
        self._first: int = options.start_step
        self._last: int = options.end_step
        self._every: int = options.record_every_n_steps
        self._flush_every: int = options.flush_every_n_steps

    def records(self, step: int) -> bool:
        return self._first <= step <= self._last and (step - self._first) % self._every == 0

    def flushes(self, step: int) -> bool:
        return step % self._flush_every == 0
