# SPDX-License-Identifier: Apache-2.0
"""What makes steps longer, and what they would take without it: made-up jobs whose truth is known."""

import random
import re

import numpy as np
import pytest
from array_jobs import own_times, write_job
from conftest import attempt_rows
from made_jobs import Damage, Fault, Shape, make

PIPELINE = Shape("pipeline", dp=4, pp=4, micro_batches=8, steps=10)


@pytest.fixture
def summarized(cep, job):
    def run(shape, fault, damage=None, *arguments):
        truth = make(job.write, shape, fault, damage)
        return truth, cep.summary(*arguments, "job")["verdict"]
    return run


def saving_of(headline):
    """The percents that the headline names."""
    return float(re.search(r"steps would take ([\d.]+) % less time", headline)[1])


def without(cause):
    """The time of a step without the cause, as a share of what it was."""
    return 1 / cause["slowdown"]


@pytest.mark.parametrize("silent_waits", [False, True], ids=["waits shown", "waits hidden"])
def test_a_slow_worker_of_a_pipeline_costs_what_its_replay_saves(summarized, silent_waits):
    # Hidden: its peers wait for it before their all-reduce, and no row shows that.
    shape = Shape("pipeline", dp=4, pp=4, micro_batches=32, steps=8, silent_waits=silent_waits)
    truth, verdict = summarized(shape, Fault("rank", 2.3, (5,)))
    cause = verdict["causes"][0]
    assert truth.slowdown > 1.8
    assert (cause["kind"], cause["ranks"], cause["stage"]) == ("ranks", [5], 1)
    assert cause["slowdown"] == pytest.approx(truth.slowdown, rel=0.01)
    assert cause["cost_ms"] == pytest.approx(truth.step_ms - truth.without_ms, rel=0.02)
    assert cause["share"] > 0.5 and verdict["replay"]["slowest_ranks_share"] > 0.9
    assert verdict["headline"].startswith("Rank 5 (node0) is slow in ")
    assert "Without it" in verdict["headline"]
    assert saving_of(verdict["headline"]) == pytest.approx(100 * (1 - 1 / truth.slowdown), abs=1)
    assert verdict["job_slowdown"] == pytest.approx(truth.slowdown, rel=0.01)
    assert [straggler["rank"] for straggler in verdict["stragglers"]] == [5] and verdict["harmless"] == []


@pytest.mark.parametrize("dp", [2, 4])
def test_what_the_others_wait_for_a_slow_rank_of_a_pipeline_is_no_bubble(summarized, dp):
    truth, verdict = summarized(Shape("pipeline", dp=dp, pp=4, micro_batches=8), Fault("rank", 1.4, (3,)))
    said = re.search(r" wait ([\d.]+) ms a step", " ".join([verdict["headline"], *verdict["evidence"]]))
    assert float(said[1]) == pytest.approx(truth.step_ms - truth.without_ms, rel=0.05)


def test_a_long_last_stage_is_named_where_too_few_ranks_can_be_compared(summarized):
    shape = Shape("pipeline", dp=2, pp=4, micro_batches=8, steps=10)
    truth, verdict = summarized(shape, Fault("stage", 1.5))
    cause = verdict["causes"][0]
    assert (cause["kind"], cause["stage"], cause["ranks"]) == ("stage", 3, [6, 7])
    assert cause["slowdown"] == pytest.approx(truth.slowdown, rel=0.01)
    assert cause["share"] > 0.9
    assert not verdict["abstained"] and verdict["reason"] is None and verdict["stragglers"] == []
    assert verdict["headline"].startswith("Pipeline stage 3 has more work than the others")
    assert saving_of(verdict["headline"]) == pytest.approx(100 * (1 - 1 / truth.slowdown), abs=1)


def test_micro_batches_that_differ_at_random_are_named_and_a_long_stage_is_second(summarized):
    shape = Shape("pipeline", dp=16, pp=4, micro_batches=8, steps=8, stage_work=(1, 1, 1, 1.4))
    truth, verdict = summarized(shape, Fault("micro_batches", 0.5))
    first, second = verdict["causes"][:2]
    assert truth.slowdown > 1.4
    assert (first["kind"], second["kind"], second["stage"]) == ("micro_batches", "stage", 3)
    assert first["slowdown"] == pytest.approx(truth.slowdown, rel=0.03)
    assert first["share"] > second["share"] > 0
    assert verdict["headline"].startswith("Micro-batches are uneven")
    # One number: without these alone, not if the stages were even too.
    assert verdict["job_slowdown"] == pytest.approx(first["slowdown"], rel=0.001)
    assert saving_of(verdict["headline"]) == pytest.approx(100 * (1 - 1 / verdict["job_slowdown"]), abs=0.5)
    assert any("stage 3 has more work" in text for text in verdict["evidence"])


def test_work_that_varies_without_regard_to_micro_batches_is_jitter(summarized):
    _, verdict = summarized(PIPELINE, Fault("jitter", 0.3))
    assert verdict["causes"][0]["kind"] == "jitter"
    assert verdict["headline"].startswith("No straggler") and verdict["stragglers"] == []


@pytest.mark.parametrize("noise", [0.01, 0.03])
@pytest.mark.parametrize("share, ms", [(0.01, 60), (0.03, 40), (0.1, 20), (0.3, 400)])
@pytest.mark.parametrize("phase", ["data_load", "forward", "backward"])
def test_random_pauses_are_jitter_in_the_phase_that_has_them(cep, tmp_path, phase, share, ms, noise):
    """However long the other phases are: data_load takes 4 ms, backward 60 with some noise."""
    chance = np.random.default_rng(1)
    own = own_times(8, 200, noise=noise, rng=chance)
    own[phase] += ms * (chance.random((8, 200)) < share)
    write_job(tmp_path / "job", own)
    verdict = cep.summary("job")["verdict"]
    assert [(cause["kind"], cause["phase"]) for cause in verdict["causes"]] == [("jitter", phase)]
    said = [verdict["headline"].lower(), *verdict["evidence"]]
    text = f"the same work in {phase} takes longer now and then" if share == 0.3 else "any rank pauses now and then, for "
    (line,) = (line for line in said if line.startswith(text))
    assert share == 0.3 or f", most often in {phase}" in line


@pytest.mark.parametrize("kind", ["ddp", "accumulation", "blocking", "fsdp", "tensor", "pipeline"])
def test_a_healthy_job_has_no_cause_and_its_replay_takes_as_long(summarized, kind):
    shape = {"tensor": Shape("tensor", dp=4, tp=4), "pipeline": PIPELINE}.get(kind, Shape(kind, micro_batches=2))
    truth, verdict = summarized(shape, Fault("none"))
    replay = verdict["replay"]
    assert [cause for cause in verdict["causes"] if cause["slowdown"] > 1.02] == []
    assert verdict["headline"].startswith("No straggler") and verdict["job_slowdown"] == 1
    assert replay["holds"] and abs(replay["error"]) < 0.002 and replay["coverage"] == 1 and replay["matched"] == 1
    assert replay["observed_ms"] == pytest.approx(truth.step_ms, rel=0.01)


SHAPES = {"ddp": Shape("ddp"), "accumulation": Shape("accumulation", micro_batches=4), "blocking": Shape("blocking"),
          "fsdp": Shape("fsdp"), "tensor": Shape("tensor", dp=4, tp=4), "pipeline": PIPELINE,
          "interleaved": Shape("pipeline", dp=4, pp=4, micro_batches=8, chunks=2, steps=10)}
DAMAGES = {"clocks apart": Damage(skew_ms=20), "no step row": Damage(step_rows=False), "rows lost": Damage(lost=0.05)}
# All shapes, and some of them damaged; the engine's table has more of both.
shapes_and_damages = pytest.mark.parametrize("shape, damage", [
    *(pytest.param(shape, Damage(), id=name) for name, shape in SHAPES.items()),
    *(pytest.param(SHAPES[name], damage, id=f"{name}, {what}") for name in ("ddp", "pipeline")
      for what, damage in DAMAGES.items())])


@shapes_and_damages
def test_what_a_slow_rank_costs(summarized, shape, damage):
    truth, verdict = summarized(shape, Fault("rank", 1.4, (3,)), damage)
    cause = verdict["causes"][0]
    assert (cause["kind"], cause["ranks"]) == ("ranks", [3])
    assert without(cause) == pytest.approx(1 / truth.slowdown, abs=0.03 if damage.lost else 0.005)


@pytest.mark.parametrize("shape", [Shape(), Shape("tensor", dp=4, tp=4), Shape("pipeline", dp=2, pp=4, micro_batches=8),
                                   Shape("pipeline", dp=4, pp=4, micro_batches=8, chunks=2)],
                         ids=["ddp", "tensor", "two of a stage", "interleaved"])
def test_a_rank_that_is_slow_in_few_steps_is_no_uneven_micro_batch(summarized, shape):
    # In 5 of 20 steps, three of them in a row: too few for a straggler among so many ranks and phases.
    truth, verdict = summarized(shape, Fault("rank", 2.0, (3,), share=0.4))
    cause = verdict["causes"][0]
    assert (cause["kind"], cause["ranks"]) == ("ranks", [3])
    assert without(cause) == pytest.approx(1 / truth.slowdown, abs=0.01)
    assert verdict["headline"].startswith("Rank 3 (node0) is slow now and then in backward, in 25 % of the steps. Without")
    assert cause["step_fraction"] == 0.25
    assert saving_of(verdict["headline"]) == pytest.approx(100 * (1 - 1 / truth.slowdown), abs=1)
    assert verdict["job_slowdown"] == pytest.approx(truth.slowdown, rel=0.01)


@shapes_and_damages
def test_what_a_phase_costs_that_one_rank_has(summarized, shape, damage):
    truth, verdict = summarized(shape, Fault("alone", 20.0, (3,)), damage)
    assert [(one["rank"], one["phase"], one["pattern"]) for one in verdict["stragglers"]] == [
        (3, "synthetic_straggler", "persistent")]
    cause = verdict["causes"][0]
    assert (cause["kind"], cause["ranks"], cause["phase"]) == ("ranks", [3], "synthetic_straggler")
    # Nothing stands for a lost row of a phase that few ranks have: what waits for it then waits for no reason.
    assert without(cause) == pytest.approx(1 / truth.slowdown, abs=0.05 if damage.lost else 0.005)


@pytest.mark.parametrize("kind", ["ddp", "blocking", "fsdp"])
def test_what_a_phase_costs_that_one_rank_has_now_and_then(summarized, kind):
    truth, verdict = summarized(Shape(kind, steps=40), Fault("alone", 60.0, (3,), every=5))
    assert [(one["rank"], one["phase"], one["every_steps"]) for one in verdict["stragglers"]] == [
        (3, "synthetic_straggler", 5)]
    assert 1 / verdict["job_slowdown"] == pytest.approx(1 / truth.slowdown, abs=0.02)


@pytest.mark.parametrize("arguments, expected", [
    ((PIPELINE, Fault("stage", 1.5), Damage(places=False)), {"kind": "stage", "ranks": [12, 13, 14, 15]}),
    ((Shape("ddp", dp=16, ranks_per_host=4), Fault("host", 1.3, (4, 5, 6, 7))),
     {"kind": "host", "host": "node1", "ranks": [4, 5, 6, 7]}),
    ((Shape("ddp"), Fault("transfers", 4.0)), {"kind": "communication", "phase": "all_reduce"}),
], ids=["a stage without places in run rows", "a slow host", "transfers that take longer now and then"])
def test_what_is_slow_is_one_cause(summarized, arguments, expected):
    truth, verdict = summarized(*arguments)
    cause = verdict["causes"][0]
    assert {key: cause[key] for key in expected} == expected
    assert cause["slowdown"] == pytest.approx(truth.slowdown, rel=0.01)


def test_shares_of_the_sources_add_up_to_one(summarized):
    _, verdict = summarized(PIPELINE, Fault("rank", 1.4, (3,)))
    shares = verdict["replay"]["shares"]
    assert sum(shares.values()) == pytest.approx(1, abs=1e-6)
    assert max(shares, key=shares.get) == "ranks"


def test_rows_without_starts_have_no_replay(cep, job):
    rng = random.Random(1)
    for rank in range(4):
        rows = attempt_rows(rank, range(20), rng=rng, world_size=4)
        job.write(rank, [{key: value for key, value in row.items() if key != "start_ns"} for row in rows])
    verdict = cep.summary("job")["verdict"]
    assert verdict["replay"] is None and verdict["causes"] == []


def test_rows_without_communication_say_nothing_of_causes(cep, job):
    rng = random.Random(1)
    for rank in range(4):
        job.write(rank, attempt_rows(rank, range(20), rng=rng, world_size=4, slow={"forward": 2} if rank == 1 else None))
    verdict = cep.summary("job")["verdict"]
    assert verdict["replay"]["matched"] == 0 and not verdict["replay"]["holds"] and verdict["causes"] == []


def test_a_replay_that_misses_what_was_observed_is_said_and_claims_nothing(cep, job):
    # Every rank waits 30 ms before its optimizer, now and then, for something that no row shows.
    def write(rank, rows):
        late_ns = 0
        for row in rows:
            if "step" not in row:
                continue
            if row["name"] == "optimizer" and row["step"] % 3 == 0:
                late_ns += 30_000_000
            row["start_ns"] += late_ns
        job.write(rank, [row for row in rows if row.get("kind") != "step"])

    make(write, Shape("ddp", steps=30), Fault("none"))
    replay = cep.summary("job")["verdict"]["replay"]
    note = re.search(r"a replay of the steps from their rows is ([\d.]+) % shorter than they were", cep("summarize", "job").stdout.decode())
    assert (note is None) == replay["holds"]
    if note:
        assert float(note[1]) == pytest.approx(-100 * replay["error"], abs=0.1)


def test_the_replay_does_not_depend_on_threads(cep, job):
    make(job.write, PIPELINE, Fault("rank", 1.4, (3,)), Damage(lost=0.05, skew_ms=5))
    one, four = (cep("summarize", "--json", "-j", threads, "job").stdout for threads in (1, 4))
    assert one == four


@pytest.mark.parametrize("every", [2, 4, 8])
def test_waits_for_the_loader_in_every_nth_step(summarized, every):
    truth, verdict = summarized(Shape("ddp", dp=8, steps=60), Fault("loader", 40.0, every=every))
    (cause,) = [cause for cause in verdict["causes"] if cause["kind"] == "loader"]
    assert (cause["phase"], cause["every_steps"]) == ("data_load", every)
    assert cause["usual_ms"] == pytest.approx(2, rel=0.02) and cause["slow_ms"] == pytest.approx(42, rel=0.02)
    assert cause["slowdown"] == pytest.approx(truth.slowdown, rel=0.01)
    assert re.match(rf"All ranks wait for data_load every {every} steps, 42\.\d+ ms instead of 2\.\d+ ms\. "
                    "Without that, steps would take", verdict["headline"])
    assert any("more workers" in line for line in verdict["next"]) and verdict["stragglers"] == []


def test_a_loader_that_is_slow_now_and_then_follows_no_rule(summarized):
    _, verdict = summarized(Shape("ddp", dp=8, steps=60, noise=0.05), Fault("jitter", 0.3, phases=("data_load",)))
    assert "loader" not in [cause["kind"] for cause in verdict["causes"]]


@pytest.mark.parametrize("shape, slow, first", [
    (Shape("tensor", tp=4, dp=4, steps=20, ranks_per_host=4), (4, 5, 6, 7), 0),
    (Shape("tensor", tp=8, dp=4, steps=20), (24, 25, 26, 27, 28, 29, 30, 31), 0),
    (Shape("tensor", tp=3, dp=3, steps=1380, tensor_layers=1, ranks_per_host=3), (3, 4, 5), 620)])
def test_a_slow_link_of_one_group_of_ranks(summarized, shape, slow, first):
    truth, verdict = summarized(shape, Fault("link", 6.0, ranks=slow, first=first))
    (cause,) = [cause for cause in verdict["causes"] if cause["kind"] == "link"]
    assert (tuple(cause["ranks"]), cause["phase"]) == (slow, "all_reduce")
    assert cause["host"] == f"node{slow[0] // shape.ranks_per_host}"
    assert cause["usual_ms"] == pytest.approx(0.3, rel=0.05) and cause["slow_ms"] == pytest.approx(1.8, rel=0.05)
    assert cause["slowdown"] == pytest.approx(truth.slowdown, rel=0.02)
    assert "The link of ranks" in verdict["headline"] and f"in {shape.dp - 1} other groups" in verdict["headline"]
    assert any("nvidia-smi nvlink" in line for line in verdict["next"])


def test_links_that_are_a_little_slower_are_healthy(summarized):
    _, verdict = summarized(Shape("tensor", tp=4, dp=4, steps=20), Fault("link", 1.1, ranks=(4, 5, 6, 7)))
    assert [cause for cause in verdict["causes"] if cause["kind"] == "link"] == []


def test_evidence_begins_with_the_rank_of_the_headline(cep, simulate):
    # While no rank is slow, a step takes as long as the slowest of all 32 happens to.
    window = {"rank": 9, "phase": "backward", "slowdown": 1.5, "first_step": 400, "last_step": 640}
    simulate("job", "--ranks", "32", "--steps", "1000", "--record-every", "5", "--seed", "11", "--noise", "0.02",
             faults=[window])
    verdict = cep.summary("job")["verdict"]
    assert verdict["headline"].startswith("Rank 9 (node1) is slow in backward, in steps 400 to 640. ")
    assert re.search(r"Without it, steps would take [\d.]+ % less time \([\d.]+ → [\d.]+ ms\)\.$", verdict["headline"])
    first, second = verdict["evidence"][:2]
    assert first.startswith("rank 9 (node1): backward takes 1.51 times as long as on its peers")
    assert second.startswith("the same work in backward takes longer now and then; without that")
    assert re.search(r"steps would take 1.5 % less time \([\d.]+ → [\d.]+ ms\);", second)


def test_a_rank_that_is_always_slow_is_to_be_looked_at_in_any_step(cep, simulate):
    simulate("job", "--ranks", "16", "--steps", "500", "--record-every", "5",
             faults=[{"rank": 6, "phase": "forward", "slowdown": 1.4}])
    (line,) = (line for line in cep.summary("job")["verdict"]["next"] if "on rank 6" in line)
    assert line.endswith("on rank 6 in any step")


def test_headline_and_causes_of_slow_ranks_are_one_number(cep, job):
    truth = make(job.write, Shape("ddp"), Fault("rank", 1.4, (3,)))
    verdict = cep.summary("job")["verdict"]
    (cause,) = (cause for cause in verdict["causes"] if cause["kind"] == "ranks")
    said = saving_of(verdict["headline"])
    assert said == pytest.approx(100 * (1 - 1 / truth.slowdown), abs=1)
    assert said == pytest.approx(100 * (1 - 1 / cause["slowdown"]), abs=0.6)
    assert said == pytest.approx(100 * (1 - 1 / verdict["job_slowdown"]), abs=0.6)
    assert verdict["stragglers"][0]["cost_share"] == pytest.approx(1 - 1 / cause["slowdown"], rel=1e-6)


@pytest.mark.parametrize("lost", [0.1, 0.15])
def test_lost_rows_of_a_phase_count_as_much_as_those_between_which_their_numbers_are_missing(summarized, lost):
    shape = Shape("pipeline", dp=2, pp=4, micro_batches=8)
    truth, verdict = summarized(shape, Fault("rank", 1.4, (3,)), Damage(lost=lost, seed=1))
    cause = verdict["causes"][0]
    assert (cause["kind"], cause["ranks"]) == ("ranks", [3])
    assert without(cause) == pytest.approx(1 / truth.slowdown, abs=0.005)


def test_where_many_rows_are_lost_no_saving_is_said(cep, job):
    """Rows show only the forward of what rank 3 does more: a saving of 9 % where it is 27 %."""
    make(job.write, Shape("accumulation", micro_batches=4), Fault("rank", 1.4, (3,)), Damage(lost=0.3, seed=1))
    verdict = cep.summary("job")["verdict"]
    assert [one["rank"] for one in verdict["stragglers"]] == [3]
    assert verdict["job_slowdown"] is None and "less time" not in verdict["headline"]
    assert "what that costs is not known: 29 % of the rows were lost" in cep("summarize", "job").stdout.decode()


def test_of_ranks_whose_cost_is_not_known_the_slowest_is_the_worst(summarized):
    # Ranks of its tp group look slow as well, where the row of a collective is lost in which they wait for it.
    _, verdict = summarized(Shape("tensor", dp=4, tp=4), Fault("rank", 1.4, (3,)), Damage(lost=0.2, seed=1))
    assert verdict["job_slowdown"] is None and "worst is rank 3 " in verdict["headline"]


def test_transfers_whose_other_ends_are_lost_are_still_matched(cep, job):
    """The receive of a send whose row is there is missing as often as any row: that says nothing of the others."""
    truth = make(job.write, Shape("pipeline", dp=4, pp=4, micro_batches=8), Fault("rank", 1.4, (3,)), Damage(lost=0.12))
    verdict = cep.summary("job")["verdict"]
    assert verdict["replay"]["holds"]
    assert verdict["job_slowdown"] == pytest.approx(truth.slowdown, abs=0.01)
