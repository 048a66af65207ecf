# SPDX-License-Identifier: Apache-2.0
"""Which steps are recorded: cep_step()'s rule again, so that a step that changes nothing needs no call into libcep."""

from __future__ import annotations

from typing import NamedTuple


class Sampling(NamedTuple):
    """The window, stride and flush cadence of one profiler."""

    first: int
    last: int
    every: int
    flush_every: int

    def records(self, step: int) -> bool:
        return self.first <= step <= self.last and (step - self.first) % self.every == 0

    def flushes(self, step: int) -> bool:
        return step % self.flush_every == 0
