# SPDX-License-Identifier: Apache-2.0
"""Forks, exits and signals: nothing is lost, and a child never writes into its parent's file."""

import signal

import pytest

OPEN_AND_RECORD = """
prof = cep.Profiler(sys.argv[1], record_every_n_steps=1)
prof.step(0)
with prof.region("forward"):
    pass
"""


@pytest.mark.parametrize("ending, status", [
    ("", 0),
    ("sys.exit(3)", 3),
    ("raise RuntimeError('the job failed')", 1),
    ("prof = None", 0),
], ids=["plain end", "sys.exit", "exception", "collected"])
def test_without_close_nothing_is_lost(scripts, files, ending, status):
    scripts.run(OPEN_AND_RECORD + ending, status=status)
    assert len(files.spans("forward")) == 1
    assert files.typed("stats")[-1]["written"] >= 1


def test_a_region_outlives_the_name_of_its_profiler(scripts, files):
    scripts.run("""
region = cep.Profiler(sys.argv[1], record_every_n_steps=1).region("forward")
import gc
gc.collect()
region._profiler.step(0)
with region:
    pass
""")
    assert len(files.spans("forward")) == 1


def test_sigterm_handled_by_the_trainer_loses_nothing(scripts, files):
    process = scripts.start("""
import signal
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
""" + OPEN_AND_RECORD + """
with prof.region("waiting"):
    print("ready", flush=True)
    while True:
        signal.pause()
""")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(files.spans("forward")) == 1
    assert files.span("waiting")["error"] == "SystemExit"


def test_a_forked_child_is_silent_and_the_parent_goes_on(scripts, files):
    out, _ = scripts.run(OPEN_AND_RECORD + """
import os
region = prof.region("inherited")
child = os.fork()
with region:
    pass
if child == 0:
    assert not prof.recording and not prof.enabled
    for step in range(100):
        prof.step(step)
        with region, prof.region("child"):
            prof.phase("child")
            prof.end_phase()
        prof.mark("child")
        prof.counter("child", 1)
    prof.flush()
    prof.close()
    sys.exit(0)
_, status = os.waitpid(child, 0)
prof.step(1)
with prof.region("after"):
    pass
prof.close()
print(os.WEXITSTATUS(status), prof.stats.recorded)
""")
    assert out.split() == ["0", "3"]
    assert [row["name"] for row in files.spans()] == ["forward", "inherited", "after"]
    assert len(files.typed("run")) == 1


def test_a_child_forked_inside_a_region_leaves_it_quietly(scripts, files):
    scripts.run("""
import os
prof = cep.Profiler(sys.argv[1], record_every_n_steps=1)
prof.step(0)
with prof.region("forward"):
    child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
    assert len(files.spans("forward")) == 1
    assert files.typed("open") == []


def test_a_forked_child_may_open_a_profiler_of_its_own(scripts, files):
    scripts.run(OPEN_AND_RECORD + """
import os
child = os.fork()
if child == 0:
    own = cep.Profiler(sys.argv[1], rank=1, world_size=2)
    own.step(0)
    with own.region("forward"):
        pass
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
    assert len(files.spans("forward", rank=0)) == 1
    assert len(files.spans("forward", rank=1)) == 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_multiprocessing_do_not_disturb(scripts, files, method):
    scripts.run(f"""
import multiprocessing
def work(number):
    return number * number
if __name__ == "__main__":
    prof = cep.Profiler(sys.argv[1], record_every_n_steps=1)
    prof.step(0)
    with prof.region("forward"):
        with multiprocessing.get_context("{method}").Pool(2) as pool:
            assert pool.map(work, range(8)) == [n * n for n in range(8)]
    prof.close()
""")
    assert len(files.spans("forward")) == 1
    assert len(files.typed("run")) == 1


def test_a_failure_to_write_does_not_end_the_job(scripts):
    _, err = scripts.run("""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
with cep.Profiler(sys.argv[1], record_every_n_steps=1) as prof:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard_limit))
    prof.step(0)
    with prof.region("forward"):
        pass
assert prof.stats.dropped_io == 1, prof.stats
""")
    assert "RuntimeWarning: cep:" in err


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_rank_that_is_a_process_of_multiprocessing_loses_nothing_without_close(scripts, files, method):
    scripts.run(f"""
import multiprocessing


def train(directory):
    global prof
    prof = cep.Profiler(directory, record_every_n_steps=1)
    prof.step(0)
    with prof.region("forward"):
        pass


if __name__ == "__main__":
    rank = multiprocessing.get_context("{method}").Process(target=train, args=(sys.argv[1],))
    rank.start()
    rank.join()
    sys.exit(rank.exitcode)
""")
    assert len(files.spans("forward")) == 1
    assert files.typed("stats")[-1]["written"] == 1
