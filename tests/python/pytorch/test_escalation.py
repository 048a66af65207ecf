# SPDX-License-Identifier: Apache-2.0
"""Escalation: torch.profiler once a rule on cep's own timings fires."""

import threading
import types

import cep
import pytest

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep._own_rows import OwnSpan  # noqa: E402
from training_jobs import steps_in_trace  # noqa: E402


def spans(*durations_ms, name="forward"):
    return [OwnSpan(name, step, "compute", duration_ms) for step, duration_ms in enumerate(durations_ms)]


class FiresWhenTold:
    """A rule that fires once when it is set to, and counts its calls."""

    def __init__(self):
        self.fires = False
        self.asked = threading.Semaphore(0)
        self.spans = []

    def __call__(self, added):
        self.spans += added
        fires, self.fires = self.fires, False
        self.asked.release()
        return "because" if fires else None


class Steps:
    """Steps of a training loop that each leave their number in a trace."""

    def __init__(self, profiler):
        self.profiler = profiler
        self.next_step = 0

    def run(self, count):
        for _ in range(count):
            self.profiler.step(self.next_step)
            with torch.profiler.record_function(f"step_{self.next_step}"):
                torch.ones(3).sum()
            self.next_step += 1

    def run_until_asked(self, rule):
        self.run(1)
        assert rule.asked.acquire(timeout=60)


@pytest.fixture
def profiler(tmp_path):
    with cep.Profiler(tmp_path, record_every_n_steps=1) as profiler:
        yield profiler


def fire(steps, rule, escalation):
    """Has the rule fire. The trace begins at a later step, once the rule has answered on its thread."""
    rule.fires = True
    steps.run_until_asked(rule)
    while escalation._capture is None:
        steps.run(1)


def test_a_rule_that_fires_has_the_next_steps_traced(tmp_path, files, profiler):
    rule, steps, written = FiresWhenTold(), Steps(profiler), []
    with profiler.escalate(rule, steps=2, on_trace=written.append, with_flops=False) as escalation:
        steps.run_until_asked(rule)
        assert escalation._capture is None
        fire(steps, rule, escalation)
        warmup = steps.next_step - 1
        steps.run(4)
    profiler.close()
    assert written == [tmp_path / "traces" / f"rank_0_step_{warmup + 1}_trace.json"]
    assert steps_in_trace(written[0]) == [warmup + 1, warmup + 2]
    (mark,) = files.typed("mark")
    assert (mark["name"], mark["step"], mark["meta"]["reason"]) == ("escalation", warmup, "because")


def test_it_fires_no_more_often_than_asked_for(tmp_path, profiler):
    rule, steps = FiresWhenTold(), Steps(profiler)
    with profiler.escalate(rule, steps=1, max_traces=2, pause_steps=0) as escalation:
        for _ in range(2):
            fire(steps, rule, escalation)
            steps.run(3)
        rule.fires = True
        steps.run(5)
        assert escalation._capture is None
        assert profiler._listeners == (), "after the last trace, a step costs what it cost before"
    assert len(list((tmp_path / "traces").glob("*_trace.json"))) == 2


def test_the_end_waits_for_all_traces(profiler):
    rule, steps, written, may_end = FiresWhenTold(), Steps(profiler), [], threading.Event()

    def hold_the_first(path):
        if path == first:
            may_end.wait(timeout=60)
        written.append(path)

    with profiler.escalate(rule, steps=1, max_traces=2, pause_steps=0, on_trace=hold_the_first) as escalation:
        fire(steps, rule, escalation)
        first = escalation._capture._path
        steps.run(3)
        fire(steps, rule, escalation)
        steps.run(3)
        threading.Timer(0.5, may_end.set).start()
    assert len(written) == 2


def test_it_does_not_fire_while_it_pauses(profiler):
    rule, steps = FiresWhenTold(), Steps(profiler)
    with profiler.escalate(rule, steps=1, max_traces=2, pause_steps=1000) as escalation:
        fire(steps, rule, escalation)
        steps.run(2)
        asked = rule.asked
        while asked.acquire(blocking=False):
            pass
        steps.run(50)
        assert not asked.acquire(blocking=False)


def test_a_rank_that_is_not_chosen_does_nothing(profiler):
    with profiler.escalate(FiresWhenTold(), ranks=[3]):
        assert profiler._listeners == ()


def test_a_rule_that_raises_is_a_warning_and_the_job_goes_on(profiler):
    def rule(_):
        raise ZeroDivisionError("a bad rule")

    steps = Steps(profiler)
    with pytest.warns(RuntimeWarning, match="a bad rule"):
        with profiler.escalate(rule) as escalation:
            while escalation._left:
                steps.run(1)
            steps.run(3)


def test_a_profiler_that_does_not_start_is_a_warning(profiler, monkeypatch):
    def fail(**_):
        raise OSError("no driver")

    rule, steps = FiresWhenTold(), Steps(profiler)
    with pytest.warns(RuntimeWarning, match="no driver"):
        with profiler.escalate(rule) as escalation:
            monkeypatch.setattr(torch.profiler, "profile", fail)
            rule.fires = True
            steps.run_until_asked(rule)
            while escalation._left:
                steps.run(1)


def test_options_are_checked(profiler):
    with pytest.raises(TypeError, match="with_shapes"):
        profiler.escalate(FiresWhenTold(), with_shapes=True)
    with pytest.raises(ValueError, match="steps"):
        profiler.escalate(FiresWhenTold(), steps=0)


def test_the_rule_sees_this_ranks_own_spans(profiler):
    rule, steps = FiresWhenTold(), Steps(profiler)
    with profiler.escalate(rule):
        profiler.step(0)
        with profiler.region("forward"):
            pass
        profiler.flush()
        steps.next_step = 1
        steps.run_until_asked(rule)
        steps.run_until_asked(rule)
    assert [(span.name, span.step) for span in rule.spans] == [("forward", 0)]


def test_a_span_far_above_the_running_median_fires():
    rule = cep.torch.slower_than_median("forward", 2.0, min_samples=4)
    assert rule(spans(1.0, 1.1, 0.9)) is None
    assert rule(spans(5.0)) is None  # too few before it
    assert rule(spans(1.0, 1.9)) is None
    assert "forward took 2.5 ms" in rule(spans(1.0, 2.5, 1.0))


def test_other_regions_do_not_fire_and_do_not_count():
    rule = cep.torch.slower_than_median("forward", min_samples=2)
    assert rule(spans(1.0, 1.0, 1.0)) is None
    assert rule(spans(50.0, name="backward")) is None


def test_a_factor_that_would_always_fire_is_an_error():
    with pytest.raises(ValueError, match="factor"):
        cep.torch.slower_than_median("forward", 1.0)


def live(rank, straggler):
    summary = types.SimpleNamespace(straggler=straggler, reason="it waits least")
    return types.SimpleNamespace(rank=rank, summary=summary)


def test_the_named_straggler_and_chosen_ranks_fire_once_a_summary():
    one = live(rank=3, straggler=3)
    rule = cep.torch.named_straggler(one)
    assert rule([]) == "it waits least"
    assert rule([]) is None
    assert cep.torch.named_straggler(live(rank=0, straggler=3))([]) is None
    assert cep.torch.named_straggler(live(rank=0, straggler=3), with_ranks=[0])([]) == "it waits least"
    assert cep.torch.named_straggler(live(rank=0, straggler=None), with_ranks=[0])([]) is None
