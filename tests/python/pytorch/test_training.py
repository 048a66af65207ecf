# SPDX-License-Identifier: Apache-2.0
"""trace_training(): a plain loop in one line."""

import cep
import pytest
from conftest import end_ns

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402

pytest_plugins = ("training_jobs",)

IN_A_STEP = ["data_load", "host_to_device", "forward", "backward", "optimizer"]


def batches(count):
    return [torch.ones(2, 8) for _ in range(count)]


class Stream:
    """A loader without a length."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(batches(self.count))


@pytest.fixture
def model():
    return torch.nn.Linear(8, 8)


def train(model, loader, profiler, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    every = options.get("batches_per_step", 1)
    traced = cep.torch.trace_training(profiler, loader, model, optimizer, device="cpu", memory=False, **options)
    for number, batch in enumerate(traced, 1):
        model(batch).sum().backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()
    return traced


def by_step(files):
    found = {}
    for row in sorted(files.spans(), key=lambda row: (row["step"], row["start_ns"], row["depth"])):
        found.setdefault(row["step"], []).append(row)
    return found


def test_each_pass_is_a_step_with_all_of_its_phases_inside(files, profiler, model):
    traced = train(model, batches(3), profiler)
    profiler.close()
    assert len(traced) == 3
    steps = by_step(files)
    assert sorted(steps) == [0, 1, 2]
    for rows in steps.values():
        whole = next(row for row in rows if row["name"] == "training_step")
        assert whole["kind"] == "step" and "error" not in whole
        inside = [row for row in rows if row is not whole]
        assert [row["name"] for row in inside] == IN_A_STEP
        for row in inside:
            assert whole["start_ns"] <= row["start_ns"]
            assert row["start_ns"] + row["duration_ms"] * 1e6 <= whole["start_ns"] + whole["duration_ms"] * 1e6 + 2e3


def test_steps_go_on_when_it_is_iterated_again(files, profiler, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    traced = cep.torch.trace_training(profiler, batches(2), model, optimizer, first_step=7)
    for _ in range(2):
        for batch in traced:
            model(batch)
    assert sorted(by_step(files)) == [7, 8, 9, 10]
    assert traced.next_step == 11


def test_a_step_of_several_batches(files, profiler, model):
    train(model, batches(4), profiler, batches_per_step=2)
    steps = by_step(files)
    assert sorted(steps) == [0, 1]
    names = [row["name"] for row in steps[1]]
    assert names.count("training_step") == 1 and names.count("data_load") == 2 and names.count("forward") == 2
    assert names.count("optimizer") == 1


def test_a_last_step_of_fewer_batches_ends_with_the_loader(files, profiler, model):
    train(model, batches(3), profiler, batches_per_step=2)
    assert [row["name"] for row in by_step(files)[1]].count("training_step") == 1
    assert profiler.stats.open_spans == 0


def test_the_end_of_a_loader_without_a_length_is_marked(files, profiler, model):
    train(model, Stream(2), profiler)
    steps = by_step(files)
    assert "error" not in steps[1][0]
    assert [row["error"] for row in steps[2] if row["name"] == "training_step"] == ["NotFinished"]


def test_a_loop_that_is_left_leaves_nothing_behind(files, profiler, model):
    before = dict(model.__dict__)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loop = iter(cep.torch.trace_training(profiler, batches(5), model, optimizer))
    model(next(loop))
    loop.close()
    profiler.step(1)
    model(torch.ones(2, 8))
    assert [row["name"] for row in files.spans()].count("forward") == 1
    assert model.__dict__.keys() == before.keys()


def test_an_unrecorded_step_has_no_rows(files, tmp_path, model):
    with cep.Profiler(tmp_path, record_every_n_steps=2, backend="host") as profiler:
        train(model, batches(3), profiler)
    assert {row["step"] for row in files.spans()} == {0, 2}


def test_batches_per_step_below_one_is_refused(profiler, model):
    with pytest.raises(ValueError, match="batches_per_step: 0 is less than 1"):
        cep.torch.trace_training(profiler, [], model, None, batches_per_step=0)


DDP = """
data = [torch.ones(2, 32)] * 150
net = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4)))
model = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.005)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
sys.setswitchinterval(1)  # a thread of gloo that wants the interpreter waits until the trainer lets go of it
with cep.Profiler(folder, record_every_n_steps=1) as prof:
    for batch in cep.torch.trace_training(prof, data, model, optimizer, device="cpu"):
        model(batch).sum().backward()
        optimizer.step()
        sum(range(20_000))
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_rows_of_a_job_over_gloo_agree_with_each_other(job, files, ranks):
    job.run(ranks, DDP)
    for rank in range(ranks):
        rows = files.spans(rank=rank)
        depths = {(row["name"], row["depth"]) for row in rows}
        assert depths == {("training_step", 0), *((name, 1) for name in IN_A_STEP), ("all_reduce", 2)}
        backwards = {row["step"]: row for row in rows if row["name"] == "backward"}
        for row in rows:
            if row["name"] == "all_reduce":
                assert end_ns(row) <= end_ns(backwards[row["step"]])
