# SPDX-License-Identifier: Apache-2.0
"""Jobs that wait, and what the verdict says of who keeps them waiting."""

import json
import re

import numpy as np
import pytest
from conftest import START_NS, line_of, names_of, run_row, span_row, verdict_naming, verdict_of
from array_jobs import own_times, write_job
from made_jobs import TRANSFER_MS, Damage, Shape, make, write_files


def judged(cep, tmp_path, *arguments, **more):
    """The verdict of a job that write_job() makes."""
    write_job(tmp_path / "job", *arguments, **more)
    return verdict_of(cep)


def chance_of_student(t, freedom):
    """By the angle whose tangent is t / √freedom: its density is a power of its cosine."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, 2_000_001)
    density = np.cos(angles) ** (freedom - 1)
    return density[angles > np.arctan(t / np.sqrt(freedom))].sum() / density.sum()


def chance_of_mean(excess):
    """Student's t of the mean of steps that resemble their neighbours, and how many are independent."""
    distances = np.abs(excess - np.median(excess))
    limit = 4 * max(1.4826022185056018 * np.median(distances), np.quantile(distances, 0.9) / 1.645)
    excess = np.clip(excess, np.median(excess) - limit, np.median(excess) + limit)
    apart = excess - excess.mean()
    correlation = (apart[1:] * apart[:-1]).sum() / ((apart[1:] ** 2 + apart[:-1] ** 2) / 2).sum()
    correlation += (1 + 3 * correlation) / len(apart)
    inflations = [(1 + correlation) / (1 - correlation)]
    for blocks in (8, 32):
        used = apart[:blocks * (len(apart) // blocks)]
        inflations.append((used.reshape(blocks, -1).sum(axis=1) ** 2).sum() / (used**2).sum())
    independent = len(apart) / max(inflations)
    return chance_of_student(excess.mean() * np.sqrt(independent - 1) / excess.std(), independent - 1), independent


def in_stretches(rng, steps, mean_length, *levels):
    """Levels that take turns, each for so many steps on average."""
    return np.array(levels)[np.cumsum(rng.random(steps) < 1 / mean_length) % len(levels)]


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_a_rank_that_is_slow_in_all_steps_is_named_though_by_different_amounts_in_stretches(cep, tmp_path, seed):
    steps, rng = 90, np.random.default_rng(seed)
    own = own_times(2, steps, {"forward": ("compute", 20.0), "backward": ("compute", 25.0)}, noise=0.015, rng=rng)
    own["forward"][1] += in_stretches(rng, steps, 12, 2.5, 5.0)
    verdict = judged(cep, tmp_path, own)
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"], group["typical"]["pattern"]) == ([1], "forward", "persistent")
    chance, independent = chance_of_mean(own["forward"][1] - own["forward"][0])
    assert independent < steps / 5
    tests = 2 * 3  # ranks; phases and time in none
    assert 1 - group["typical"]["confidence"] == pytest.approx(tests * chance, rel=0.01)


def test_waits_that_may_be_chance_are_no_all_clear(cep, tmp_path):
    steps, rng = 90, np.random.default_rng(2)
    own = own_times(2, steps, {"forward": ("compute", 20.0), "backward": ("compute", 25.0)}, noise=0.015, rng=rng)
    own["forward"][1] += in_stretches(rng, steps, 30, 4.5, 9.0)
    verdict = judged(cep, tmp_path, own)
    assert verdict["abstained"] and verdict["groups"] == [] and verdict["late_rank"] is None
    assert re.search("rank 0 waits .* longer than rank 1, perhaps for it; but .* may be chance", verdict["headline"])


@pytest.mark.parametrize("step_spans", [True, False, "late"])
def test_a_rank_that_loses_time_outside_of_any_phase_is_named(cep, tmp_path, step_spans):
    own = own_times(8, 60, {"forward": ("compute", 3.0), "backward": ("compute", 6.0)})
    before = np.zeros((8, 60))
    before[2] = 100.0
    step_ms = write_job(tmp_path / "job", own, before=before, step_spans=step_spans)
    verdict = verdict_naming(cep, (2, "uncovered", "persistent"))
    (straggler,) = verdict["stragglers"]
    assert straggler["excess_ms"] == pytest.approx(100, abs=1)
    assert straggler["waiters_median_wait_ms"] == pytest.approx(100, abs=1)
    if step_spans is True:
        assert verdict["job_slowdown"] == pytest.approx(np.mean(step_ms) / (np.mean(step_ms) - 100), rel=0.02)
    assert verdict["headline"].startswith("Rank 2 is slow in time that no phase covers, in nearly every step.")
    assert any("time what rank 2 does outside of its phases" in line for line in verdict["next"])


def test_uncovered_time_in_which_others_wait_for_a_rank_is_not_blamed_on_them(cep, tmp_path):
    own = own_times(8, 60)
    own["forward"][3] += 20
    before = np.zeros((8, 60))
    before[[0, 1, 2, 4, 5, 6, 7]] = 20  # they wait for rank 3 in something that is not timed
    verdict = judged(cep, tmp_path, own, before=before)
    assert [(one["rank"], one["phase"]) for one in verdict["stragglers"]] == [(3, "forward")]
    assert verdict["groups"] == []


def test_typical_uncovered_time_is_in_the_json(cep, tmp_path):
    write_job(tmp_path / "job", own_times(4, 30), before=np.full((4, 30), 7.0))
    assert verdict_of(cep)["uncovered_ms"] == pytest.approx(7.1, abs=0.01), "and 0.1 ms between steps"


@pytest.mark.parametrize("ranks, slow", [(4, 3), (8, 5), (8, 6), (16, 10), (3, 2)])
def test_where_most_ranks_are_slow_there_are_two_groups(cep, tmp_path, ranks, slow):
    own = own_times(ranks, 60)
    own["forward"][:slow] += 15
    step_ms = write_job(tmp_path / "job", own)
    verdict = verdict_of(cep)
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["fast_ranks"]) == (list(range(slow)), list(range(slow, ranks)))
    typical = group["typical"]
    assert (typical["phase"], typical["pattern"]) == ("forward", "persistent")
    assert group["fast_ms"] == pytest.approx(30, rel=0.02)
    assert typical["excess_ms"] == pytest.approx(15, abs=0.5)
    assert typical["waiters_median_wait_ms"] == pytest.approx(15, abs=2)
    assert verdict["stragglers"] == []
    assert verdict["job_slowdown"] == pytest.approx(np.mean(step_ms) / (np.mean(step_ms) - 15), rel=0.02)
    assert verdict["headline"].startswith("The ranks are two groups: forward takes 4")
    cep("summarize", "--fail-on", "straggler", "job", status=1)


def test_a_slow_group_is_slow_since_a_step_and_on_hosts(cep, tmp_path):
    own = own_times(12, 200)
    own["backward"][:8, 120:] += 25
    (group,) = judged(cep, tmp_path, own, run=lambda rank: line_of(run_row(rank, world_size=12)))["groups"]
    assert group["slow_ranks"] == list(range(8))
    assert (group["slow_hosts"], group["fast_hosts"]) == (["node0", "node1"], ["node2"])
    assert (group["typical"]["pattern"], group["typical"]["first_step"]) == ("window", 120)


def test_of_two_ranks_one_waits_for_the_other(cep, tmp_path):
    own = own_times(2, 60)
    own["forward"][1] += 20
    verdict = judged(cep, tmp_path, own)
    assert not verdict["abstained"]
    assert verdict["headline"].startswith("Rank 0 waits 20.")
    assert "ms a step for rank 1: forward takes 49.99 ms on rank 1, 29.97 ms on rank 0 (1.67 times" in verdict["headline"]
    (group,) = verdict["groups"]
    assert (group["slow_ranks"], group["fast_ranks"]) == ([1], [0])


def test_two_equal_ranks_do_not_wait(cep, tmp_path):
    verdict = judged(cep, tmp_path, own_times(2, 60))
    assert not verdict["abstained"] and verdict["groups"] == [] and verdict["stragglers"] == []
    assert verdict["headline"].startswith("No straggler: neither rank")


def test_two_ranks_of_which_one_is_late_for_no_timed_reason(cep, tmp_path):
    own = own_times(2, 60)
    before = np.zeros((2, 60))
    before[0] = 30
    (group,) = judged(cep, tmp_path, own, before=before)["groups"]
    assert (group["slow_ranks"], group["typical"]["phase"]) == ([0], "uncovered")


def test_one_rank_has_a_bound_and_no_abstention(cep, tmp_path):
    own = own_times(1, 40, {"data_load": ("data", 70.0), "forward": ("compute", 10.0), "backward": ("compute", 20.0)})
    verdict = judged(cep, tmp_path, own, collective=False)
    assert not verdict["abstained"] and verdict["bound"] == "data"
    assert verdict["headline"].startswith("One rank, bound by its input: 70 % of a step of 100.1 ms")


def test_one_rank_that_nothing_bounds_is_told_its_two_largest(cep, tmp_path):
    own = own_times(1, 40, {"data_load": ("data", 49.0), "forward": ("compute", 51.0)})
    write_job(tmp_path / "job", own, kinds={"data_load": "data", "forward": "compute"}, collective=False)
    assert verdict_of(cep)["headline"].startswith(
        "One rank: a step takes 100.1 ms, 51 % of it compute; the largest loss is loading data, 49 % of the time.")


def test_without_collectives_an_outlier_is_named_and_its_waiters_are_not_known(cep, tmp_path):
    phases = {"host_to_device": ("memory", 1.0), "forward": ("compute", 30.0), "backward": ("compute", 60.0)}
    own = own_times(8, 60, phases)
    own["host_to_device"][5] *= 20
    write_job(tmp_path / "job", own, kinds={name: kind for name, (kind, _) in phases.items()}, collective=False,
              step_spans=False)
    verdict = verdict_of(cep)
    assert names_of(verdict) == [(5, "host_to_device", "persistent")] and not verdict["abstained"]
    assert verdict["stragglers"][0]["waiters_median_wait_ms"] is None and verdict["stragglers"][0]["cost_share"] is None
    assert verdict["job_slowdown"] is None
    assert "Whether the others wait is not known: no collective is timed" in verdict["headline"]


@pytest.mark.parametrize("slow", [True, False])
def test_waiting_that_hides_in_a_phase_is_no_slow_rank(cep, tmp_path, slow):
    own = own_times(8, 60)
    own["forward"][3] += 15 if slow else -15
    total = own["forward"] + own["backward"]
    own["backward"] += total.max(axis=0) - total  # its collective is inside, and not timed
    verdict = judged(cep, tmp_path, own, collective=False)
    assert names_of(verdict) == ([(3, "forward", "persistent")] if slow else [])
    assert [group["fast_ranks"] for group in verdict["groups"]] == ([] if slow else [[3]])


@pytest.mark.parametrize("ranks, late, waits, them", [(8, 6, "The others wait", "them"), (2, 1, "Rank 0 waits", "rank 0")])
def test_a_rank_that_is_late_for_no_reason_that_is_seen(cep, tmp_path, ranks, late, waits, them):
    own = own_times(ranks, 60)
    own["forward"][late] += 25
    write_job(tmp_path / "job", own, step_spans=False)
    for path in (tmp_path / "job").iterdir():  # without forward and without its gap
        lines = [line for line in path.read_text().splitlines() if '"name":"forward"' not in line]
        path.write_text("\n".join(line for line in lines if '"name":"data_load"' not in line) + "\n")
    for path in (tmp_path / "job").iterdir():
        path.write_text(path.read_text().replace('"start_ns"', '"was_ns"'))
    verdict = verdict_of(cep)
    assert verdict["abstained"] and verdict["late_rank"]["rank"] == late
    assert verdict["late_rank"]["late_ms"] == pytest.approx(25, abs=1)
    assert re.match(rf"{waits} 2[45]\.\d+ ms a step for rank {late}, but no phase of it is clearly longer than on {them}",
                    verdict["headline"])
    assert any(f"time what rank {late} does before its collectives" in line for line in verdict["next"])


def test_waiting_for_what_is_not_timed_is_not_called_healthy(cep, tmp_path):
    own = own_times(8, 160)
    hidden = np.zeros((8, 160))
    hidden[np.arange(160) % 8, np.arange(160)] = 40  # another rank in each step
    own["hidden"] = hidden
    write_job(tmp_path / "job", own, kinds={"data_load": "data", "forward": "compute", "backward": "compute",
                                            "hidden": "other"}, step_spans=False)
    for path in (tmp_path / "job").iterdir():
        lines = [line for line in path.read_text().splitlines() if '"name":"hidden"' not in line]
        path.write_text("\n".join(lines).replace('"start_ns"', '"was_ns"') + "\n")
    verdict = verdict_of(cep)
    assert verdict["abstained"] and not verdict["headline"].startswith("No straggler")
    assert "what they do before does not explain it" in verdict["reason"]


def test_ranks_that_take_turns_in_a_phase_wait_for_whichever_is_last(cep, tmp_path):
    own = own_times(4, 160)
    own["forward"][np.arange(160) % 4, np.arange(160)] += 40
    verdict = judged(cep, tmp_path, own)
    assert verdict["stragglers"] == [] and not verdict["abstained"]
    # Three of four ranks wait 40 ms of some 137.
    assert verdict["headline"] == ("No single rank is slow, but 22 % of a step is waiting for whichever rank is last in "
                                   "it.")


def test_ranks_that_take_turns_seldom_pause_and_the_job_gains_what_it_takes_without(cep, tmp_path):
    own = own_times(8, 160)
    without_ms = sum(own.values()).max(axis=0).mean()
    own["forward"][np.arange(160) % 8, np.arange(160)] += 40
    step_ms = write_job(tmp_path / "job", own).mean()
    verdict = verdict_of(cep)
    assert verdict["stragglers"] == [] and not verdict["abstained"]
    assert verdict["headline"].startswith("Any rank pauses now and then, for 40.00 ms, most often in forward. ")
    assert verdict["causes"][0]["step_fraction"] == 1
    assert verdict["job_slowdown"] == pytest.approx(step_ms / (step_ms - (sum(own.values()).max(axis=0).mean() - without_ms)),
                                                    rel=0.01)


def test_waiting_that_noise_explains_is_healthy(cep, tmp_path):
    verdict = judged(cep, tmp_path, own_times(8, 200, noise=0.1))
    assert not verdict["abstained"] and verdict["headline"].startswith("No straggler")


def test_what_cannot_be_is_said(cep, tmp_path):
    own = own_times(4, 30)
    write_job(tmp_path / "job", own,
              run=lambda rank: line_of(run_row(rank, world_size=4, flops_per_step=4.98e14, peak_flops=1e15)))
    impossible = verdict_of(cep)["impossible"]
    assert len(impossible) == 1 and "MFU of 5" in impossible[0] and "flops_per_step" in impossible[0]
    assert "cannot be" in cep("summarize", "job").stdout.decode()


def test_a_phase_that_is_longer_than_its_step_span_is_beside_it(cep, tmp_path):
    write_job(tmp_path / "job", own_times(4, 30))
    for path in (tmp_path / "job").iterdir():
        path.write_text("".join(line.replace('"duration_ms":9', '"duration_ms":5') + "\n" if "training_step" in line
                                else line + "\n" for line in path.read_text().splitlines()))
    verdict = verdict_of(cep)
    assert verdict["impossible"] == [] and verdict["bound"] == "compute"
    assert verdict["step_ms"] > 95, "from one step's first row to the next one's, whatever the span says"


def test_what_costs_too_little_is_a_note(cep, tmp_path):
    own = own_times(8, 400, noise=0.002)
    own["backward"][4, 100:120] += 8
    verdict = judged(cep, tmp_path, own)
    assert verdict["stragglers"] == [] and names_of({"stragglers": verdict["harmless"]}) == [(4, "backward", "window")]
    assert verdict["headline"].startswith("No straggler: no slow rank costs 1 % of the time")
    assert any("rank 4" in line and "that costs 0.4 % of the time" in line for line in verdict["evidence"])


def test_a_window_that_costs_too_little_is_no_change_of_the_job(cep, tmp_path):
    own = own_times(8, 4000)
    own["forward"][6, 1600:1680] *= 1.6
    verdict = judged(cep, tmp_path, own)
    assert names_of({"stragglers": verdict["harmless"]}) == [(6, "forward", "window")]
    assert verdict["changes"] == [] and verdict["headline"] == "No straggler: no slow rank costs 1 % of the time."


def test_a_change_that_ends_is_said_to_end(cep, tmp_path):
    own = own_times(8, 600)
    own["backward"][:, 200:400] *= 1.3
    headline = judged(cep, tmp_path, own)["headline"]
    first, last = (int(number) for number in re.search(r"But every step from (\d+) until (\d+) takes", headline).groups())
    assert (first, last) == (pytest.approx(200, abs=2), pytest.approx(400, abs=2))
    own["backward"][:, 400:] *= 1.3
    write_job(tmp_path / "job", own)
    assert re.search(r"But every step from (198|199|200|201|202) on takes", verdict_of(cep)["headline"])


def test_of_two_ranks_of_a_pipeline_stage_one_is_slow(cep, simulate):
    simulate("job", "--ranks", 8, "--pp", 4, faults=[{"rank": 3, "phase": "forward", "slowdown": 1.6}])
    (group,) = verdict_of(cep)["groups"]
    assert (group["pp"], group["slow_ranks"], group["typical"]["phase"]) == (1, [3], "forward")


@pytest.mark.parametrize("lag_of_slow_ms, host_may_be_late", [(0.3, True), (3.0, False)])
def test_a_slow_rank_whose_device_is_not_behind_its_host_may_have_a_late_host(cep, tmp_path, lag_of_slow_ms, host_may_be_late):
    own = own_times(4, 60)
    own["forward"][2] += 15
    write_job(tmp_path / "job", own)
    for rank in range(4):
        path = tmp_path / "job" / f"cuda_events_rank_{rank}.jsonl"
        lag_ms = lag_of_slow_ms if rank == 2 else 2.0
        path.write_text(path.read_text().replace('"name":"all_reduce"', f'"name":"all_reduce","lag_ms":{lag_ms}'))
    verdict = verdict_naming(cep, (2, "forward", "persistent"))
    evidence, to_do = verdict["evidence"][0], verdict["next"][0]
    said = "its host may be late: collectives begin 300.0 µs after their launch, 2.000 ms on its peers" in evidence
    assert (said, "look at its host" in to_do) == (host_may_be_late, host_may_be_late), (evidence, to_do)


@pytest.mark.parametrize("known", [True, False])
def test_a_device_that_is_slow_in_a_window_is_told_from_hosts_that_are_late_as_long(cep, job, known):
    """Each rank's host is late in a third of the steps, so that its backward begins as soon as it is launched; and the
    device of rank 2 is slow in steps 30 to 59. ``known``: rows tell how far devices are behind their hosts."""
    rng = np.random.default_rng(1)
    rows = {rank: [run_row(rank, world_size=4)] for rank in range(4)}
    begin_ns = START_NS
    for step in range(90):
        late = [(step + 20 * rank) % 90 < 30 for rank in range(4)]
        forward_ms = 20 + 0.1 * rng.standard_normal(4) + np.array([3.0 * one for one in late])
        if 30 <= step < 60:
            forward_ms[2] += 5 - 3 * late[2]
            late[2] = False
        end_ns = begin_ns + round((max(forward_ms) + 22) * 1e6)
        for rank, ms in enumerate(np.rint(forward_ms * 1e4) / 1e4):
            forward_end_ns = begin_ns + round(ms * 1e6)
            lag = {"lag_ms": 0.007 if late[rank] else 4.0} if known else {}
            rows[rank] += [
                span_row(rank, step, "forward", ms, begin_ns, clock="gpu", stream=0, lag_ms=2.0),
                span_row(rank, step, "backward", 20.0, forward_end_ns, clock="gpu", stream=0, **lag),
                span_row(rank, step, "all_reduce", (end_ns - forward_end_ns) * 1e-6 - 20, forward_end_ns + 20_000_000,
                         kind="comm", clock="gpu", stream=0, lag_ms=5.0, group="dp", coll=step)]
        begin_ns = end_ns + 1000
    for rank, of_rank in rows.items():
        job.write(rank, of_rank)
    verdict = verdict_of(cep)
    assert names_of(verdict) == ([(2, "forward", "window")] if known else [])
    if known:
        assert (verdict["stragglers"][0]["first_step"], verdict["stragglers"][0]["last_step"]) == (30, 59)


@pytest.mark.parametrize("axis", ["pp", "tp"])
def test_groups_of_one_name_at_other_places_do_not_wait_for_each_other(cep, job, axis):
    """Two groups are called dp, one at each place on the other axis. The transfers of one take nine times as long."""
    rng = np.random.default_rng(1)
    transfers_ms = (5, 45)
    rows = {rank: [run_row(rank, world_size=4, **{axis: rank // 2, "dp": rank % 2})] for rank in range(4)}
    begin_ns = START_NS
    for step in range(40):
        own_ms = np.rint(60 * (1 + 0.005 * rng.standard_normal(4)) * 1e4) / 1e4
        for rank, ms in enumerate(own_ms):
            group = rank // 2
            now_ns = begin_ns + round(ms * 1e6)
            comm_ms = max(own_ms[2 * group:2 * group + 2]) + transfers_ms[group] - ms
            rows[rank] += [
                span_row(rank, step, "backward", ms, begin_ns, clock="gpu", stream=0, lag_ms=5.0),
                span_row(rank, step, "all_reduce", round(comm_ms, 4), now_ns, kind="comm", clock="gpu", stream=0,
                         lag_ms=5.0, group="dp", coll=step)]
        begin_ns += 110_000_000
    for rank in rows:
        job.write(rank, rows[rank])
    verdict = verdict_of(cep)
    assert verdict["shares"]["wait"] < 0.01  # of the step, of which the transfers are 5 % and 43 %
    assert verdict["stragglers"] == [] and verdict["late_rank"] is None
    assert verdict["headline"].startswith("No straggler")


@pytest.mark.parametrize("phase, slowdown, look_at", [("forward", 1.5, "cooling and power of its GPUs"),
                                                      ("data_load", 20, "its storage (iostat), its CPUs")])
def test_a_slow_host_is_told_once_and_what_to_look_at_on_it(cep, simulate, phase, slowdown, look_at):
    simulate("job", "--ranks", "16", "--ranks-per-host", "4", "--steps", "60", faults=[
        {"host": 2, "phase": phase, "slowdown": slowdown}])
    verdict = verdict_of(cep)
    assert len(verdict["stragglers"]) == 4
    of_ranks = [line for line in verdict["evidence"] if line.startswith("rank ")]
    assert verdict["evidence"][0] == "4 of the ranks on node2 are slow: the host, or what it shares"
    assert len(of_ranks) == 1 and f"rank {verdict['stragglers'][0]['rank']} (node2): {phase} takes" in of_ranks[0]
    assert verdict["next"][0].startswith(f"look at node2: {look_at}")


SLOW = {"rank": 3, "phase": "backward", "slowdown": 1.4}


@pytest.mark.parametrize("ranks, settings, faults", [
    (16, {"hidden_collectives": True}, [SLOW]), (16, {"hidden_collectives": True}, []), (16, {"missing_ranks": [3]}, [SLOW]),
    (16, {"drop_fraction": 0.8}, [SLOW]), (4, {"pp": 4}, [SLOW])],
    ids=["waits hidden", "waits hidden, healthy", "the slow rank is missing", "80 % of the rows lost", "one rank a stage"])
def test_where_nobody_can_know_the_verdict_abstains(cep, simulate, ranks, settings, faults):
    simulate("job", "--ranks", ranks, faults=faults, **settings)
    verdict = verdict_of(cep)
    assert verdict["abstained"] or "it has more work, or its rank" in verdict["headline"], verdict["headline"]


def test_a_rank_that_is_slow_again_and_again_for_many_steps_has_no_window(cep, simulate):
    flapping = {**SLOW, "pattern": "flapping", "fraction": 0.3, "period_steps": 200}
    simulate("job", "--ranks", 8, "--steps", 1000, "--record-every", 10, faults=[flapping])
    assert names_of(verdict_of(cep)) == [(3, "backward", "intermittent")]


def write_pipeline(folder, *, stages=4, copies=1, sends=True, said=True):
    """A regular pipeline whose transfers name no group and no number."""
    shape = Shape("recv_blocks", dp=copies, pp=stages, micro_batches=8, steps=40, noise=0.02, sends=sends)
    make(write_files(folder), shape, damage=Damage(step_rows=False, places=said, keys=False))


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("sends", [True, False], ids=["sends", "only recv"])
@pytest.mark.parametrize("stages", [4, 8])
def test_a_regular_pipeline_without_keys_has_a_bubble_and_no_slow_transfers(cep, tmp_path, copies, sends, stages):
    write_pipeline(tmp_path / "job", copies=copies, sends=sends, stages=stages)
    summary = cep.summary("job")
    verdict = summary["verdict"]
    assert verdict["stragglers"] == [] and verdict["causes"] == []
    said = " ".join([verdict["headline"], *verdict["evidence"]])
    assert "longer now and then" not in said and "less time" not in said
    assert summary["efficiency"]["bubble_fraction"] == pytest.approx(waiting_share(tmp_path / "job"), abs=0.02)
    assert summary["efficiency"]["theoretical_bubble_fraction"] == pytest.approx((stages - 1) / (stages + 7))
    assert_one_bubble(summary)


def waiting_share(folder):
    """What receives take beyond the transfer, as a share of the time from the first row to the last."""
    waits_ms, all_ms = 0, 0
    for path in folder.iterdir():
        rows = [row for row in map(json.loads, path.read_text().splitlines()) if "type" not in row]
        waits_ms += sum(row["duration_ms"] - TRANSFER_MS for row in rows if row["name"].startswith("recv"))
        begins = [row["start_ns"] * 1e-6 for row in rows]
        all_ms += max(row["start_ns"] * 1e-6 + row["duration_ms"] for row in rows) - min(begins)
    return waits_ms / all_ms


def assert_one_bubble(summary):
    """The ledger, the efficiency and the sentence say the same, and what to do."""
    share = next(one["share"] for one in summary["ledger"]["pieces"] if one["piece"] == "bubble")
    assert summary["efficiency"]["bubble_fraction"] == pytest.approx(share, rel=0.01)
    (line,) = [line for line in summary["verdict"]["evidence"] if line.startswith("pipeline bubble: ")]
    said = float(re.search(r"([\d.]+) % of the time of steps", line)[1])
    assert said == pytest.approx(100 * share, rel=0.05)
    assert "bubble: more micro-batches, interleaved stages" in summary["verdict"]["next"]


@pytest.mark.parametrize("sends", [True, False], ids=["sends", "only recv"])
def test_a_pipeline_whose_run_rows_name_no_stages_has_the_bubble_of_one_that_does(cep, tmp_path, sends):
    write_pipeline(tmp_path / "said", copies=2, sends=sends)
    write_pipeline(tmp_path / "unsaid", copies=2, sends=sends, said=False)
    said, unsaid = cep.summary("said"), cep.summary("unsaid")
    assert unsaid["efficiency"]["bubble_fraction"] == pytest.approx(said["efficiency"]["bubble_fraction"], rel=1e-6)
    assert_one_bubble(unsaid)


def test_noise_that_lasts_as_long_as_the_recording_makes_no_rank_slow(cep, tmp_path):
    """Half of the pairs have one rank that is the slower one in each step, most of them by far more than its steps vary."""
    rng = np.random.default_rng(5)
    for job in range(40):
        level = rng.standard_normal((2, 12))
        for step in range(1, 12):
            level[:, step] = 0.99 * level[:, step - 1] + 0.14 * level[:, step]
        write_job(tmp_path / str(job), {"forward": 10 * np.exp(0.3 * level)})
        verdict = cep.summary(str(job))["verdict"]
        assert not verdict["groups"] and not verdict["stragglers"], verdict["headline"]


def test_what_is_saved_at_least_at_the_power_limit_is_more_than_nothing(cep):
    """Slow by so much that most of the time of a step is compute, and most of it is saved."""
    fault = '{"rank": 1, "phase": "forward", "slowdown": 30}'
    cep("simulate", "--ranks", "2", "--steps", "200", "--record-every", "1", "--fault", fault, "-o", "job")
    (least,) = re.findall(r"; the saving is then (\S+) % at least", cep("summarize", "job").stdout.decode())
    assert 0 < float(least) < 100 * (1 - 1 / verdict_of(cep)["job_slowdown"])
