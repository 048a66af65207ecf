# SPDX-License-Identifier: Apache-2.0
"""Live summaries: who is slow by the numbers, and that a job never hangs for them."""

import math

import pytest

pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep._own_rows import OwnSpan  # noqa: E402
from cep.torch._gather import measure, summarize  # noqa: E402

pytest_plugins = ("training_jobs",)

NAMES = ("data_load", "forward", "backward")


def measured(comm_ms, *phases_ms):
    return 10, 100, 190, comm_ms, *phases_ms


def ranks_with(comm_ms, *phases_ms, count=8):
    """Ranks that differ by a little."""
    times_ms = {rank: (one + 0.01 * (rank % 3) for one in phases_ms) for rank in range(count)}
    return {rank: measured(comm_ms + 0.01 * rank, *times_ms[rank]) for rank in range(count)}


def test_the_rank_that_waits_least_is_the_straggler_in_its_longest_phase():
    ranks = ranks_with(20.0, 1.0, 10.0, 30.0)
    ranks[5] = measured(2.0, 19.0, 10.0, 30.0)
    summary = summarize(ranks, NAMES)
    assert (summary.straggler, summary.phase) == (5, "data_load")
    assert summary.wait_ms == pytest.approx(18.03, abs=0.01)
    assert summary.phases["data_load"].slowest_rank == 5
    assert summary.phases["data_load"].slowdown == pytest.approx(19.0, rel=0.02)
    assert "rank 5" in str(summary) and (summary.first_step, summary.last_step, summary.ranks) == (100, 190, 8)


def test_a_straggler_whose_phases_are_as_long_as_the_others_has_no_phase():
    ranks = ranks_with(20.0, 1.0, 10.0, 30.0)
    ranks[2] = measured(2.0, 1.0, 10.0, 30.0)
    summary = summarize(ranks, NAMES)
    assert (summary.straggler, summary.phase) == (2, None)


def test_a_healthy_job_has_no_straggler():
    summary = summarize(ranks_with(20.0, 1.0, 10.0, 30.0), NAMES)
    assert summary.straggler is None and summary.reason == "no rank makes the others wait"


def test_without_collectives_a_slow_phase_is_pointed_at_and_nobody_is_accused():
    ranks = ranks_with(math.nan, 1.0, 10.0, 30.0)
    ranks[3] = measured(math.nan, 25.0, 10.0, 30.0)
    summary = summarize(ranks, NAMES)
    assert (summary.straggler, summary.phase) == (None, "data_load")
    assert "comm" not in summary.phases and "rank 3" in summary.reason


def test_ranks_without_timings_do_not_count():
    ranks = ranks_with(20.0, 1.0, 10.0, 30.0, count=3)
    ranks[3] = (0, 0, 0, *[math.nan] * 4)
    assert summarize(ranks, NAMES).ranks == 3
    assert summarize({0: ranks[0], 3: ranks[3]}, NAMES) is None


def test_a_ranks_times_are_means_of_its_recorded_steps():
    spans = [OwnSpan("forward", step, "compute", ms) for step, ms in ((10, 1.0), (10, 2.0), (20, 5.0))]
    spans += [OwnSpan("all_reduce", 10, "comm", 4.0), OwnSpan("unlisted", 20, "other", 9.0)]
    assert measure(spans, ("forward",)) == [2, 10, 20, 2.0, 4.0]


def test_collectives_that_wait_beside_each_other_count_once():
    both = [OwnSpan("all_reduce", 5, "comm", 40.0, 1_000_000_000), OwnSpan("all_reduce", 5, "comm", 30.0, 1_020_000_000)]
    assert measure(both, NAMES)[3] == pytest.approx(50.0)
    after = OwnSpan("all_reduce", 5, "comm", 10.0, 2_000_000_000)
    assert measure([after, *both, OwnSpan("flat", 5, "comm", 1.0)], NAMES)[3] == pytest.approx(61.0)


TRAIN = """
import threading

def train(prof, steps):
    # Made-up times, so long that what the machine does meanwhile is nothing beside them.
    own_work_s, wait_s = (30, 10) if rank == 1 else (10, 30)
    for step in range(steps):
        prof.step(step)
        prof.add_span("data_load", 0, own_work_s * 10**9, kind="data")
        prof.add_span("forward", 0, 5 * 10**9)
        prof.add_span("all_reduce", 0, wait_s * 10**9, kind="comm")
        dist.all_reduce(torch.ones(1))

def wait_for_last_round(live):
    live.close()
    for thread in threading.enumerate():
        if thread.name == "cep-gather":
            thread.join()
    assert live.failure is None, live.failure
"""


def test_all_ranks_have_the_same_summary_and_the_first_one_reports_it(job):
    outputs = job.run(3, TRAIN + """
def on_summary(summary):
    print("reported", summary.straggler, summary.phase, flush=True)
with cep.Profiler(folder, record_every_n_steps=2, flush_every_n_steps=2) as prof:
    with cep.torch.instrument_collectives(prof), cep.torch.gather(prof, 4, on_summary=on_summary) as live:
        train(prof, 9)
        wait_for_last_round(live)
        summary = live.poll()
        assert summary is live.summary and live.poll() is None
        assert 6 <= summary.last_step <= 8  # those before the round, and what was written while it began
        print("summary", summary.straggler, summary.phase, summary.ranks, flush=True)
    dist.barrier()
""")
    for rank, out in enumerate(outputs):
        assert "summary 1 data_load 3" in out
        assert ("reported 1 data_load" in out) == (rank == 0)


def test_ranks_that_are_off_take_part_without_timings(job):
    outputs = job.run(3, TRAIN + """
with cep.Profiler(folder, record_every_n_steps=1, ranks=[0, 1]) as prof:
    live = cep.torch.gather(prof, 2)
    train(prof, 4)
    wait_for_last_round(live)
    print("ranks", live.summary.ranks, flush=True)
    dist.barrier()
""")
    assert all("ranks 2" in out for out in outputs)


def test_only_chosen_ranks_have_a_summary(job):
    outputs = job.run(3, TRAIN + """
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    live = cep.torch.gather(prof, 2, ranks=[2, 1])
    train(prof, 4)
    wait_for_last_round(live)
    summary = live.summary
    print("summary of", summary and (summary.ranks, summary.phases["data_load"].slowest_rank))
    dist.barrier()
""")
    assert [out.strip() for out in outputs] == ["summary of None", "summary of (2, 1)", "summary of (2, 1)"]


WAIT_FOR_FAILURE = """
import threading

def wait_for_failure(live):
    for thread in threading.enumerate():
        if thread.name == "cep-gather":
            thread.join()
    assert live.failure is not None
"""


def test_the_job_goes_on_when_a_rank_dies(job):
    outputs = job.run(3, WAIT_FOR_FAILURE + """
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    live = cep.torch.gather(prof, 1, timeout_s=5)
    dist.barrier()
    if rank == 2:
        os._exit(7)
    warnings.simplefilter("ignore")
    for step in range(3):
        prof.step(step)
    wait_for_failure(live)
    for step in range(3, 20):
        prof.step(step)
    live.close()
    print("went on", live.summary, flush=True)
""", expected={2: 7}, ending="")
    assert all("went on None" in out for out in outputs[:2])


def test_a_rank_that_never_answers_is_given_up(job):
    outputs = job.run(2, WAIT_FOR_FAILURE + """
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    live = cep.torch.gather(prof, 1, timeout_s=2)
    if rank == 0:
        warnings.simplefilter("ignore")
        for step in range(3):
            prof.step(step)
        wait_for_failure(live)
        assert prof._listeners == ()
        print("gave up", flush=True)
    dist.barrier()
""")
    assert "gave up" in outputs[0]


def test_a_process_that_exits_during_a_round_waits_for_it_and_for_gloos_threads(job):
    outputs = job.run(2, """
import atexit
from pathlib import Path
exiting = Path(folder) / "exiting"
def count_threads():
    return len(os.listdir("/proc/self/task"))
before = count_threads()
atexit.register(lambda: print(live.failure, count_threads() - before, flush=True))  # after what gather() registers
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    live = cep.torch.gather(prof, 1)
    atexit.register(exiting.touch)  # before it
    if rank == 1:
        while not exiting.exists():
            os.sched_yield()
    prof.step(0)
    prof.step(1)
""", ending="")
    assert outputs == ["None 0\n", "None 0\n"]


def test_without_a_process_group_there_is_never_a_summary(profiler):
    with cep.torch.gather(profiler, 1) as live:
        profiler.step(1)
        assert live.summary is None and live.failure is None and live.poll() is None


def test_closing_gives_the_profiler_its_step_back(job):
    job.run(1, """
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    live = cep.torch.gather(prof, 1)
    assert prof._listeners != ()
    live.close()
    live.close()
    assert prof._listeners == ()
    prof.step(5)
    assert prof.recording
""")


def test_a_cadence_below_one_is_an_error(profiler):
    with pytest.raises(ValueError, match="every_n_recorded_steps"):
        cep.torch.gather(profiler, 0)
