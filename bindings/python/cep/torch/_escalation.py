# SPDX-License-Identifier: Apache-2.0
"""Escalation: torch.profiler for a few steps, once a rule on cep's own timings fires."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from .._life import Handle
from .._errors import warn, warned
from .._own_rows import Background, OwnRows, OwnSpan
from .._profiler import Profiler
from ._trace import OPTIONS, Capture

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


class Escalation(Handle):
    """Runs torch.profiler on the steps that matter::

        rule = cep.torch.slower_than_median("forward", 2.0)
        prof.escalate(rule, steps=2)

    After each recorded step a background thread reads this rank's new timings back and calls the rule. Once the rule
    returns a reason, torch.profiler runs from the next step on: one warm-up step, then ``steps`` steps. The trace is
    ``<directory>/rank_<rank>_step_<step>_trace.json``, which ``cep kernels`` reads. These steps are slower, so a mark
    in the rank file (``escalation``, with the reason and the number of steps) tells where they begin.

    Nothing raises into the trainer: failures are warnings. Starting torch.profiler can take a second. Rows are written
    every ``flush_every_n_steps`` steps, so a rule gets the spans of a step with that delay.

    Args:
        profiler: The profiler. Each call of its step() is a step here.
        rule: slower_than_median(), named_straggler(), or a function of a sequence of spans (``name``, ``step``,
            ``kind``, ``duration_ms``) that returns a reason or None.
        ranks: The ranks that may be traced. None: all.
        steps: How many steps a trace has.
        max_traces: How many traces there are at most.
        pause_steps: Steps after a trace in which the rule does not fire.
        directory: Where traces go. None: ``traces`` beside the directory of the rank files.
        on_trace: Called with each trace's path, on a background thread.
        **options: Options of torch.profiler.profile: record_shapes, profile_memory, with_stack, with_flops,
            with_modules, activities.

    Raises:
        TypeError: An option is not one of torch.profiler's.
        ValueError: steps or max_traces is below 1.
    """

    def __init__(
        self,
        profiler: Profiler,
        rule: Rule,
        *,
        ranks: Optional[Sequence[int]] = None,
        steps: int = 2,
        max_traces: int = 1,
        pause_steps: int = 100,
        directory: Optional[Path] = None,
        on_trace: Optional[Callable[[Path], None]] = None,
        **options: Any,
    ) -> None:
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise TypeError(f"{unknown[0]}: unknown option; torch.profiler's are {', '.join(OPTIONS)}")
        if steps < 1 or max_traces < 1:
            raise ValueError(f"steps and max_traces: at least 1 is needed, not {min(steps, max_traces)!r}")
        self._profiler, self._rule, self._steps, self._options = profiler, rule, steps, options
        self._left, self._pause_steps, self._on_trace = max_traces, pause_steps, on_trace
        self._capture: Optional[Capture] = None
        self._paused_until_step = -1
        self._reason: Optional[str] = None
        self._started: list[Capture] = []
        self._is_on = profiler.path is not None and profiler.enabled and (ranks is None or profiler.rank in ranks)
        if profiler.path is None or not self._is_on:
            return
        self._directory = Path(directory) if directory is not None else profiler.path.parent.parent / "traces"
        self._rows = OwnRows(profiler.path)
        profiler._listen(self._on_step)
        profiler._at_close.append(self._retire)
        self._background = Background("cep-escalation", self._ask_rule, most_waiting=1)

    def close(self) -> None:
        """Ends the escalation. A trace that is under way is written with the steps that it has so far; this waits for
        the files of all traces. For the trainer's thread. Calling it again does nothing."""
        if self._is_on:
            self._is_on = False
            self._retire()
            if self._capture is not None:
                self._capture.stop()
        for capture in self._started:
            capture.join()

    _end = close

    def _retire(self) -> None:
        """Stops listening to steps, and ends the background thread."""
        self._profiler._stop_listening(self._on_step)
        self._background.end()

    def _on_step(self, recorded: bool) -> bool:
        """Runs on the trainer's thread, at the begin of each step."""
        step = self._profiler._step
        if self._capture is not None:
            self._capture.step()
            if not self._capture.running:
                self._paused_until_step = step + self._pause_steps
                self._capture = None
                if self._left == 0:
                    self._retire()
        elif self._left == 0:
            self._retire()
        elif self._reason is not None:
            self._start(step)
        elif recorded and step >= self._paused_until_step:
            self._background.ask()  # unless it is behind
        return True  # a trace is of steps that are not recorded, too

    def _start(self, step: int) -> None:
        reason, self._reason = self._reason, None
        self._left -= 1
        path = self._directory / f"rank_{self._profiler.rank}_step_{step + 1}_trace.json"
        capture = Capture(1, self._steps, self._options, path, lambda: self._end_trace(capture, path))
        if not capture.start():
            return
        self._capture = capture
        self._started.append(capture)
        with warned("escalation"):
            self._profiler.mark("escalation", {"reason": reason, "steps": self._steps + 1})

    def _end_trace(self, capture: Capture, path: Path) -> None:
        capture.traced = None  # its events take much memory
        if self._on_trace is not None:
            with warned("on_trace"):
                self._on_trace(path)

    def _ask_rule(self, _: object) -> None:
        """Runs on the background thread."""
        if self._left == 0:
            return
        try:
            reason = self._rule(list(self._rows.read()))
        except Exception as error:
            warn(f"no more escalation: its rule raised {type(error).__name__}: {error}")
            self._left = 0
            return
        if reason and self._reason is None:
            self._reason = reason
