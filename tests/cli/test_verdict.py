# SPDX-License-Identifier: Apache-2.0
"""The verdict: what it says of jobs whose every number is known, and each of its figures computed again by hand."""

import json
import random
import re

import array_jobs
import numpy as np
import pytest
from conftest import START_NS, attempt_rows, run_row, span_row, verdict_of

RANKS = 4
STEPS = 40
TRANSFER_MS = 2.0
UNEVEN = (1, 2, 5, 9, 10, 16, 18, 22, 23, 29, 33, 36, 37)


class Trainer:
    """Ranks in a data-parallel job, step by step: data, forward, backward, then an all-reduce that ends for all at once."""

    def __init__(self, job, *, ranks=RANKS, run=None, seed=1, noise=0.005):
        self.job, self.ranks, self.rng, self.noise = job, ranks, random.Random(seed), noise
        self.rows = {rank: [run_row(rank, world_size=ranks, **(run or {}))] for rank in range(ranks)}
        self.begin_ns = START_NS + 10**9
        self.own = {}  # (rank, step): ms
        self.step_ms = {}

    def step(self, step, extra=None, *, coll=True, mark=None, alone=None):
        """`extra`: (rank, phase) to ms on top. `alone`: rank to ms of a phase that no other rank has."""
        extra = extra or {}
        ends = {}
        for rank in range(self.ranks):
            now_ns, own_ms = self.begin_ns, 0.0
            for seq, (name, kind, ms) in enumerate((("data_load", "data", 4.0), ("forward", "compute", 30.0),
                                                    ("backward", "compute", 60.0))):
                ms = ms * self.rng.gauss(1, self.noise) + extra.get((rank, name), 0.0)
                self.rows[rank].append(span_row(rank, step, name, round(ms, 6), now_ns, kind=kind, clock="gpu", stream=0,
                                                lag_ms=5.0))
                now_ns += round(ms * 1e6)
                own_ms += ms
            if ms := (alone or {}).get(rank):
                self.rows[rank].append(span_row(rank, step, "validation", ms, now_ns, clock="gpu", stream=0, lag_ms=5.0))
                now_ns += round(ms * 1e6)
                own_ms += ms
            ends[rank], self.own[rank, step] = now_ns, own_ms
        end_ns = max(ends.values()) + round(TRANSFER_MS * 1e6)
        for rank in range(self.ranks):
            more = {"bytes": 1 << 20, "group": "dp", "coll": step} if coll else {}
            self.rows[rank].append(span_row(rank, step, "all_reduce", round((end_ns - ends[rank]) * 1e-6, 6), ends[rank],
                                            kind="comm", clock="gpu", stream=0, lag_ms=50.0, **more))
            self.step_ms[step] = (end_ns - self.begin_ns) * 1e-6
            self.rows[rank].append(span_row(rank, step, "training_step", self.step_ms[step], self.begin_ns, kind="step",
                                            clock="gpu", stream=0, lag_ms=0.01, depth=0))
            if mark:
                self.rows[rank].append({"type": "mark", "name": mark, "step": step, "rank": rank, "start_ns": end_ns})
        self.begin_ns = end_ns + 10**6

    def elapsed_ms(self):
        """From the first row of the first step to the last row: with the millisecond between steps."""
        return (self.begin_ns - 10**6 - START_NS - 10**9) * 1e-6

    def train(self, extra=None, *, steps=STEPS, **more):
        """Steps, and their files. `extra` may be by step."""
        for step in range(steps):
            self.step(step, extra(step) if callable(extra) else extra, **more)
        self.write()

    def write(self):
        for rank, rows in self.rows.items():
            self.job.write(rank, rows)
        return self


@pytest.fixture
def trainer(job):
    return Trainer(job)


def test_a_healthy_job_has_no_straggler(cep, trainer):
    trainer.train()
    verdict = verdict_of(cep)
    assert verdict["stragglers"] == [] and verdict["harmless"] == [] and not verdict["abstained"]
    assert verdict["job_slowdown"] == 1
    assert verdict["headline"].startswith("No straggler")
    assert cep("summarize", "job").stdout.decode().startswith("No straggler")


def test_figures_of_a_straggler_are_those_of_its_rows(cep, trainer):
    trainer.train({(2, "forward"): 9.0})
    verdict = verdict_of(cep)
    (straggler,) = verdict["stragglers"]
    forward = np.array([[row["duration_ms"] for row in trainer.rows[rank] if row.get("name") == "forward"]
                        for rank in range(RANKS)])
    usual = np.median(np.delete(forward, 2, axis=0), axis=0)
    comm = np.array([[row["duration_ms"] for row in trainer.rows[rank] if row.get("name") == "all_reduce"]
                     for rank in range(RANKS)])
    waits = np.delete(comm - comm.min(axis=0), 2, axis=0)
    assert (straggler["rank"], straggler["phase"], straggler["pattern"]) == (2, "forward", "persistent")
    assert (straggler["first_step"], straggler["last_step"], straggler["step_fraction"]) == (0, STEPS - 1, 1)
    assert straggler["host"] == "node0"
    # Against the peers' low quartile, centred: within the noise of 0.5 % of 30 ms.
    assert straggler["excess_ms"] == pytest.approx(np.median(forward[2] - usual), abs=0.15)
    assert straggler["slowdown"] == pytest.approx(np.median(forward[2] / usual), abs=0.006)
    assert straggler["waiters_median_wait_ms"] == pytest.approx(np.median(np.median(waits, axis=0)), rel=1e-5)
    assert straggler["confidence"] > 0.999
    own = np.array([[trainer.own[rank, step] for step in range(STEPS)] for rank in range(RANKS)])
    saved = (own[2] - np.delete(own, 2, axis=0).max(axis=0)).clip(0)
    total = sum(trainer.step_ms.values())
    elapsed = trainer.elapsed_ms()
    assert verdict["job_slowdown"] == pytest.approx(elapsed / (elapsed - saved.sum()), rel=1e-5)
    assert straggler["cost_share"] == pytest.approx(saved.sum() / total, rel=1e-5)
    assert verdict["gpu_hours_lost"] == pytest.approx(saved.sum() * RANKS / 3.6e6, rel=1e-4)


@pytest.mark.parametrize("slow, pattern", [(range(10, 25), "window"), (range(3, 40, 3), "intermittent")])
def test_patterns(cep, trainer, slow, pattern):
    trainer.train(lambda step: {(1, "backward"): 15.0} if step in slow else None)
    (straggler,) = verdict_of(cep)["stragglers"]
    assert (straggler["rank"], straggler["phase"], straggler["pattern"]) == (1, "backward", pattern)
    assert (straggler["first_step"], straggler["last_step"]) == (slow[0], slow[-1])
    assert straggler["step_fraction"] == pytest.approx(len(slow) / STEPS, abs=0.01)


def test_what_grows_is_said_to_grow(cep, trainer):
    trainer.train(lambda step: {(3, "forward"): 0.6 * step})
    (straggler,) = verdict_of(cep)["stragglers"]
    assert straggler["rank"] == 3 and straggler["grows"] and straggler["first_step"] <= 4
    assert "it grows" in cep("summarize", "job").stdout.decode()


def test_stragglers_are_ordered_by_what_they_cost(cep, trainer):
    trainer.train({(0, "forward"): 6.0, (3, "data_load"): 20.0})
    assert [s["rank"] for s in verdict_of(cep)["stragglers"]] == [3, 0]


def test_what_one_rank_does_alone_is_no_work_of_its_peers(cep, trainer):
    # Rank 2 is slow, but ready before rank 0, which alone validates. Without rank 0, steps would wait for rank 2.
    trainer.train({(2, "forward"): 5.0}, alone={0: 12.0})
    verdict = verdict_of(cep)
    assert [(one["rank"], one["phase"]) for one in verdict["stragglers"]] == [(0, "validation"), (2, "forward")]
    assert verdict["stragglers"][0]["excess_ms"] == pytest.approx(12, abs=0.1)
    assert verdict["stragglers"][1]["excess_ms"] == pytest.approx(5, abs=0.1) and verdict["harmless"] == []
    # Rank 0 is no pipeline stage with too many layers.
    assert [(cause["kind"], cause["ranks"], cause["phase"]) for cause in verdict["causes"]] == [
        ("ranks", [0, 2], "validation")]
    # Without both: rank 0 is the last by 12 ms, and then rank 2 by 5.
    step_ms = np.mean(list(trainer.step_ms.values()))
    assert verdict["job_slowdown"] == pytest.approx(step_ms / (step_ms - 12), rel=0.01)
    assert verdict["causes"][0]["slowdown"] == pytest.approx(verdict["job_slowdown"], rel=0.02)


def test_all_ranks_slow_is_a_change_and_no_straggler(cep, trainer):
    for step in range(STEPS):
        late = {(rank, "backward"): 12.0 for rank in range(RANKS)} if step >= 22 else None
        trainer.step(step, late)
    trainer.write()
    verdict = verdict_of(cep)
    assert verdict["stragglers"] == []
    (change,) = verdict["changes"]
    times = np.array([trainer.step_ms[step] for step in range(STEPS)])
    assert change["step"] == 22 and change["phase"] == "backward"
    assert change["before_ms"] == pytest.approx(np.median(times[:22]), rel=1e-6)
    assert change["after_ms"] == pytest.approx(np.median(times[22:]), rel=1e-6)
    assert "every step from 22 on" in verdict["headline"]


def test_a_straggler_is_no_change_of_the_job(cep, trainer):
    trainer.train(lambda step: {(1, "backward"): 25.0} if step >= 20 else None)
    verdict = verdict_of(cep)
    assert [s["first_step"] for s in verdict["stragglers"]] == [20]
    assert verdict["changes"] == []


def test_checkpoints_are_told_from_steps_that_nobody_explains(cep, trainer):
    for step in range(STEPS):
        stop = {(rank, "forward"): 200.0 for rank in range(RANKS)} if step in (15, 28) else None
        trainer.step(step, stop, mark="checkpoint" if step == 15 else None)
    trainer.write()
    events = verdict_of(cep)["events"]
    assert (events["marked_steps"], events["unmarked_steps"]) == ([15], [28])
    assert events["marked_excess_ms"] == pytest.approx(200, rel=0.02)


def test_long_steps_without_a_mark_name_the_phase_that_has_them(cep, trainer):
    trainer.train(lambda step: {(rank, "forward"): 200.0 for rank in range(RANKS)} if step in (15, 28) else None)
    (line,) = [one for one in verdict_of(cep)["evidence"] if "1.5 times as long" in one]
    assert "most of it in forward: steps 15, 28" in line and "no mark says why" not in line


def test_the_share_of_long_steps_is_of_all_the_time_also_beside_a_slow_rank(cep, trainer):
    def extra(step):
        return {**{(1, "backward"): 100.0}, **({(rank, "forward"): 500.0 for rank in range(RANKS)} if step == 15 else {})}

    trainer.train(extra)
    (line,) = [one for one in verdict_of(cep)["evidence"] if "1.5 times as long" in one]
    said = float(re.search(r"\(([0-9.]+) % of the time\)", line)[1])
    assert said == pytest.approx(100 * 500 / sum(trainer.step_ms.values()), abs=0.2)


def test_without_collectives_the_outlier_is_named(cep, four_ranks):
    verdict = verdict_of(cep)
    assert [(one["rank"], one["phase"]) for one in verdict["stragglers"]] == [(2, "backward")]
    assert verdict["job_slowdown"] is None


def test_without_collectives_and_outlier_it_abstains_and_says_what_to_do(cep, job):
    rng = random.Random(7)
    for rank in range(4):
        job.write(rank, attempt_rows(rank, range(30), rng=rng, world_size=4))
    verdict = verdict_of(cep)
    assert verdict["abstained"] and verdict["stragglers"] == []
    assert "no phase is a collective" in verdict["reason"]
    assert any("group and coll" in line for line in verdict["next"])
    assert verdict["bound"] == "unknown", "the communication is in what looks like compute"
    assert any("no communication is timed" in line for line in verdict["evidence"])


def test_a_job_of_one_rank_has_no_communication_to_hide(cep, job):
    rows = [run_row(0, world_size=1)]
    for step in range(STEPS):
        begin_ns = START_NS + 10**7 + step * 51_000_000
        rows.append(span_row(0, step, "forward", 50.0, begin_ns, clock="gpu", stream=0, lag_ms=5.0))
    job.write(0, rows)
    assert verdict_of(cep)["bound"] == "compute"


def test_few_steps_are_too_few(cep, trainer):
    trainer.train({(1, "forward"): 20.0}, steps=5)
    assert "5 recorded steps are too few" in verdict_of(cep)["reason"]
    assert "1 recorded step is too few" in verdict_of(cep, "--steps", "2:2")["reason"]


def test_few_steps_give_a_hint_and_no_verdict(cep, trainer):
    trainer.train({(1, "forward"): 20.0}, steps=3)
    verdict = verdict_of(cep)
    assert verdict["abstained"] and verdict["stragglers"] == []
    assert (verdict["hint"]["rank"], verdict["hint"]["phase"]) == (1, "forward")
    assert verdict["hint"]["own_ms"] - verdict["hint"]["peers_ms"] == pytest.approx(20, abs=1)
    assert verdict["headline"].startswith("3 steps: a hint, not a verdict. Rank 1")
    assert "in forward" in verdict["headline"] and verdict["shares"]["compute"] > 0


def test_few_steps_of_equal_ranks_give_no_suspect(cep, trainer):
    trainer.train(lambda step: {(step % 3, "forward"): 20.0}, steps=3)
    verdict = verdict_of(cep)
    assert verdict["hint"] is None
    assert verdict["headline"] == "3 steps: a hint, not a verdict. No rank stands out in all of them."


def test_outages_and_steps_done_again_are_said(cep, tmp_path):
    texts = {}
    for attempt, (first, steps, delay_s) in enumerate([(0, 60, 0), (40, 60, 300)], 1):
        start_ns = array_jobs.START_NS + delay_s * 10**9

        def run(rank):
            return json.dumps({"type": "run", "schema": 1, "run_id": "r", "attempt": attempt, "rank": rank,
                               "world_size": 4, "start_unix_ns": start_ns})
        part = tmp_path / f"part{attempt}"
        array_jobs.write_job(part, array_jobs.own_times(4, steps), run=run, first_step=first)
        for path in part.iterdir():
            text = path.read_text()
            texts[path.name] = texts.get(path.name, "") + re.sub(
                r'"start_ns":(\d+)', lambda match: f'"start_ns":{int(match[1]) + delay_s * 10**9}', text)
    (tmp_path / "job").mkdir()
    for name, text in texts.items():
        (tmp_path / "job" / name).write_text(text)
    evidence = verdict_of(cep)["evidence"]
    assert any(line.startswith("between attempts the job stood still for 294") for line in evidence)
    assert any(line.startswith("steps that a later attempt did again took 1.9") for line in evidence)


@pytest.mark.parametrize("absent, who", [((1,), "it may be rank 1"), ((1, 3), "it may be one of ranks 1, 3")])
def test_a_rank_that_is_not_there_may_be_the_slow_one(cep, trainer, absent, who):
    for step in range(STEPS):
        trainer.step(step, {(1, "forward"): 20.0})
    for rank in absent:
        del trainer.rows[rank]
    trainer.write()
    verdict = verdict_of(cep)
    assert verdict["abstained"] and verdict["reason"].endswith(who)


def test_the_table_names_the_rank_that_the_verdict_names(cep, trainer):
    """Rank 2 is slow in each step; rank 0 has a larger mean, of one step."""
    trainer.train(lambda step: {(2, "forward"): 3.0, (0, "forward"): 400.0 if step == 20 else 0.0})
    summary = json.loads(cep("summarize", "--json", "job").stdout)
    assert summary["verdict"]["stragglers"][0]["rank"] == 2
    (forward,) = [phase for phase in summary["phases"] if phase["name"] == "forward"]
    assert forward["slowest_rank"] == 2 and forward["skew"] == pytest.approx(33 / 31.5, abs=0.005)


@pytest.mark.parametrize("slow, steps", [(range(STEPS), "any step"), (range(10, 25), "steps 10 to 24"),
                                         (range(3, 40, 3), "any 3 steps"), (UNEVEN, "any 8 steps")])
def test_the_advice_names_the_steps_to_look_at(cep, trainer, slow, steps):
    trainer.train(lambda step: {(2, "forward"): 30.0} if step in slow else {})
    verdict = verdict_of(cep)
    assert any(line.endswith(f"on rank 2 in {steps}") for line in verdict["next"])
    assert b"\nhow sure  almost certain: chance alone" in cep("summarize", "job").stdout
    assert b"\n- How sure: almost certain: chance alone" in cep("summarize", "--markdown", "job").stdout


def test_only_some_phases_are_not_judged(cep, trainer):
    trainer.train()
    assert "only some phases" in verdict_of(cep, "--phases", "forward")["reason"]
    assert "more durations than were kept" in verdict_of(cep, "--max-samples", "50")["reason"]


def test_collectives_without_numbers_match_by_their_place(cep, trainer):
    trainer.train({(2, "forward"): 9.0}, coll=False)
    (straggler,) = verdict_of(cep)["stragglers"]
    assert straggler["rank"] == 2 and straggler["waiters_median_wait_ms"] == pytest.approx(9, abs=0.3)


def test_shares_and_bound_are_those_of_the_rows(cep, trainer):
    trainer.train()
    verdict = verdict_of(cep)
    lengths_ms = [trainer.step_ms[step] + (step < STEPS - 1) for step in range(STEPS)]  # to the next step's first row
    durations = {name: np.mean([[r["duration_ms"] for r in trainer.rows[rank] if r.get("name") == name]
                                for rank in range(RANKS)]) for name in ("data_load", "all_reduce")}
    assert verdict["bound"] == "compute"
    assert verdict["step_ms"] == pytest.approx(np.median(lengths_ms), rel=1e-6)
    assert verdict["shares"]["data"] == pytest.approx(durations["data_load"] / np.mean(lengths_ms), rel=1e-5)
    assert verdict["shares"]["comm"] == pytest.approx(durations["all_reduce"] / np.mean(lengths_ms), rel=1e-5)


def test_efficiency_is_that_of_the_run_rows(cep, job):
    trainer = Trainer(job, run={"flops_per_step": 4e13, "hardware_flops_per_step": 5e13, "peak_flops": 1e15,
                                "tokens_per_step": 8192})
    trainer.train()
    step_s = (trainer.elapsed_ms() + 1e3) / STEPS * 1e-3  # the first step begins a second after the run row
    efficiency = cep.summary("job")["efficiency"]
    assert efficiency["mfu"] == pytest.approx(4e13 / step_s / 1e15, rel=1e-6)
    assert efficiency["hfu"] == pytest.approx(5e13 / step_s / 1e15, rel=1e-6)
    assert efficiency["tokens_per_s"] == pytest.approx(8192 / step_s, rel=1e-6)
    assert efficiency["overlap_efficiency"] == 0 and efficiency["bubble_fraction"] is None
    assert cep.summary("--peak-flops", "2e15", "job")["efficiency"]["mfu"] == pytest.approx(
        4e13 / step_s / 2e15, rel=1e-6)


@pytest.mark.parametrize("device, peak", [("NVIDIA H200", 989.4e12), ("NVIDIA H100 80GB HBM3", 989.4e12),
                                          ("NVIDIA A100-SXM4-80GB", 312e12), ("NVIDIA L4", 121e12), ("GeForce", None),
                                          ("NVIDIA H200 NVL", 835e12), ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None)])
def test_peaks_of_known_devices_are_used_and_never_guessed(cep, job, device, peak):
    trainer = Trainer(job, run={"flops_per_step": 4e13, "device_name": device})
    trainer.train(steps=10)
    step_s = (trainer.elapsed_ms() + 1e3) / 10 * 1e-3
    mfu = cep.summary("job")["efficiency"]["mfu"]
    assert mfu is None if peak is None else mfu == pytest.approx(4e13 / step_s / peak, rel=1e-6)
    said = f"no MFU: the peak of {device} is not known; --peak-flops gives it"
    assert (said in cep("summarize", "job").stdout.decode()) == (peak is None)


def test_overlap_is_the_intersection_of_intervals(cep, job):
    rows = {rank: [run_row(rank, world_size=3)] for rank in range(3)}
    for rank in range(3):
        for step in range(10):
            begin_ns = START_NS + (step + 1) * 10**9
            rows[rank] += [
                span_row(rank, step, "backward", 50.0, begin_ns, clock="gpu", stream=0),
                # 10 ms beside the backward, then 30 ms of two that overlap each other, 20 ms of these beside it.
                span_row(rank, step, "all_reduce", 10.0, begin_ns + 10_000_000, kind="comm", stream=1, clock="gpu"),
                span_row(rank, step, "all_reduce", 20.0, begin_ns + 30_000_000, kind="comm", stream=1, clock="gpu",
                         seq=1),
                span_row(rank, step, "all_gather", 20.0, begin_ns + 40_000_000, kind="comm", stream=2, clock="gpu"),
            ]
        job.write(rank, rows[rank])
    efficiency = cep.summary("job")["efficiency"]
    # The second all-reduce ends with the backward, which waits for it: 20 ms of the backward are no work.
    assert efficiency["comm_ms"] == pytest.approx(40, rel=1e-6)
    assert efficiency["exposed_comm_ms"] == pytest.approx(30, rel=1e-6)
    assert efficiency["overlap_efficiency"] == pytest.approx(0.25, rel=1e-6)


def test_bubble_of_a_pipeline_beside_what_its_schedule_needs(cep, job):
    stages, micro_batches = 4, 6
    for rank in range(stages):
        rows = [run_row(rank, world_size=stages, pp=rank)]
        for step in range(10):
            begin_ns = START_NS + (step + 1) * 10**8  # of a step of 100 ms
            rows += [span_row(rank, step, "forward", 10.0, begin_ns + i * 15_000_000, seq=i) for i in range(micro_batches)]
            rows.append(span_row(rank, step, "training_step", 100.0, begin_ns, kind="step", depth=0))
        job.write(rank, rows)
    summary = cep.summary("job")
    assert summary["efficiency"]["bubble_fraction"] == pytest.approx(0.4, rel=1e-6)
    assert summary["efficiency"]["theoretical_bubble_fraction"] == pytest.approx(3 / 9)
    assert summary["verdict"]["abstained"]


@pytest.mark.parametrize("finding, status", [("straggler", 1), ("bound:compute", 1), ("bound:comm", 0), ("change", 0),
                                             ("imbalance", 0), ("abstained", 0)])
def test_fail_on_a_finding(cep, trainer, finding, status):
    trainer.train({(2, "forward"): 9.0})
    done = cep("summarize", "--fail-on", finding, "job", status=status)
    assert (f"--fail-on {finding}:" in done.stderr.decode()) == (status == 1)
    assert done.stdout.decode().startswith("Rank 2 (node0) is slow in forward")


def test_fail_on_something_unknown_is_a_usage_error(cep, trainer):
    trainer.step(0)
    trainer.write()
    assert "--fail-on" in cep("summarize", "--fail-on", "bound:magic", "job", status=2).stderr.decode()


def test_no_verdict_leaves_the_table(cep, trainer):
    trainer.train()
    assert cep.summary("--no-verdict", "job")["verdict"] is None
    of_the_ledger = {"share", "slowest_rank", "skew"}
    without, whole = ([{key: value for key, value in phase.items() if key not in of_the_ledger}
                       for phase in cep.summary(*more, "job")["phases"]] for more in (["--no-verdict"], []))
    assert without == whole
    assert {phase["share"] for phase in cep.summary("--no-verdict", "job")["phases"]} == {None}
    text = cep("summarize", "--no-verdict", "job").stdout.decode()
    assert text.startswith("ranks ") and "where the time went" not in text
    assert "needs the verdict" in cep("summarize", "--no-verdict", "--fail-on", "change", "job", status=2).stderr.decode()


def test_markdown_begins_with_the_verdict(cep, trainer):
    trainer.train({(2, "forward"): 9.0})
    text = cep("summarize", "--markdown", "job").stdout.decode()
    assert re.match(r"# Training job\n\n\*\*Rank 2 \(node0\) is slow in forward.*\*\*\n\n- rank 2", text)


def test_rows_of_other_profilers_are_judged_without_times(cep, job):
    rng = random.Random(3)
    lines = {rank: [] for rank in range(4)}
    for step in range(STEPS):
        own = {rank: 50 * rng.gauss(1, 0.005) + (8 if rank == 3 else 0) for rank in range(4)}
        for rank in range(4):
            lines[rank] += [{"name": "forward", "step": step, "rank": rank, "duration_ms": own[rank]},
                            {"name": "all_reduce", "step": step, "rank": rank,
                             "duration_ms": max(own.values()) - own[rank] + 1}]
    for rank in range(4):
        job.write(rank, lines[rank])
    (straggler,) = verdict_of(cep)["stragglers"]
    assert (straggler["rank"], straggler["phase"], straggler["host"]) == (3, "forward", None)
    json.dumps(straggler)
