# SPDX-License-Identifier: Apache-2.0
"""What the command says of simulated jobs whose truth is known: the same seed without the fault."""

import os
import subprocess
import re

import pytest
from answers import MOST_ERROR, WORTH_SAYING, ask, wrongs
from damage import DamagedJob
from jobs import Simulated, kinds

ALL = {kind.name: kind for kind in kinds()}


@pytest.fixture
def answer_of(tmp_path):
    def run(name, layout="full", seed=0):
        simulated = Simulated(ALL[name], seed)
        simulated.write(tmp_path / "job", layout)
        answer = ask(os.environ["CEP_COMMAND"], tmp_path / "job", simulated.kind.options)
        assert wrongs(simulated, layout, answer) == [], answer.headline
        return simulated, answer
    return run


def says_truth(simulated, answer):
    return answer.saving is not None and not answer.is_bound and \
        abs(answer.saving - 100 * simulated.saving) <= MOST_ERROR


@pytest.mark.parametrize("layout", ["full", "no_coll", "per_operation", "lean", "sampled", "clocks"])
def test_a_slow_rank_costs_what_the_same_job_without_it_saves(answer_of, layout):
    simulated, answer = answer_of("ddp slow rank, not joined", layout)
    assert says_truth(simulated, answer) and answer.ranks == [3]


@pytest.mark.parametrize("layout", ["full", "enclosed", "lean"])
def test_what_all_ranks_do_behind_the_last_step_is_no_part_of_a_saving(answer_of, layout):
    simulated, answer = answer_of("ddp slow rank, long last step", layout)
    assert says_truth(simulated, answer)
    before_ms, = map(float, re.findall(r"\(([\d.]+) → [\d.]+ ms\)", answer.headline))
    assert before_ms == pytest.approx(simulated.step_ms, abs=0.2)


@pytest.mark.parametrize("name", [name for name in ALL if name.startswith("hosts, ")])
def test_where_hosts_are_late_only_ranks_that_cost_something_are_named_and_what_that_is(answer_of, name):
    simulated, answer = answer_of(name)
    assert answer.ranks == list(simulated.kind.named) and (answer.saving is not None) == bool(answer.ranks)


@pytest.mark.parametrize("seed", [1433, 3433])
def test_without_pauses_of_hosts_launches_behind_them_come_earlier_too(answer_of, seed):
    simulated, answer = answer_of("hosts that pause", seed=seed)
    assert answer.saving == pytest.approx(100 * simulated.saving, abs=MOST_ERROR)


def test_a_rank_that_is_told_to_be_slow_is_no_healthy_one_where_the_replay_is_off_by_a_little(answer_of):
    _, answer = answer_of("ddp slow optimizer now and then", "sampled", seed=2861)
    assert answer.ranks == [5]


@pytest.fixture
def answer_of_damaged(tmp_path):
    def run(name, damage):
        job = DamagedJob(name, tmp_path / "job")
        job.write(damage)
        return job.simulated, ask(os.environ["CEP_COMMAND"], tmp_path / "job")
    return run


@pytest.mark.parametrize("steps", ["half of the steps", "second half of the steps"])
@pytest.mark.parametrize("name, scope", [(name, scope) for name in ("ddp slow rank, not joined", "fsdp slow rank", "pipeline slow rank",
                                                                    "accumulation slow rank")
                                         for scope in ("one rank", "its peers")] + [("ddp slow from the middle", "another rank")])
def test_a_saving_is_that_of_the_steps_in_which_slow_ranks_have_rows(answer_of_damaged, name, scope, steps):
    simulated, answer = answer_of_damaged(name, f"{steps} of {scope}")
    assert wrongs(simulated, "full", answer) == [] and says_truth(simulated, answer), answer.headline


@pytest.mark.parametrize("name, phase", [("ddp slow rank", "forward"), ("ddp slow rank", "data_load"), ("fsdp slow rank", "forward"),
                                         ("ddp slow loader", "optimizer"),
                                         ("routed experts", "attention_forward"), ("routed experts", "optimizer")])
def test_a_rank_that_has_no_rows_of_a_phase_does_it_all_the_same(answer_of_damaged, name, phase):
    simulated, answer = answer_of_damaged(name, f"no {phase} of one rank")
    assert wrongs(simulated, "full", answer) == [], answer.headline
    assert answer.exact_saving == pytest.approx(100 * simulated.saving, abs=MOST_ERROR)


@pytest.mark.parametrize("damage", ["no coll", "other coll", "no group", "other group"])
def test_a_rank_whose_waiting_nobody_knows_is_not_blamed_beside_one_that_is_slower(answer_of_damaged, damage):
    _, answer = answer_of_damaged("ddp slow rank, not joined", f"{damage} of another rank")
    assert (answer.ranks, answer.saving) == ([3], None), answer.headline


@pytest.mark.parametrize("damage", ["other coll of one rank", "other coll of its peers"])
@pytest.mark.parametrize("name", ["fsdp slow rank", "experts slow rank", "routed experts", "healthy fsdp"])
def test_a_slow_rank_is_not_denied_where_its_collectives_match_others(answer_of_damaged, name, damage):
    _, answer = answer_of_damaged(name, damage)
    assert answer.headline.startswith("No straggler") == name.startswith("healthy"), answer.headline


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_rank_that_is_slow_by_turns_costs_what_the_same_job_without_it_saves(answer_of, seed):
    simulated, answer = answer_of("ddp of two, slow by turns", seed=seed)
    assert says_truth(simulated, answer) and answer.ranks == [1]


@pytest.mark.parametrize("name", ["fsdp slow rank", "tensor slow rank", "tensor slow rank, left at different times",
                                  "pipeline slow rank", "pipeline slow rank, stages unsaid", "experts slow rank", "accumulation slow rank",
                                  "uneven pipeline", "tensor slow link"])
def test_each_shape_of_training_has_its_own_truth(answer_of, name):
    assert says_truth(*answer_of(name))


@pytest.mark.parametrize("name", ["ddp slow rank, long start-up", "ddp slow rank, checkpoints of all",
                                  "ddp slow rank, marked checkpoints of all"])
def test_start_up_and_checkpoints_are_no_part_of_the_steps_that_a_saving_is_of(answer_of, name):
    simulated, answer = answer_of(name)
    assert says_truth(simulated, answer) and answer.ranks == [3]


def test_what_only_steps_that_do_not_count_have_takes_its_time_on_all_ranks(answer_of):
    _, answer = answer_of("ddp slow rank, checkpoints of all")
    replay = answer.verdict["replay"]
    assert replay["shares"]["ranks"] == pytest.approx(1, abs=0.01)
    assert replay["slowest_ranks_share"] == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("name, damage", [("healthy ddp", "30 % of the rows lost"), ("healthy tensor", "no rows of collectives")])
def test_where_a_balanced_job_would_gain_next_to_nothing_nothing_has_a_share_of_that(answer_of_damaged, name, damage):
    _, answer = answer_of_damaged(name, damage)
    replay = answer.verdict["replay"]
    assert replay["slowdown"] < 1.01
    shares = [*replay["shares"].values(), replay["slowest_ranks_share"], replay["slowest_stage_share"]]
    assert shares == [0] * 6


@pytest.mark.parametrize("name", ["tensor slow rank, left at different times",
                                  "tensor rank at half speed, left at different times"])
def test_groups_without_names_whose_ranks_leave_at_different_times_are_told_by_when_they_overlap(answer_of, name):
    simulated, answer = answer_of(name, "lean")  # without a host each: their clocks are one all the same
    assert says_truth(simulated, answer) and answer.ranks == list(simulated.kind.named)


@pytest.mark.parametrize("name, layout, why", [("ddp slow rank", "flat", "spans have no start times"),
                                               ("pipeline slow rank", "lean", "of the communication, 4.0 % could be matched between ranks")])
def test_what_nobody_knows_the_cost_of_has_a_reason(answer_of, tmp_path, name, layout, why):
    _, answer = answer_of(name, layout)
    assert answer.saving is None
    text = subprocess.run([os.environ["CEP_COMMAND"], "summarize", tmp_path / "job"], capture_output=True, text=True).stdout
    assert text.endswith(f"what that costs is not known: {why}\n")


@pytest.mark.parametrize("name", ["healthy ddp", "healthy fsdp", "healthy tensor", "healthy pipeline",
                                  "healthy experts", "constant slack"])
def test_a_healthy_job_has_no_finding(answer_of, name):
    _, answer = answer_of(name)
    assert answer.headline.startswith("No straggler") and answer.ranks == [] and not answer.abstained


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", range(3))
def test_noise_that_lasts_is_no_change_of_the_job(answer_of, number, seed):
    _, answer = answer_of(f"healthy, AR(1) {number}", seed=seed)
    assert answer.changes == 0


@pytest.mark.parametrize("name", ["routed experts", "routed experts of two"])
@pytest.mark.parametrize("layout", ["full", "lean"])
def test_experts_with_more_tokens_gain_what_the_same_tokens_spread_evenly_do(answer_of, name, layout):
    simulated, answer = answer_of(name, layout)
    assert says_truth(simulated, answer) and "With the same work spread evenly" in answer.headline
    assert answer.ranks == [] and answer.verdict["causes"][0]["kind"] == "routing"


@pytest.mark.parametrize("layout", ["full", "lean"])
def test_tokens_that_are_routed_at_random_are_one_cause_and_name_no_rank(answer_of, layout):
    simulated, answer = answer_of("experts routed at random", layout)
    assert says_truth(simulated, answer)
    assert "the rank with the most, another one from step to step, has" in answer.headline
    assert [(cause["kind"], cause["ranks"]) for cause in answer.verdict["causes"]] == [("routing", [])]
    assert not any("less time" in line for line in answer.evidence)


@pytest.mark.parametrize("name", ["pauses of random ranks", "pauses of random ranks, fsdp"])
def test_pauses_of_random_ranks_are_a_finding_of_the_job(answer_of, name):
    simulated, answer = answer_of(name)
    assert says_truth(simulated, answer) and answer.ranks == []
    assert answer.headline.startswith("Any rank pauses now and then")


def test_steps_that_take_much_longer_are_not_called_healthy_where_nothing_explains_them(answer_of):
    simulated, answer = answer_of("pauses of random ranks", "flat")
    assert simulated.saving > WORTH_SAYING / 100 and "of the time is in" in answer.headline


@pytest.mark.parametrize("name", ["checkpoint of rank 0, timed", "checkpoint of rank 0, untimed"])
@pytest.mark.parametrize("layout", ["full", "enclosed", "no_depth"])
def test_what_rank_0_does_every_50_steps_behind_its_last_collective_is_named(answer_of, name, layout):
    simulated, answer = answer_of(name, layout)
    assert answer.ranks == [0] and "every 50 steps" in answer.headline
    assert abs(answer.saving - 100 * simulated.saving) <= MOST_ERROR


@pytest.mark.parametrize("layout", ["full", "enclosed"])
def test_what_it_costs_to_do_something_outside_of_phases_is_its_cause_and_no_part_of_the_ideal_step(answer_of, layout):
    simulated, answer = answer_of("checkpoint of rank 0, untimed", layout)
    cause, = answer.verdict["causes"]
    replay = answer.verdict["replay"]
    assert "in time that no phase covers" in answer.headline and cause["phase"] == "uncovered"
    assert replay["ideal_ms"] == pytest.approx(simulated.best_ms, rel=0.01)
    assert cause["share"] == pytest.approx(1, abs=0.05)
    assert replay["slowest_ranks_share"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("layout", ["full", "lean"])
def test_the_steps_in_which_rank_0_writes_a_checkpoint_are_part_of_its_saving(answer_of, layout):
    simulated, answer = answer_of("checkpoint of rank 0, timed", layout)
    before_ms, after_ms = map(float, re.search(r"\(([\d.]+) → ([\d.]+) ms\)", answer.headline).groups())
    assert before_ms == pytest.approx(simulated.step_ms, abs=0.1) and after_ms == pytest.approx(simulated.best_ms, abs=0.3)
    assert any(line.startswith(f"a step takes {before_ms} ms on average") for line in answer.evidence)
    assert before_ms - after_ms == pytest.approx(answer.verdict["causes"][0]["cost_ms"], abs=0.1)


@pytest.mark.parametrize("name", ["checkpoint of rank 0, timed", "checkpoint of rank 0, untimed"])
@pytest.mark.parametrize("layout", ["full", "enclosed", "no_depth"])
def test_long_steps_that_the_headline_explains_are_not_without_a_reason(answer_of, name, layout):
    _, answer = answer_of(name, layout)
    assert not any("times as long as their neighbours" in line for line in answer.evidence)


@pytest.mark.parametrize("name", ["uneven pipeline of two", "uneven pipeline of two, unsaid"])
def test_an_uneven_pipeline_gains_what_the_same_layers_spread_evenly_do(answer_of, name):
    simulated, answer = answer_of(name)
    assert says_truth(simulated, answer) and "Evenly divided" in answer.headline


@pytest.mark.parametrize("layout", ["flat", "no_coll"])
def test_ranks_that_only_send_and_receive_are_no_peers(answer_of, layout):
    _, answer = answer_of("uneven pipeline of two, unsaid", layout)
    assert answer.ranks == [] and answer.saving is None


@pytest.mark.parametrize("name", ["experts slow rank", "routed experts", "routed experts of two"])
def test_rows_without_starts_have_an_exact_saving_where_they_are_one_behind_the_other(answer_of, name):
    simulated, answer = answer_of(name, "flat")
    assert says_truth(simulated, answer) and not answer.is_bound


@pytest.mark.parametrize("name", ["ddp slow rank", "fsdp slow rank", "tensor slow rank", "accumulation slow rank"])
def test_rows_without_starts_have_no_exact_saving_where_communication_runs_beside_work(answer_of, name):
    simulated, answer = answer_of(name, "flat")
    assert answer.ranks == list(simulated.kind.named) and (answer.saving is None or answer.is_bound)


def test_a_rank_that_stops_recording_is_said_first(answer_of):
    for name, rank in (("rank stops recording", 2), ("middle rank of a pipeline stops", 6)):
        _, answer = answer_of(name)
        assert f"rank {rank} stopped recording after step 49" in answer.headline


def test_ranks_are_compared_until_one_stops_recording(answer_of):
    simulated, answer = answer_of("stops, and a rank is slow")
    assert says_truth(simulated, answer) and answer.ranks == [3]
    assert answer.evidence[0] == "rank 6 stopped recording after step 49: ranks are compared in the steps until then"


def test_work_that_waits_for_communication_inside_of_it_is_told_by_starts_alone(answer_of):
    """Rows that name neither streams nor how deep they are: peers of a slow rank wait inside of their work."""
    simulated, answer = answer_of("tensor slow rank", "lean")
    assert says_truth(simulated, answer) and answer.ranks == [6]
    _, answer = answer_of("tensor slow link, two groups", "lean")
    assert answer.ranks == []
    for name in ("ddp slow rank", "fsdp slow rank"):  # where communication runs beside work
        simulated, answer = answer_of(name, "lean")
        assert says_truth(simulated, answer) and answer.ranks == list(simulated.kind.named)


def test_a_slow_link_has_its_price_though_rows_of_its_transfers_are_lost(answer_of):
    assert says_truth(*answer_of("tensor slow link", "lost"))


def test_that_a_rank_stops_recording_is_no_change_of_the_others(answer_of):
    _, answer = answer_of("middle rank of a pipeline stops", "flat")
    assert answer.changes == 0


def test_pauses_whose_rows_may_be_lost_cost_at_most_what_they_can(answer_of):
    simulated, answer = answer_of("pauses of random ranks", "lost", seed=862)
    assert answer.is_bound and 100 * simulated.saving <= answer.saving + MOST_ERROR


def test_long_steps_that_were_not_recorded_are_not_denied(answer_of):
    _, answer = answer_of("pauses of random ranks, fsdp", "sampled", seed=910)
    assert "in those that were not recorded" in answer.headline


@pytest.mark.parametrize("layout", ["full", "no_coll", "lean", "flat"])
def test_a_pipeline_that_does_not_name_its_stages_has_a_bubble(answer_of, layout):
    for name in ("pipeline slow rank", "pipeline slow rank, stages unsaid"):
        _, answer = answer_of(name, layout)
        assert len([line for line in answer.evidence if line.startswith("pipeline bubble: ")]) == 1


def test_ranks_that_were_not_chosen_may_be_slow(answer_of):
    _, answer = answer_of("slow rank not chosen")
    assert answer.abstained and "among the 8 ranks that were chosen" in answer.headline


def test_of_two_groups_with_different_links_no_rank_is_blamed(answer_of):
    _, answer = answer_of("tensor slow link, two groups")
    assert answer.abstained and answer.ranks == [] and "ranks 4–7, which come late together" in answer.headline


def test_a_rank_that_is_slow_behind_the_last_collective_is_a_straggler(answer_of):
    _, answer = answer_of("ddp slow optimizer now and then", seed=1)
    assert answer.ranks == [5] and answer.saving is not None
