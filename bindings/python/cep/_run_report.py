# SPDX-License-Identifier: Apache-2.0
"""What `cep run` says at the end of a job: the verdict, or why there is none."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ._messages import say
from ._run_records import records
from ._show import find_command

_SECONDS_OF_A_SUMMARY = 600
_CLOCK_DIFFERENCE_S = 2


class Job(NamedTuple):
    """What the processes of a job told."""

    opened: list[dict[str, Any]]
    """One for each process with a profiler: ``path``, ``rank``, ``world_size``, ``is_own`` (the script's own profiler)."""
    off: set[int]
    """The ranks whose profiler is off."""
    steps: int
    """The most steps that a process ended with; 0 if none came to its end."""
    failures: list[str]


def _read(folder: Path) -> Job:
    told = list(records(folder))
    return Job(
        [record for record in told if record["what"] == "opened"],
        {record["rank"] for record in told if record["what"] == "off"},
        max((record["steps"] for record in told if record["what"] == "ended"), default=0),
        list(dict.fromkeys(record["why"] for record in told if record["what"] in ("failed", "advice"))),
    )


def _has_spans(path: Path) -> bool:
    """Whether a rank file has a span. Looks at its end, where those of this job are."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - 65536))
            return any(b'"duration_ms"' in line for line in file)
    except OSError:
        return False


_NOTHING_SEEN = (
    "no training step was seen: no optimizer of PyTorch made a step in a process that cep could instrument. Processes on "
    "other hosts and in containers need the variables PYTHONPATH and CEP_* of this one, which not every launcher forwards, "
    "and Python must not run with -E, -I or -S"
)


def report(folder: Path, status: int, *, directory: Optional[Path], began_s: float, with_summary: bool) -> None:
    """Says what came of a job.

    Args:
        folder: Where its processes left records.
        status: What the command ended with. One that failed before it trained needs no advice on training.
        directory: Where its rank files go, if that is known. Processes on other hosts and in containers leave no records.
        began_s: When the job began, as UNIX time.
        with_summary: Whether to print the verdict.
    """
    job = _read(folder)
    for failure in job.failures:
        say(failure)
    if not job.opened:
        found = [] if directory is None else _written_since(directory, began_s)
        if found and directory is not None:
            say(f"rank files written by processes on other hosts or in containers: {len(found)}")
            _say_verdict(directory, with_summary)
        elif job.off:
            say("cep is off in each process that trained (CEP_ENABLE, CEP_RANKS), so nothing was recorded")
        elif not job.failures:
            say(_NOTHING_SEEN if status == 0 else f"the command failed with status {status} before a training step was seen")
        return
    if not any(_has_spans(Path(record["path"])) for record in job.opened):
        many = f" of {job.steps}" if job.steps else ""
        say(f"no step{many} was recorded; --every 1 records each step but the first")
        return
    for parent in sorted({str(Path(record["path"]).parent) for record in job.opened}):
        _report_directory(Path(parent), job, with_summary)


def _written_since(directory: Path, began_s: float) -> list[Path]:
    """The rank files with rows of this job. Clocks of other hosts may be a little behind."""
    paths = directory.glob("cuda_events_rank_*.jsonl")
    return [path for path in paths if path.stat().st_mtime >= began_s - _CLOCK_DIFFERENCE_S and _has_spans(path)]


def _say_verdict(directory: Path, with_summary: bool) -> None:
    if with_summary:
        _summarize(directory)
    else:
        say(f"for the verdict: cep summarize {shlex.quote(str(directory))}")


def _report_directory(directory: Path, job: Job, with_summary: bool) -> None:
    mine = [record for record in job.opened if Path(record["path"]).parent == directory]
    ranks = max(record["world_size"] for record in mine)
    wanted = set(range(ranks)) - job.off
    there = sum((directory / f"cuda_events_rank_{rank}.jsonl").exists() for rank in wanted)
    command = f"cep summarize {shlex.quote(str(directory))}"
    if not with_summary:
        recorded = len({record["rank"] for record in mine})  # a restart opens the same rank again
        say(f"{recorded} rank{'' if recorded == 1 else 's'} recorded; for the verdict: {command}")
    elif there < len(wanted):
        say(f"{there} of {len(wanted)} rank files are here; once all are in one place: {command}")
    elif all(record["rank"] != 0 for record in mine):
        say(f"the launcher of rank 0 prints the verdict; to have it here: {command}")
    else:
        _summarize(directory)


def _summarize(directory: Path) -> None:
    try:
        program = find_command()
    except FileNotFoundError as error:
        say(f"{error}; the rank files are in {directory}")
        return
    say(f"the verdict of {directory}")
    sys.stderr.flush()
    try:
        subprocess.run(
            [program, "summarize", str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            timeout=_SECONDS_OF_A_SUMMARY,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"no verdict: {error}")
