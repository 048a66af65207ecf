# SPDX-License-Identifier: Apache-2.0
"""cep.integrations.log_metrics(): which metrics experiment loggers get, and that the trainer never waits for them."""

import threading

import pytest

import cep
from cep.integrations import MetricsLogger, log_metrics
from logged_steps import logged, record_step


class SlowLogger:
    """A logging function that blocks until it is released."""

    def __init__(self):
        self.entered, self.release = threading.Event(), threading.Event()
        self.calls = []

    def __call__(self, metrics, step):
        self.entered.set()
        assert self.release.wait(60)
        self.calls.append((step, metrics))


class Recording:
    def __init__(self):
        self.calls = []


class Mlflow(Recording):
    def log_metrics(self, metrics, step=None):
        self.calls.append((metrics, step))


class Accelerator(Recording):
    def log(self, values, step=None):
        self.calls.append((values, step))


def test_mean_and_maximum_of_each_region_since_the_last_call(profiler):
    calls, called = [], threading.Event()
    metrics = MetricsLogger(profiler, lambda values, step: (calls.append((step, values)), called.set()))
    record_step(profiler, 0, forward=2.0, backward=5.0)
    record_step(profiler, 1, forward=4.0)
    metrics.log(1)
    assert called.wait(60)
    record_step(profiler, 2, forward=10.0)
    metrics.log(2)
    assert metrics.close()
    assert calls == [
        (
            1,
            {
                "cep/forward/mean_ms": 3.0,
                "cep/forward/max_ms": 4.0,
                "cep/backward/mean_ms": 5.0,
                "cep/backward/max_ms": 5.0,
                "cep/lost": 0.0,
            },
        ),
        (2, {"cep/forward/mean_ms": 10.0, "cep/forward/max_ms": 10.0, "cep/lost": 0.0}),
    ]


def test_counters_are_logged_by_their_last_value(profiler):
    calls = []
    metrics = MetricsLogger(profiler, lambda values, step: calls.append(values), prefix="")
    profiler.counter("loss", 3.5)
    profiler.counter("loss", 2.5)
    metrics.log()
    metrics.close()
    assert calls == [{"loss": 2.5, "lost": 0.0}]


def test_lost_spans_are_logged(tmp_path):
    calls = []
    with cep.Profiler(tmp_path, record_every_n_steps=1, max_file_bytes=2000) as profiler:
        metrics = MetricsLogger(profiler, lambda values, step: calls.append(values))
        record_step(profiler, 0, **{f"phase_{index}": 1.0 for index in range(40)})
        metrics.log()
        metrics.close()
        assert calls[0]["cep/lost"] == profiler.stats.lost > 0


def test_an_earlier_attempts_rows_are_not_logged(tmp_path):
    with cep.Profiler(tmp_path, record_every_n_steps=1) as profiler:
        record_step(profiler, 0, forward=100.0)
    calls = []
    with cep.Profiler(tmp_path, record_every_n_steps=1) as profiler:
        metrics = MetricsLogger(profiler, lambda values, step: calls.append(values))
        record_step(profiler, 1, forward=1.0)
        metrics.log()
        metrics.close()
    assert calls[0]["cep/forward/max_ms"] == 1.0


def test_nothing_is_logged_where_nothing_was_recorded(profiler):
    calls = []
    metrics = MetricsLogger(profiler, lambda values, step: calls.append(values))
    assert metrics.log(1)
    assert metrics.close()
    assert calls == []


def test_a_slow_logger_holds_nobody_up_and_what_is_dropped_is_counted(profiler):
    logger = SlowLogger()
    metrics = MetricsLogger(profiler, logger)
    record_step(profiler, 0, forward=1.0)
    assert metrics.log(0)
    assert logger.entered.wait(60)
    accepted = [metrics.log(step) for step in range(1, 20)]
    assert accepted == [True] * 8 + [False] * 11
    assert metrics.dropped == 11
    record_step(profiler, 1, forward=7.0)
    logger.release.set()
    assert metrics.close()
    assert [(step, values["cep/forward/max_ms"]) for step, values in logger.calls] == [(0, 1.0), (1, 7.0)]


def test_close_gives_up_on_a_logger_that_hangs(profiler):
    logger = SlowLogger()
    metrics = MetricsLogger(profiler, logger)
    record_step(profiler, 0, forward=1.0)
    metrics.log(0)
    assert logger.entered.wait(60)
    assert not metrics.close(timeout=0.01)
    logger.release.set()


@pytest.mark.parametrize("waiting", [0, 3, 8])
def test_close_can_be_called_until_all_is_logged(profiler, waiting):
    logger = SlowLogger()
    metrics = MetricsLogger(profiler, logger)
    record_step(profiler, 0, forward=1.0)
    metrics.log(0)
    assert logger.entered.wait(60)
    assert all([metrics.log(step) for step in range(1, 1 + waiting)])
    record_step(profiler, 1, forward=2.0)
    assert not metrics.close(timeout=0.01)
    assert not metrics.close(timeout=0.01)
    assert not metrics.log(9)
    assert metrics.dropped == 0
    logger.release.set()
    assert metrics.close(timeout=60)
    assert metrics.close()
    assert [step for step, _ in logger.calls] == ([0, 1] if waiting > 0 else [0])


@pytest.mark.filterwarnings("ignore:cep. metrics are not logged")
def test_a_logger_that_raises_is_counted_and_asked_again(profiler):
    calls = []

    def refuse_first(metrics, step):
        calls.append(step)
        if len(calls) == 1:
            raise ConnectionError("no network")

    first_call = MetricsLogger(profiler, refuse_first)
    record_step(profiler, 0, forward=1.0)
    first_call.log(1)
    assert first_call.close()
    assert first_call.failed == 1
    assert logged(profiler, refuse_first, 2).failed == 0
    assert calls == [1, 2]


def test_mlflow_and_loggers_of_lightning(profiler):
    logger = Mlflow()
    logged(profiler, logger, 7)
    assert logger.calls == [({"cep/forward/mean_ms": 1.0, "cep/forward/max_ms": 1.0, "cep/lost": 0.0}, 7)]


def test_an_accelerators_trackers(profiler):
    accelerator = Accelerator()
    logged(profiler, accelerator, 7)
    ((metrics, step),) = accelerator.calls
    assert step == 7 and metrics["cep/forward/mean_ms"] == 1.0


def test_something_else_is_no_logger(profiler):
    with pytest.raises(TypeError, match="add_scalar"):
        MetricsLogger(profiler, object())


def test_a_profiler_that_is_off_logs_nothing(tmp_path):
    threads = threading.active_count()
    with cep.Profiler(tmp_path, enable=False) as profiler:
        metrics = MetricsLogger(profiler, lambda values, step: None)
        assert not metrics.log(1)
        assert metrics.close()
        assert threading.active_count() == threads


def test_the_function_logs_at_the_interpreters_end_at_the_latest(scripts):
    out, _ = scripts.run(
        "from cep.integrations import log_metrics\n"
        "prof = cep.Profiler(sys.argv[1], record_every_n_steps=1)\n"
        "show = lambda metrics, step: print(step, sorted(metrics))\n"
        "prof.step(0)\n"
        "assert log_metrics(prof, show, 0)\n"
        "with prof.region('forward'): pass\n"
        "assert log_metrics(prof, show, 1)\n"
    )
    assert out.splitlines()[-1].endswith("['cep/forward/max_ms', 'cep/forward/mean_ms', 'cep/lost']")


def test_the_function_keeps_one_logger_for_a_profiler(profiler):
    first, second = Mlflow(), Mlflow()
    log_metrics(profiler, first, 0)
    record_step(profiler, 0, forward=1.0)
    log_metrics(profiler, second, 1)
    from cep.integrations import _metrics

    assert _metrics._loggers[-1].close()
    assert len(first.calls) == 1 and second.calls == []


def test_closed_profilers_leave_no_threads(tmp_path):
    steps = []
    for number in range(5):
        with cep.Profiler(tmp_path / str(number), record_every_n_steps=1) as profiler:
            log_metrics(profiler, lambda metrics, step: steps.append(step))
            profiler.step(0)
            profiler.counter("loss", 1.0)
            assert log_metrics(profiler, None, number)
    for thread in threading.enumerate():
        if thread.name == "cep-metrics":
            thread.join(60)
            assert not thread.is_alive()
    assert len(steps) == 5
