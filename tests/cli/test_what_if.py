# SPDX-License-Identifier: Apache-2.0
"""What `cep estimate` says of other settings of a job, beside jobs that have these settings."""

import json
import random

import pytest
from conftest import START_NS, run_row, span_row

TIMES = ("--noise", "0.02", "--record-every", 1, "--steps", 60)


def simulate(cep, name, *arguments):
    (cep.folder / "scenario.json").write_text('{"activation_mb": 1}')
    cep("simulate", "-o", name, "--scenario", "scenario.json", *TIMES, *arguments)
    return cep.summary(name)["ledger"]["run"]["step_ms"]


def what_if(cep, *arguments):
    report = json.loads(cep("estimate", "--json", *arguments).stdout)["what_if"]
    assert report["reason"] == "" and abs(report["replay_error"]) < 0.02
    return report, {change["key"]: change for change in report["changes"]}


SLOW_LINK = ("--gradient-mb", 400, "--bandwidth-gb-per-s", 10, "--buckets", 3)


def test_links_and_ranks_are_those_of_jobs_that_have_them(cep):
    simulate(cep, "job", "--ranks", 4, *SLOW_LINK)
    _, changes = what_if(cep, "job")
    fast = simulate(cep, "fast", "--ranks", 4, "--gradient-mb", 400, "--bandwidth-gb-per-s", 20)
    assert changes["links_2_times"]["step_ms"] == pytest.approx(fast, rel=0.02)
    more = simulate(cep, "more", "--ranks", 16, *SLOW_LINK)
    assert changes["weak_16"]["step_ms"] == pytest.approx(more, rel=0.02)
    assert changes["weak_16"]["speed"] < 1
    # The optimizer's 8 ms stay: the rest of the own work is a quarter.
    shared = simulate(cep, "shared", "--ranks", 16, *SLOW_LINK, "--step-ms", 31, "--phases",
                      "data_load=0.024,host_to_device=0.008,forward=0.234,backward=0.476,optimizer=0.258")
    assert changes["strong_16"]["step_ms"] == pytest.approx(shared, rel=0.03)
    assert changes["strong_16"]["speed"] == pytest.approx(
        what_if(cep, "job")[0]["step_ms"] / changes["strong_16"]["step_ms"] / 4)


def test_numbers_of_ranks_can_be_named(cep):
    simulate(cep, "job", "--ranks", 4, *SLOW_LINK)
    _, changes = what_if(cep, "--world", "6,12", "job")
    assert {key for key in changes if key.startswith("weak")} == {"weak_6", "weak_12"}
    assert [changes[key]["ranks"] for key in ("weak_6", "strong_12")] == [6, 12]


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 2)])
def test_start_up_is_no_step_of_the_job(cep, first, last):
    simulate(cep, "job", "--ranks", 4)
    slow_start = {"type": "slowdown_all", "step": first, "last_step": last, "slowdown": 20}
    simulate(cep, "started", "--ranks", 4, "--event", json.dumps(slow_start))
    assert what_if(cep, "started")[0]["step_ms"] == pytest.approx(what_if(cep, "job")[0]["step_ms"], rel=0.02)


def test_checkpoints_are_no_steps_of_the_job(cep):
    simulate(cep, "job", "--ranks", 4)
    simulate(cep, "saving", "--ranks", 4, "--event", '{"type": "checkpoint", "every_steps": 10, "duration_ms": 500}')
    assert what_if(cep, "saving")[0]["step_ms"] == pytest.approx(what_if(cep, "job")[0]["step_ms"], rel=0.02)


def test_data_that_is_there_at_once_saves_its_wait(cep):
    phases = "data_load={},host_to_device=0.01,forward=0.29,backward=0.59,optimizer=0.08"
    simulate(cep, "job", "--phases", phases.format(0.3))
    _, changes = what_if(cep, "job")
    assert changes["data_0_percent"]["step_ms"] == pytest.approx(
        simulate(cep, "none", "--phases", phases.format(0.0001)), rel=0.02)
    assert changes["data_50_percent"]["step_ms"] == pytest.approx(
        simulate(cep, "half", "--phases", phases.format(0.15)), rel=0.02)


@pytest.mark.parametrize("pp", [1, 4])
def test_more_micro_batches_fill_the_pipeline_once(cep, pp):
    layout = ("--ranks", 4, "--pp", pp)
    simulate(cep, "job", *layout, "--micro-batches", 8)
    _, changes = what_if(cep, "job")
    # Twice the work in a step, but for the optimizer.
    share = 2 - 0.08
    phases = "data_load={},host_to_device={},forward={},backward={},optimizer={}".format(
        *(x / share for x in (0.06, 0.02, 0.58, 1.18, 0.08)))
    twice = simulate(cep, "twice", *layout, "--micro-batches", 16, "--step-ms", 100 * share, "--phases", phases)
    assert changes["micro_batches_2_times"]["step_ms"] == pytest.approx(twice, rel=0.03)
    assert changes["micro_batches_2_times"]["speed"] > 1


# ---- buckets of DistributedDataParallel

FORWARD_MS, BACKWARD_MS, OPTIMIZER_MS = 40.0, 80.0, 5.0
MB = 2**20
LAYERS = [MB // 4 + 64 * random.Random(3).randrange(8) * number // 5 for number in range(300)]
GRADIENTS = sum(LAYERS)


def transfer_ms(size, links=1):
    return 0.4 + size / 1e6 / 1.2 / links


def buckets_of(megabytes):
    """DDP fills buckets with whole parameters, the last layers first."""
    sizes, filled = [], 0
    for layer in LAYERS:
        filled += layer
        if filled >= megabytes * MB:
            sizes.append(filled)
            filled = 0
    return sizes + ([filled] if filled else [])


def write_ddp(job, megabytes, seed=0, ranks=2, steps=40, links=1, most_behind_ms=0.0, at_once=False):
    """The mean time of a step. Backward ends up to `most_behind_ms` after its last bucket. A bucket's span begins when the
    one before ends, or `at_once` when it is ready, as gloo's do."""
    rng = random.Random(seed)
    rows = {rank: [run_row(rank, world_size=ranks)] for rank in range(ranks)}
    at_ms = 10.0
    begin_ms = at_ms
    for step in range(steps):
        work = [[rng.uniform(0.98, 1.02) * ms for ms in (FORWARD_MS, BACKWARD_MS)] for _ in range(ranks)]
        ready, link_ms, done = 0, 0.0, []
        sizes = buckets_of(megabytes)
        for number, size in enumerate(sizes):
            ready += size
            starts = [at_ms + forward + backward * ready / GRADIENTS for forward, backward in work]
            link_ms = max(link_ms, *starts) + transfer_ms(size, links)
            done.append((number, size, starts, link_ms))
        ends = []
        for rank, (forward, backward) in enumerate(work):
            add = lambda name, start, end, **more: rows[rank].append(  # noqa: E731
                span_row(rank, step, name, end - start, START_NS + round(start * 1e6), **more))
            add("forward", at_ms, at_ms + forward)
            free = 0.0
            for number, size, starts, end in done:
                start = starts[rank] if at_once else max(starts[rank], free)
                add("all_reduce", start, end, kind="comm", depth=2, seq=number, bytes=size, group="world",
                    coll=1000 * step + number)
                free = end
            end = max(at_ms + forward + backward, done[-1][3] + rng.uniform(0, most_behind_ms))
            add("backward", at_ms + forward, end)
            add("optimizer", end, end + OPTIMIZER_MS)
            add("training_step", at_ms, end + OPTIMIZER_MS, kind="step", depth=0)
            ends.append(end + OPTIMIZER_MS)
        at_ms = max(ends)
    for rank in range(ranks):
        job.write(rank, rows[rank])
    return (at_ms - begin_ms) / steps


@pytest.mark.parametrize("now", [1, 5, 25])
def test_sizes_of_buckets_are_those_of_jobs_that_have_them(cep, job, tmp_path, now):
    step_ms = write_ddp(job, now)
    report, _ = what_if(cep, "job")
    assert report["step_ms"] == pytest.approx(step_ms, rel=0.01)
    for size in report["buckets"]:
        truth_ms = write_ddp(type(job)(tmp_path / f"with_{size['megabytes']:g}"), size["megabytes"])
        assert size["step_ms"] == pytest.approx(truth_ms, rel=0.03), size["megabytes"]
    text = cep("estimate", "job").stdout.decode()
    assert "With DDP buckets of" in text or "no other size of DDP's buckets" in text


@pytest.mark.parametrize(("now", "at_once"), [(5, False), (25, False), (5, True), (10, True)])
def test_of_backward_that_waits_for_its_last_bucket_only_the_work_grows_with_micro_batches(cep, job, tmp_path, now, at_once):
    how = {"most_behind_ms": 0.1, "at_once": at_once}
    step_ms = write_ddp(job, now, **how)
    _, changes = what_if(cep, "job")
    assert changes["micro_batches_2_times"]["step_ms"] == pytest.approx(step_ms + FORWARD_MS + BACKWARD_MS, rel=0.03)
    fast_ms = write_ddp(type(job)(tmp_path / "fast"), now, links=2, **how)
    assert changes["links_2_times"]["step_ms"] == pytest.approx(fast_ms, rel=0.05)


def test_a_job_without_buckets_has_no_table_of_them(cep):
    simulate(cep, "job", "--ranks", 4, *SLOW_LINK)
    assert what_if(cep, "job")[0]["buckets"] == []


def test_rows_that_cannot_be_replayed_say_why(cep, job):
    job.write(0, [{"name": "forward", "step": step, "rank": 0, "duration_ms": 5} for step in range(9)])
    report = json.loads(cep("estimate", "--json", "job").stdout)["what_if"]
    assert report["reason"] != "" and report["changes"] == []
    assert b"Nothing can be said of other settings: " in cep("estimate", "job").stdout
