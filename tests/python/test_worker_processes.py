# SPDX-License-Identifier: Apache-2.0
"""Workers that inherit a rank's environment: they stay out of the rank's file, and its restart stays possible."""

import os
import signal

import pytest

WORKERS = """
import multiprocessing, os


def work(number):
    {before_open}
    prof = cep.Profiler.from_env()
    prof.step(number)
    with prof.region("worker"):
        pass
    prof.close()
    return number * number


def main():
    prof = cep.Profiler.from_env()
    assert prof.enabled
    for step in range(3):
        prof.step(step)
        with prof.region("forward"):
            with multiprocessing.get_context("{method}").Pool(2) as pool:
                assert pool.map(work, range(8)) == [n * n for n in range(8)]
    prof.close()


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def rank(files):
    """The variables that a launcher sets for a rank, and that the rank's workers inherit."""
    return {
        "CEP_ENABLE": "1",
        "CEP_DIRECTORY": str(files.directory),
        "CEP_RECORD_EVERY_N_STEPS": "1",
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
    }


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_that_open_the_ranks_file_are_off(scripts, files, rank, method):
    _, err = scripts.run(WORKERS.format(method=method, before_open="pass"), env=rank)
    assert len(files.spans("forward")) == 3
    assert files.spans("worker") == []
    assert len(files.typed("run")) == 1
    assert "another profiler is writing this file" in err


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_with_files_of_their_own_are_on(scripts, files, rank, method):
    before_open = 'os.environ["CEP_DIRECTORY"] = sys.argv[1] + "/worker" + str(os.getpid())'
    scripts.run(WORKERS.format(method=method, before_open=before_open), env=rank)
    assert len(files.spans("forward")) == 3
    assert files.spans("worker") == []
    assert len(files.typed("run")) == 1
    own = [path.read_text() for path in files.output_dir.glob("worker*/cuda_events_rank_0.jsonl")]
    assert sum(text.count('"name":"worker"') for text in own) == 3 * 8


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_that_outlives_its_rank_does_not_keep_the_restart_off(scripts, files, rank, method):
    """The rank is killed and a worker of it goes on, as a worker that waits in a system call may."""
    text = f"""
import multiprocessing, os, signal, time


def work(pipe):
    pipe.send(os.getpid())
    signal.pause()


def main():
    prof = cep.Profiler.from_env()
    prof.step(0)
    with prof.region("forward"):
        pass
    prof.flush()
    here, there = multiprocessing.Pipe()
    worker = multiprocessing.get_context("{method}").Process(target=work, args=(there,))
    worker.start()
    print(here.recv(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
"""
    process = scripts.start(text, env=rank)
    worker = int(process.stdout.readline())
    process.wait(timeout=60)
    try:
        restart = """
prof = cep.Profiler.from_env()
assert prof.enabled
prof.step(1)
with prof.region("restarted"):
    pass
prof.close()
"""
        scripts.run(restart, env=rank)
    finally:
        os.kill(worker, signal.SIGKILL)
        process.stdout.close()
        process.stderr.close()
        process.stdin.close()
    assert len(files.spans("forward")) == 1
    assert len(files.spans("restarted")) == 1
    assert [row["attempt"] for row in files.typed("run")] == [1, 2]
