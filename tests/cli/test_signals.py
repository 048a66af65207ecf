# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command leave no temporary file behind, and ignored ones do not end it."""

import random
import resource
import signal
import subprocess

import pytest
from conftest import attempt_rows, line_of

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGXCPU)
ROWS = b"".join(line_of(row).encode() + b"\n" for row in attempt_rows(0, range(3000), rng=random.Random(1)))


def start_merge(cep, *arguments, ignored=(), file_bytes=None):
    def prepare():
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    return subprocess.Popen([cep.program, "merge", *arguments], cwd=cep.folder, stdin=subprocess.PIPE,
                            stderr=subprocess.PIPE, preexec_fn=prepare)


def start_reading(process):
    """More than a pipe holds is written: so the command is reading, and its output is open."""
    process.stdin.write(ROWS)
    process.stdin.flush()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_removes_the_temporary(cep, tmp_path, number):
    process = start_merge(cep, "-o", "out.jsonl", "-")
    start_reading(process)
    assert len(names(tmp_path)) == 1 and names(tmp_path)[0].startswith("out.jsonl.")
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    assert names(tmp_path) == []


def test_a_signal_leaves_the_old_output(cep, tmp_path):
    (tmp_path / "out.jsonl").write_bytes(b"old\n")
    process = start_merge(cep, "-o", "out.jsonl", "-")
    start_reading(process)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert names(tmp_path) == ["out.jsonl"] and (tmp_path / "out.jsonl").read_bytes() == b"old\n"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_an_ignored_signal_stays_ignored(cep, tmp_path, number):
    """As under nohup."""
    process = start_merge(cep, "-o", "out.jsonl", "-", ignored=[number])
    start_reading(process)
    process.send_signal(number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 0 and len(messages.splitlines()) == 1 and b"wrote" in messages
    assert (tmp_path / "out.jsonl").read_bytes() == cep.merged("-", stdin=ROWS)


@pytest.mark.parametrize("memory_mib, file_bytes", [("256", 100_000), ("1", 1_500_000)])
def test_a_file_size_limit_is_reported(cep, tmp_path, memory_mib, file_bytes):
    """SIGXFSZ would end the command. The limit stops the output, or what is sorted on disk before it."""
    process = start_merge(cep, "-o", "out.jsonl", "--memory-mib", memory_mib, "-", file_bytes=file_bytes)
    _, messages = process.communicate(3 * ROWS, timeout=60)
    assert process.returncode == 5 and b"File too large" in messages
    assert names(tmp_path) == []
