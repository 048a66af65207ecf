# SPDX-License-Identifier: Apache-2.0
"""Rules that decide when this rank is traced with torch.profiler."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Callable, Optional, Sequence

from ._own_rows import OwnSpan

if TYPE_CHECKING:
    from ._gather import Gather

Rule = Callable[[Sequence[OwnSpan]], Optional[str]]
"""Called on a background thread with this rank's new spans. Returns the reason to fire, or None."""


def slower_than_median(region: str, factor: float = 2.0, *, window: int = 64, min_samples: int = 8) -> Rule:
    """Fires once a span of a region takes longer than a multiple of the running median of those before it.

    Args:
        region: The region's name.
        factor: The multiple, above 1.
        window: The median is taken of at most this many spans, the latest.
        min_samples: It fires only after this many spans.
    """
    if factor <= 1:
        raise ValueError(f"factor: more than 1 is needed, not {factor!r}")
    seen: deque[float] = deque(maxlen=window)

    def rule(spans: Sequence[OwnSpan]) -> Optional[str]:
        reason = None
        for span in spans:
            if span.name != region:
                continue
            if len(seen) >= min_samples and span.duration_ms > factor * median(seen):
                reason = (
                    f"{region} took {span.duration_ms:.3g} ms in step {span.step}, "
                    f"{span.duration_ms / median(seen):.3g} times its median"
                )
            seen.append(span.duration_ms)
        return reason

    return rule


def named_straggler(live: Gather, with_ranks: Sequence[int] = ()) -> Rule:
    """Fires once a live summary names this rank as the one that the others wait for.

    Args:
        live: What gather() returned.
        with_ranks: Ranks on which it fires too, whichever rank is named, for comparison.
    """
    last_seen = None

    def rule(spans: Sequence[OwnSpan]) -> Optional[str]:
        nonlocal last_seen
        summary = live.summary
        if summary is None or summary is last_seen or summary.straggler is None:
            return None
        last_seen = summary
        if live.rank == summary.straggler or live.rank in with_ranks:
            return summary.reason
        return None

    return rule
