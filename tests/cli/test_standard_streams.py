# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed or full: the status says what was written, and nothing gets into the wrong file."""

import json
import os
import subprocess

import pytest
from conftest import READERS, ROW_READERS, inputs_of

COMMANDS = {command: [command, *inputs_of(command, traces="trace.json")] for command in READERS} | {
    "check": ["check", "--lenient", "job"],
    "completion": ["completion", "bash"],
    "help": ["--help"],
    "version": ["--version"],
}


@pytest.fixture
def inputs(cep, four_ranks, tmp_path):
    """A job of which every command says something on standard error, and a trace."""
    four_ranks.write(0, [], tail=b"garbage\n")
    events = [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10.0 * n, "dur": 5.0,
               "args": {"device": 0, "stream": 7}} for n in range(10)]
    (tmp_path / "trace.json").write_text(json.dumps({"distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": events}))


def run_in_shell(cep, redirection, arguments):
    """With a redirection such as ">&-", which the command's own streams cannot express."""
    return subprocess.run(["bash", "-c", f'exec "$0" "$@" {redirection}', cep.program, *arguments], cwd=cep.folder,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("command", COMMANDS)
def test_lost_messages_change_nothing_else(cep, inputs, command, redirection):
    usual = cep(*COMMANDS[command])
    done = run_in_shell(cep, redirection, COMMANDS[command])
    assert (done.returncode, done.stdout, done.stderr) == (0, usual.stdout, b"")


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
@pytest.mark.parametrize("command", COMMANDS)
def test_lost_output_is_a_failure(cep, inputs, command, redirection):
    done = run_in_shell(cep, redirection, COMMANDS[command])
    assert done.returncode == 5
    name = COMMANDS[command][0]
    prefix = "cep" if name.startswith("-") else f"cep {name}"
    assert done.stderr.decode().splitlines()[-1].startswith(f"{prefix}: standard output: cannot write: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_standard_input_is_not_needed(cep, inputs, command):
    usual = cep(*COMMANDS[command])
    done = run_in_shell(cep, "<&-", COMMANDS[command])
    assert (done.returncode, done.stdout, done.stderr) == (0, usual.stdout, usual.stderr)


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
@pytest.mark.parametrize("arguments, written", [
    (["merge", "-o", "out", "job"], "out"),
    (["simulate", "-o", "simulated", "--steps", "20"], "simulated/cuda_events_rank_0.jsonl"),
])
def test_files_are_written_whatever_the_streams_are(cep, inputs, tmp_path, arguments, written, redirection):
    run_in_shell(cep, "", arguments)
    usual = (tmp_path / written).read_bytes()
    subprocess.run(["rm", "-r", tmp_path / written.split("/")[0]], check=True)
    done = run_in_shell(cep, redirection, arguments)
    assert done.returncode == (0)
    assert (tmp_path / written).read_bytes() == usual


@pytest.mark.parametrize("command", ROW_READERS)
def test_closed_standard_input_as_an_input(cep, command):
    done = run_in_shell(cep, "<&-", [command, "-"])
    assert done.returncode == 3 and b"-: Bad file descriptor" in done.stdout + done.stderr


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "<&-"])
def test_wrong_usage_keeps_its_status(cep, redirection):
    assert run_in_shell(cep, redirection, ["summarise"]).returncode == 2
    assert run_in_shell(cep, redirection, ["merge", "nowhere"]).returncode == 3


def test_too_little_memory_is_said_in_plain_words(cep):
    """Twenty bytes a rank and more do not fit; the command itself does."""
    if os.environ.get("CEP_SANITIZED") == "1":
        pytest.skip("a sanitizer needs more address space than the limit")
    limited = 'ulimit -v 300000; exec "$0" "$@"'
    done = subprocess.run(["bash", "-c", limited, cep.program, "simulate", "-o", "job", "-j", "1", "--ranks", "1048576", "--steps", "1"],
                          cwd=cep.folder, capture_output=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stderr.startswith(b"cep simulate: not enough memory; ") and b"bad_alloc" not in done.stderr
