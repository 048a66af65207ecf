# SPDX-License-Identifier: Apache-2.0
"""Spans from before a profiler's first step: of the first wait for data, or of a whole pass of a loop that calls step() at
its end."""

from __future__ import annotations

import re
import time
from threading import get_ident
from typing import Any

_MOST = 64
_WORDS_OF_A_PASS = {"forward", "backward", "fwd", "bwd", "step", "iteration"}


def _is_of_a_pass(name: str) -> bool:
    """Whether a region is part of a step, and not of what a script does before its loop ("load_checkpoint")."""
    return not _WORDS_OF_A_PASS.isdisjoint(re.split("[^a-z]+", name.lower()))


class EarlySpans:
    """Outermost spans, timed on the host clock until the first step has a number. Thread-safe."""

    def __init__(self) -> None:
        self._open: dict[int, list[tuple[Any, int]]] = {}  # by thread: regions with their begins
        self._ended: list[tuple[Any, int, int]] = []

    def enter(self, region: Any) -> None:
        self._open.setdefault(get_ident(), []).append((region, time.time_ns()))

    def leave(self) -> None:
        spans = self._open.get(get_ident())
        if spans:
            region, start_ns = spans.pop()
            if not spans and len(self._ended) < _MOST:
                self._ended.append((region, start_ns, time.time_ns() - start_ns))

    def move_to(self, profiler: Any) -> bool:
        """Adds the spans to the step that has begun. Returns whether they are a pass of the loop."""
        ended, self._ended = self._ended, []
        for region, start_ns, duration_ns in ended:
            profiler.add_span(region.name, start_ns, duration_ns)
        return any(_is_of_a_pass(region.name) for region, _, _ in ended)
