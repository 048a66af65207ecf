# SPDX-License-Identifier: Apache-2.0
"""Rules that say when this rank is worth a look with torch.profiler."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import TYPE_CHECKING, Callable, Optional, Sequence

from ._own_rows import OwnSpan

if TYPE_CHECKING:
    from ._gather import Gather

Rule = Callable[[Sequence[OwnSpan]], Optional[str]]
"""Called on a background thread with this rank's spans since the last time. A text is the reason to fire."""


def slower_than_median(region: str, factor: float = 2.0, *, window: int = 64, min_samples: int = 8) -> Rule:
    """Fires once a span of a region takes longer than a multiple of the running median of those before it.

    Args:
        region: The region's name.
        factor: The multiple, above 1.
        window: The median is of the last so many spans.
        min_samples: It does not fire before it has seen so many.
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
    """Fires once a live summary names this rank as the one that is waited for.

    Args:
        live: What gather() returned.
        with_ranks: Ranks that are profiled too, whichever rank is named, to compare with.
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
