# SPDX-License-Identifier: Apache-2.0
"""cep.integrations.log_metrics(): which metrics experiment loggers get, and that the trainer never waits for them."""

import importlib
import importlib.util
import json
import struct
import threading

import pytest

import cep
from cep.integrations import MetricsLogger, log_metrics


def record_step(profiler, step, **durations_ms):
    profiler.step(step)
    for name, duration_ms in durations_ms.items():
        profiler.add_span(name, start_ns=0, duration_ns=int(duration_ms * 1e6))


def logged(profiler, logger, *steps):
    """Logs once for each step, and waits until it is done."""
    metrics = MetricsLogger(profiler, logger)
    for index, step in enumerate(steps):
        record_step(profiler, index, forward=1.0)
        assert metrics.log(step)
    assert metrics.close()
    return metrics


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


class TensorBoard(Recording):
    def add_scalar(self, tag, scalar_value, global_step=None):
        self.calls.append((tag, scalar_value, global_step))


class Mlflow(Recording):
    def log_metrics(self, metrics, step=None):
        self.calls.append((metrics, step))


class Wandb(Recording):
    def __init__(self):
        super().__init__()
        self.defined = []

    def define_metric(self, name, step_metric=None):
        self.defined.append((name, step_metric))

    def log(self, metrics, step=None, commit=None):
        assert commit is False, "ends the row that the trainer fills"
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


def test_tensorboard(profiler):
    writer = TensorBoard()
    logged(profiler, writer, 7)
    assert ("cep/forward/mean_ms", 1.0, 7) in writer.calls and ("cep/lost", 0.0, 7) in writer.calls


def test_mlflow_and_loggers_of_lightning(profiler):
    logger = Mlflow()
    logged(profiler, logger, 7)
    assert logger.calls == [({"cep/forward/mean_ms": 1.0, "cep/forward/max_ms": 1.0, "cep/lost": 0.0}, 7)]


def test_weights_and_biases_get_a_step_of_their_own(profiler):
    run = Wandb()
    logged(profiler, run, 7)
    assert run.defined == [("cep/step", None), ("cep/*", "cep/step")]
    ((metrics, step),) = run.calls
    assert step is None and metrics["cep/step"] == 7 and metrics["cep/forward/mean_ms"] == 1.0


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

    assert _metrics._loggers_by_profiler.pop(id(profiler)).close()
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


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="no tensorboard")
def test_the_real_tensorboard(profiler, tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = tensorboard.SummaryWriter(str(tmp_path / "board"))
    logged(profiler, writer, 7)
    writer.close()
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    (event,) = events.Scalars("cep/forward/mean_ms")
    assert (event.step, event.value) == (7, 1.0)


WANDB = """
import threading, wandb
from cep.integrations import MetricsLogger

run = wandb.init(dir=sys.argv[1], mode="offline", settings=wandb.Settings(silent=True))
prof = cep.Profiler(sys.argv[1], record_every_n_steps=1)
metrics = MetricsLogger(prof, run)
logged, write = [threading.Event() for _ in range(4)], metrics._sink
metrics._sink = lambda values, step: (write(values, step), logged[step].set())
for step in range(4):
    prof.step(step)
    prof.add_span("forward", start_ns=0, duration_ns=1_000_000 * (step + 1))
    wandb.log({"part": step}, commit=False)
    if "with cep" in sys.argv:
        metrics.log(step)
        logged[step].wait(60)  # it is between the two of the trainer's
    wandb.log({"loss": float(step)}, step=2 * step)
assert metrics.close() and metrics.failed == 0
run.finish()
"""


def wandb_records(data):
    """The records of an offline run: LevelDB's log format, in blocks of 32 KiB, behind a header of 7 bytes."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        size, kind = struct.unpack_from("<HB", data, at + 4)
        if left < 7 or kind == 0:
            at += left
            continue
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield whole
            whole = b""


def wandb_rows(folder):
    records = importlib.import_module("wandb.proto.wandb_internal_pb2")
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    for data in wandb_records(path.read_bytes()):
        record = records.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            yield {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}


def test_the_real_wandb_keeps_what_the_trainer_logs_itself(scripts, tmp_path):
    pytest.importorskip("wandb")
    rows = {}
    for way in ("alone", "with cep"):
        scripts.folder = tmp_path / way
        scripts.folder.mkdir()
        scripts.run(WANDB, way, timeout=200)
        rows[way] = list(wandb_rows(scripts.folder))
    of_trainer = {
        way: [(row["_step"], row.get("part"), row.get("loss")) for row in found if "part" in row or "loss" in row]
        for way, found in rows.items()
    }
    assert of_trainer["with cep"] == of_trainer["alone"] and len(of_trainer["alone"]) >= 4
    ours = [(row["cep/step"], row["cep/forward/mean_ms"]) for row in rows["with cep"] if "cep/step" in row]
    assert ours[-1] == (3, 4.0) and len(ours) >= 3


def test_the_real_mlflow_gets_them_in_the_trainers_run(scripts, tmp_path):
    pytest.importorskip("mlflow")
    out, _ = scripts.run(
        """
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
from cep.integrations import MetricsLogger
mlflow.set_tracking_uri("file://" + sys.argv[1] + "/mlruns")
with mlflow.start_run() as run, cep.Profiler(sys.argv[1], record_every_n_steps=1) as prof:
    metrics = MetricsLogger(prof, mlflow)
    prof.step(0)
    prof.add_span("forward", start_ns=0, duration_ns=2_000_000)
    metrics.log(7)
    assert metrics.close() and metrics.failed == 0
client = mlflow.MlflowClient()
runs = client.search_runs(["0"])
print(len(runs), [(one.value, one.step) for one in client.get_metric_history(run.info.run_id, "cep/forward/mean_ms")])
""",
        timeout=200,
    )
    assert out.splitlines()[-1] == "1 [(2.0, 7)]"
