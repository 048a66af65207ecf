# SPDX-License-Identifier: Apache-2.0
"""cep.integrations.MetricsLogger with the experiment loggers themselves: TensorBoard, Weights & Biases, MLflow."""

import importlib
import importlib.util
import json
import struct

import pytest
from logged_steps import logged


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
