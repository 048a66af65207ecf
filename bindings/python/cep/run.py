# SPDX-License-Identifier: Apache-2.0
"""Runs somebody else's training script, unchanged, with cep in it, and prints the verdict at its end.

    python -m cep.run [options] -- torchrun --nproc_per_node=8 train.py --epochs 3
    python -m cep.run [options] -- python train.py

`cep run` is the same. See cep-run(1).
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Mapping, NoReturn, Optional, Sequence

from ._command import find_command
from ._options import VARIABLE, records
from ._errors import say

_RUNS = "cep_runs"  # without an option, each run gets a directory of its own in it
_USAGE = 2
_CANNOT_RUN = 126
_NOT_FOUND = 127
_SIGNAL = 128  # plus the signal's number, as shells have it
_SECONDS_OF_A_SUMMARY = 600
_CLOCK_DIFFERENCE_S = 2

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class _Parser(argparse.ArgumentParser):
    """Its errors have the shape of the other commands'."""

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        say(message.replace("argument ", "", 1) if unknown == message else f"there is no option '{unknown.split()[0]}'")
        self.exit(_USAGE, f"Try '{self.prog} --help'.\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="cep run",
        usage="cep run [options] [--] COMMAND [ARGUMENT...]",
        description="Runs a training script of PyTorch's unchanged, records its steps, and prints the verdict.",
        epilog="examples:\n"
        "  cep run -- python train.py\n"
        "  cep run -o output --every 1 -- torchrun --nproc_per_node=8 train.py --epochs 3\n"
        "  srun cep run --no-summary -o output -- python train.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="rank files go to DIR/cuda_event_profiler (default: what CEP_DIRECTORY says, else a new one in cep_runs)",
    )
    parser.add_argument("--every", metavar="N", type=_positive, help="record every Nth step (default 10)")
    parser.add_argument("--no-summary", action="store_true", help="print no verdict at the end")
    parser.add_argument(
        "--no-settings", action="store_true", help="leave the settings of PyTorch, NCCL and the machine out of the files"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command that starts the training")
    return parser


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def _run_directory(environment: Mapping[str, str]) -> Path:
    """A directory for this run alone. Where srun or mpirun start a launcher for each rank, all choose the same one."""
    namespace = environment.get("PMIX_NAMESPACE")
    if environment.get("SLURM_STEP_ID") and environment.get("SLURM_NTASKS", "1") != "1":
        name = f"slurm-{environment.get('SLURM_JOB_ID')}.{environment['SLURM_STEP_ID']}"
    elif namespace:
        name = "mpi-" + re.sub("[^A-Za-z0-9._-]", "-", namespace)
    else:
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return Path(_RUNS).absolute() / name


def _other_directory(output: Optional[str], environment: Mapping[str, str]) -> Optional[str]:
    """What is wrong if the option and the environment say different directories."""
    said = environment.get("CEP_DIRECTORY")
    if output is None or not said:
        return None
    inside = (Path(output) / "cuda_event_profiler").absolute()
    if Path(said).absolute() == inside:
        return None
    return f"-o {output} puts rank files into {inside}, and CEP_DIRECTORY is {said}: set one of the two"


def _link_latest(directory: Path) -> None:
    """Makes the link ``latest`` beside the directory point to it."""
    link, new_link = directory.with_name("latest"), directory.with_name(f".latest-{os.getpid()}")
    try:
        directory.parent.mkdir(exist_ok=True)
        new_link.symlink_to(directory.name)
        new_link.replace(link)
    except OSError as error:
        say(f"{link}: {error.strerror}")


def _environment(directory: Optional[Path], every: Optional[int], has_settings: bool, records: str) -> dict[str, str]:
    """The environment of the command: that of this process, and what instruments Python in it."""
    environment = dict(os.environ)
    startup = str(Path(__file__).resolve().parent / "_startup")
    before = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = startup + (os.pathsep + before if before else "")
    environment[VARIABLE] = records
    if directory is not None:
        environment["CEP_DIRECTORY"] = str(directory / "cuda_event_profiler")
    if every is not None:
        environment["CEP_RECORD_EVERY_N_STEPS"] = str(every)
    if not has_settings:
        environment["CEP_SETTINGS"] = "0"
    return environment


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # The launcher waits for signals with all of them blocked, and the command must not inherit that.
    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_FORWARDED, signal.SIGCHLD))

    return subprocess.Popen(list(command), env=environment, preexec_fn=unblock)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Waits for the command, and passes signals on to it. Returns its exit status, 128 + n after signal n."""
    waited_for = {*_FORWARDED, signal.SIGCHLD}
    while child.poll() is None:
        information = signal.sigwaitinfo(waited_for)
        # The terminal has sent its signals (Ctrl-C) to the command, too: the kernel is their sender.
        if information.si_signo != signal.SIGCHLD and information.si_code <= 0:
            child.send_signal(information.si_signo)
    return child.returncode if child.returncode >= 0 else _SIGNAL - child.returncode


def _run(command: Sequence[str], environment: Mapping[str, str], own_directory: Optional[Path]) -> tuple[int, bool]:
    """The exit status, and whether the command could be started. ``latest`` then points to the run's own directory."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    try:
        child = _start(command, environment)
        if own_directory is not None:
            _link_latest(own_directory)
        return _wait(child), True
    except FileNotFoundError:
        say(f"{command[0]}: no such command")
        return _NOT_FOUND, False
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return _CANNOT_RUN, False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


# ---- What is said at the end of a job: the verdict, or why there is none ---------------------------------------------------


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


def _report(folder: Path, status: int, *, directory: Optional[Path], began_s: float, with_summary: bool) -> None:
    """Says what came of a job whose processes left records in a folder. Those on other hosts and in containers leave none: so
    rank files that are newer than its begin are looked for, if their directory is known. A command that failed before it
    trained needs no advice on training."""
    told = list(records(folder))
    # One for each process with a profiler: path, rank, world_size, is_own (the script's own profiler).
    opened = [record for record in told if record["what"] == "opened"]
    off = {record["rank"] for record in told if record["what"] == "off"}
    steps = max((record["steps"] for record in told if record["what"] == "ended"), default=0)  # 0: none came to its end
    failures = list(dict.fromkeys(record["why"] for record in told if record["what"] in ("failed", "advice")))
    for failure in failures:
        say(failure)
    if not opened:
        found = [] if directory is None else _written_since(directory, began_s)
        if found and directory is not None:
            say(f"rank files written by processes on other hosts or in containers: {len(found)}")
            if with_summary:
                _summarize(directory)
            else:
                say(f"for the verdict: cep summarize {shlex.quote(str(directory))}")
        elif off:
            say("cep is off in each process that trained (CEP_ENABLE, CEP_RANKS), so nothing was recorded")
        elif not failures:
            say(_NOTHING_SEEN if status == 0 else f"the command failed with status {status} before a training step was seen")
        return
    if not any(_has_spans(Path(record["path"])) for record in opened):
        many = f" of {steps}" if steps else ""
        say(f"no step{many} was recorded; --every 1 records each step but the first")
        return
    for parent in sorted({str(Path(record["path"]).parent) for record in opened}):
        mine = [record for record in opened if str(Path(record["path"]).parent) == parent]
        _report_directory(Path(parent), mine, off, with_summary)


def _written_since(directory: Path, began_s: float) -> list[Path]:
    """The rank files with rows of this job. Clocks of other hosts may be a little behind."""
    paths = directory.glob("cuda_events_rank_*.jsonl")
    return [path for path in paths if path.stat().st_mtime >= began_s - _CLOCK_DIFFERENCE_S and _has_spans(path)]


def _report_directory(directory: Path, mine: Sequence[Mapping[str, Any]], off: set[int], with_summary: bool) -> None:
    wanted = set(range(max(record["world_size"] for record in mine))) - off
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


def run(arguments: Sequence[str]) -> int:
    """Does what ``python -m cep.run`` does with these arguments. Returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command: list[str] = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("no command to run")
    contradiction = _other_directory(options.output, os.environ)
    if contradiction is not None:
        parser.error(contradiction)
    own_directory = None
    if options.output is None and not (os.environ.get("CEP_DIRECTORY") or os.environ.get("CEP_CONFIG")):
        own_directory = _run_directory(os.environ)
    directory = own_directory if options.output is None else Path(options.output).absolute()
    with tempfile.TemporaryDirectory(prefix="cep-run-") as folder:
        environment = _environment(directory, options.every, not options.no_settings, folder)
        files = environment.get("CEP_DIRECTORY")
        began_s = time.time()
        status, was_started = _run(command, environment, own_directory)
        try:
            if was_started:
                where = None if files is None else Path(files)
                _report(Path(folder), status, directory=where, began_s=began_s, with_summary=not options.no_summary)
        except (Exception, KeyboardInterrupt) as error:  # the status is the script's, whatever happens here
            say(f"no verdict: {type(error).__name__}: {error}")
    return status


def main() -> NoReturn:
    """Ends this process with the status of the command."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
