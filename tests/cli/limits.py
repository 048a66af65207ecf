# SPDX-License-Identifier: Apache-2.0
"""No input of up to 10 MB makes a command take more than 1 GiB or 10 seconds of CPU: how the tests measure that."""

import os
import resource
import subprocess
import tempfile
from dataclasses import dataclass

MAX_INPUT_BYTES = 10_000_000
MAX_CPU_SECONDS = 10
MAX_MEMORY_BYTES = 1 << 30
ADDRESS_SPACE_BYTES = 8 << 30


@dataclass
class Measured:
    status: int
    stdout: bytes
    stderr: str
    cpu_seconds: float
    memory_bytes: int


def limit_process():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def measure(folder, *arguments):
    """Runs the command. CPU time and not elapsed time: the machine may be busy."""
    # With this variable, which Meson sets, glibc writes to memory that is reserved and never used.
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([os.environ["CEP_COMMAND"], *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=err, cwd=folder, env=environment, preexec_fn=limit_process)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Measured(process.returncode, out.read(), err.read().decode(), usage.ru_utime + usage.ru_stime,
                        usage.ru_maxrss * 1024)


def within_limits(folder, *arguments, status=(0, 4)):
    done = measure(folder, *arguments)
    for _ in range(2):  # a program on the other half of the core takes half of its speed
        if done.cpu_seconds >= MAX_CPU_SECONDS:
            done = measure(folder, *arguments)
    assert done.status in status, (done.status, done.stderr[-2000:])
    assert done.cpu_seconds < MAX_CPU_SECONDS, done.cpu_seconds
    assert done.memory_bytes < MAX_MEMORY_BYTES, done.memory_bytes
    return done


def write_rows(folder, lines, name="cuda_events_rank_0.jsonl"):
    """As many of the lines as there is room for. Returns the name of the file."""
    size = 0
    with open(folder / name, "w") as file:
        for line in lines:
            size += len(line) + 1
            if size > MAX_INPUT_BYTES:
                break
            file.write(line + "\n")
    return name
