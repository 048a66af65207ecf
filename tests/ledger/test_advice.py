# SPDX-License-Identifier: Apache-2.0
"""Each rule of advice: a job whose loss is just large enough, one whose loss just is not, and the guide's page."""

import pathlib
import re

import pytest
from comparison import run_cep, summary_of
from generator import Maker, sampled
from rows import MS

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/advice.md"
STEPS = 200
STEP_NS = 100 * MS
LEAST_SHARE = 0.01


class Job(Maker):
    """Two ranks that compute for 100 ms a step, and lose ``loss_ns`` a step in one way."""

    def __init__(self, loss_ns):
        super().__init__(2, 1)
        self.loss = loss_ns
        self.stride = 1

    def make(self):
        self.begin_run(self.startup_ns())
        for step in range(STEPS):
            self.before(step)
            starts = [line.now for line in self.lines]
            for line in self.lines:
                line.begin_step(step)
                line.phase("forward", "compute", STEP_NS, "compute", lag_ns=5 * MS)
            self.lose(step)
            for line, start_ns in zip(self.lines, starts):
                line.row("training_step", "step", start_ns, line.now, depth=0)
            self.after(step)
        job = self.job(type(self).__name__)
        return job if self.stride == 1 else sampled(job, self.stride)

    def startup_ns(self):
        return 0

    def before(self, step):
        pass

    def lose(self, step):
        pass

    def after(self, step):
        pass

    def restart(self, lost_ns):
        for line in self.lines:
            line.begin_run(0, self.meta, lost_ns=lost_ns)


def in_phase(name, kind, clock="host"):
    class InPhase(Job):
        def lose(self, step):
            for line in self.lines:
                line.phase(name, kind, self.loss, "", clock=clock)

    return InPhase


class Transfer(Job):
    def lose(self, step):
        self.collective("all_reduce", self.loss)


class Waiting(Job):
    """One rank has more to do, by turns, so that both wait as long."""

    def lose(self, step):
        self.lines[step % 2].phase("optimizer", "compute", 2 * self.loss, "compute", lag_ns=5 * MS)
        self.collective("all_reduce", 1000)


class Bubble(Job):
    def lose(self, step):
        self.lines[step % 2].phase("optimizer", "compute", 2 * self.loss, "compute", lag_ns=5 * MS)
        self.collective(f"send_recv_{step % 2}", 1000)


class HostLate(Job):
    def lose(self, step):
        for line in self.lines:
            line.idle(self.loss, "host_late")
            line.phase("optimizer", "compute", MS, "compute", lag_ns=10_000)


class Uncovered(Job):
    """The launch was early, so it is not the host that the device waits for."""

    def lose(self, step):
        for line in self.lines:
            line.idle(self.loss, "uncovered")
            line.phase("optimizer", "compute", MS, "compute", lag_ns=50 * MS)


class Between(Job):
    def after(self, step):
        for line in self.lines:
            line.idle(self.loss, "between")


class Startup(Job):
    def startup_ns(self):
        return self.loss * STEPS


class Recompiled(Job):
    """The first step compiles for 30 steps' time, and two later ones for six each."""

    def lose(self, step):
        times = {0: 30, 120: 6, 160: 6}.get(step, 0)
        for line in self.lines:
            line.phase("forward", "compute", times * STEP_NS + MS, "compute", lag_ns=5 * MS)


class Restart(Job):
    def before(self, step):
        if step == STEPS // 2:
            self.restart(self.loss * STEPS)


class Redone(Job):
    """The second attempt begins some steps back."""

    def make(self):
        steps = round(self.loss * STEPS / STEP_NS)
        self.begin_run()
        for first, last in ((0, STEPS // 2), (STEPS // 2 - steps, STEPS)):
            if first:
                self.restart(1000)
            for step in range(first, last):
                for line in self.lines:
                    line.begin_step(step)
                    start_ns = line.now
                    line.phase("forward", "compute", STEP_NS, "compute", lag_ns=5 * MS)
                    line.row("training_step", "step", start_ns, line.now, depth=0)
        return self.job("redone")


class Unrecorded(Job):
    def __init__(self, loss_ns):
        super().__init__(loss_ns)
        self.stride = 10

    def lose(self, step):
        if step % 10 == 5:
            for line in self.lines:
                line.host("prepare", "host", 10 * self.loss, "host")


RULES = {
    "transfer": Transfer,
    "waiting": Waiting,
    "bubble": Bubble,
    "memory": in_phase("offload_activations", "memory", "gpu"),
    "host_to_device": in_phase("host_to_device", "data", "gpu"),
    "data": in_phase("data_load", "data"),
    "host": in_phase("prepare", "host"),
    "checkpoint": in_phase("save_checkpoint", "host"),
    "evaluation": in_phase("evaluate", "host"),
    "logging": in_phase("training_metrics", "host"),
    "other": in_phase("something", "other"),
    "host_late": HostLate,
    "uncovered": Uncovered,
    "startup": Startup,
    "between": Between,
    "restart": Restart,
    "redone": Redone,
    "unrecorded": Unrecorded,
}


def ledger_of(rule, loss_ns, folder):
    return summary_of(RULES[rule](loss_ns).make().write(folder / "job"))["ledger"]


def rules_of_page():
    """By the anchor that links lead to."""
    losses = PAGE.read_text().split("## Rules of settings")[0]
    rows = re.findall(r'^\| <a id="(\w+)"></a>`\1` \| (.*) \|$', losses, re.MULTILINE)
    return {anchor: cells.split(" | ") for anchor, cells in rows}


@pytest.mark.parametrize("rule", RULES)
def test_a_loss_that_is_just_large_enough_has_its_advice(rule, tmp_path):
    losses = ledger_of(rule, round(0.015 * STEP_NS), tmp_path)["losses"]
    (loss,) = [one for one in losses if one["id"] == rule]
    assert loss["share"] == pytest.approx(0.015 / 1.015, abs=0.0025)
    assert losses[0] is loss and loss["share"] >= LEAST_SHARE
    what, action, check, source = rules_of_page()[rule]
    assert (loss["next"], f"`{loss['check']}`", loss["guide"]) == (action, check, f"advice.html#{rule}")
    assert what.endswith(".") and source


@pytest.mark.parametrize("rule", RULES)
def test_a_loss_that_just_is_not_has_none(rule, tmp_path):
    ledger = ledger_of(rule, round(0.006 * STEP_NS), tmp_path)
    assert rule not in [one["id"] for one in ledger["losses"]]
    (share,) = [one["share"] for one in ledger["pieces"] if one["piece"] == rule]
    assert 0.003 < share < LEAST_SHARE


def test_steps_that_compile_again_are_no_startup_and_have_their_share(tmp_path):
    folder = Recompiled(0).make().write(tmp_path / "job")
    (loss,) = [one for one in summary_of(folder)["ledger"]["losses"] if one["id"] == "startup"]
    assert loss["steps"] == "step 0"
    text = " ".join(run_cep("summarize", folder).decode().split())
    assert "3 steps took over 1.5 times as long as their neighbours (17 % of the time), most of it in forward" in text


@pytest.mark.parametrize(("mfu", "is_advised_on"), [(None, True), (0.49, True), (0.51, False)])
def test_compute_is_advised_on_below_half_of_the_peak(tmp_path, mfu, is_advised_on):
    job = Transfer(MS)
    if mfu:
        job.meta = {"peak_flops": 1e15, "flops_per_step": mfu * 1e15 * (STEP_NS + MS) / 1e9}
    folder = job.make().write(tmp_path / "job")
    assert (rules_of_page()["compute"][1] in run_cep("summarize", folder).decode()) == is_advised_on


def test_the_page_has_every_piece_of_the_ledger(tmp_path):
    ledger = ledger_of("data", MS, tmp_path)
    assert list(rules_of_page()) == [one["piece"] for one in ledger["pieces"]]
