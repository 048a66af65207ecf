# SPDX-License-Identifier: Apache-2.0
"""The number of threads changes nothing but the time."""

import gzip
import os
import random
import re
import shutil
import subprocess

import pytest
from conftest import Job, attempt_rows, line_of

SANITIZED = os.environ.get("CEP_SANITIZED") == "1"
# A sanitizer takes ten times as long.
COUNTS = ("1", "7") if SANITIZED else ("1", "2", "7")
MANY_STEPS = 6_000 if SANITIZED else 20_000  # more than `merge --memory-mib 1` keeps in memory


def messages(done):
    """The messages, without the progress of a run that took longer than a second."""
    return re.sub(rb"cep: +(\d+ % (read|written), )?[\d.]+ .?B at [\d.]+ .?B/s\n", b"", done.stderr)


@pytest.fixture(scope="module")
def damaged_folder(tmp_path_factory):
    """Files of different sizes: whole, resumed, cut off, with garbage, empty, compressed, and one that is large."""
    job = Job(tmp_path_factory.mktemp("made") / "job")
    job.folder.mkdir()
    rng = random.Random(5)
    for rank in range(12):
        steps = MANY_STEPS if rank == 4 else rng.randrange(1, 400)
        job.write(rank, attempt_rows(rank, range(steps), rng=rng, world_size=14))
        if rank % 3 == 0:
            job.write(rank, attempt_rows(rank, range(steps // 2, steps + 5), rng=rng, world_size=14, attempt=2))
    for rank in (1, 4, 7):
        lines = job.path(rank).read_bytes().splitlines(keepends=True)
        for _ in range(40):
            lines.insert(rng.randrange(len(lines)), rng.choice([b"garbage\n", b"\0" * 50 + b"\n", b'{"cut', b"\xff\n"]))
        job.path(rank).write_bytes(b"".join(lines))
    job.path(2).write_bytes(job.path(2).read_bytes()[:-30])
    job.path(5).write_bytes(b"")
    data = gzip.compress(job.path(8).read_bytes(), mtime=0)
    job.path(8).write_bytes(data[: len(data) // 2])
    return job.folder


@pytest.fixture
def damaged(tmp_path, damaged_folder):
    (tmp_path / "job").symlink_to(damaged_folder)


@pytest.mark.parametrize("command", [("summarize", "--json"), ("summarize", "--max-samples", "1000"), ("check", "--lenient"), ("merge",),
                                     ("merge", "--memory-mib", "1"), ("merge", "--attempt", "last"), ("report",),
                                     ("report", "--max-samples", "1000"), ("trace",), ("summarize", "--pictures")])
def test_output_and_messages_do_not_depend_on_threads(cep, damaged, command):
    runs = [cep(*command, "--threads", count, "job") for count in COUNTS]
    assert len({run.stdout for run in runs}) == 1
    assert len({messages(run) for run in runs}) == 1
    assert b"cut off" in runs[0].stdout + runs[0].stderr


def test_one_large_file_on_standard_input(cep, job):
    rows = attempt_rows(0, range(MANY_STEPS), rng=random.Random(1))
    data = b"".join(line_of(row).encode() + b"\n" for row in rows)
    outputs = {cep("summarize", "--json", "-j", count, "-", stdin=data).stdout for count in COUNTS}
    assert len(outputs) == 1
    assert sorted(cep.merged("-j", "3", "-", stdin=data).splitlines()) == sorted(data.splitlines())


def test_more_files_than_may_be_open(cep, job):
    for rank in range(300):
        job.write(rank, attempt_rows(rank, range(2), rng=random.Random(rank), world_size=300))
    for command in (("summarize", "--json"), ("merge",), ("check", "--json", "--lenient")):
        free = cep(*command, "-j", "4", "job")
        bound = subprocess.run(["bash", "-c", 'ulimit -n 24; exec "$0" "$@"', cep.program, *command, "-j", "4", "job"],
                               cwd=cep.folder, capture_output=True, check=False)
        assert (bound.returncode, bound.stdout, messages(bound)) == (0, free.stdout, b"")


NO_MORE_THREADS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
/* Starts as many threads as THREADS_LEFT says, and no more. */
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
    static int started;
    if (__atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST) >= atoi(getenv("THREADS_LEFT"))) return EAGAIN;
    int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(thread, attributes, work, argument);
}
"""


@pytest.fixture
def few_threads(tmp_path):
    """The environment of a system that starts only some threads."""
    if SANITIZED:
        pytest.skip("a sanitizer has a pthread_create of its own")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("a C compiler is missing")
    (tmp_path / "no_more_threads.c").write_text(NO_MORE_THREADS)
    library = tmp_path / "no_more_threads.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "no_more_threads.c", "-ldl"], check=True)

    def environment(threads_left):
        sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return {"LD_PRELOAD": str(library), "THREADS_LEFT": str(threads_left), "ASAN_OPTIONS": sanitizer}
    return environment


@pytest.mark.parametrize("threads_left", [0, 1])
@pytest.mark.parametrize("command", [("summarize", "--json", "job"), ("merge", "job"), ("check", "--lenient", "--json", "job"),
                                     ("compare", "--json", "job", "job"), ("kernels", "--json", "traces")])
def test_a_system_that_starts_no_more_threads(cep, damaged, few_threads, tmp_path, command, threads_left):
    (tmp_path / "traces").mkdir()
    for rank in range(4):
        (tmp_path / "traces" / f"rank{rank}_trace.json").write_text(
            '{"distributedInfo":{"rank":%d},"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":5}]}' % rank)
    usual = cep(*command, "-j", "4")
    limited = cep(*command, "-j", "4", env=few_threads(threads_left))
    assert (limited.stdout, messages(limited)) == (usual.stdout, messages(usual))


def test_simulating_where_no_more_threads_start(cep, simulate, few_threads, tmp_path):
    usual = simulate("usual", "--ranks", 8).contents()
    cep("simulate", "-o", "limited", "--ranks", 8, "--steps", 100, "--record-every", 1, "-j", 4, env=few_threads(1))
    assert {path.name: path.read_bytes() for path in (tmp_path / "limited").iterdir()} == usual
