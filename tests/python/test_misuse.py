# SPDX-License-Identifier: Apache-2.0
"""Mistakes that would be silent: each is told once, with what to do."""

import cep
import cep._errors
import pytest
from conftest import LIGHTNING_MODULE, STAND_INS, path_with

NO_STEP = (
    "cep: rank 0: cep_step() was never called; nothing was recorded for {}: call it, in Python prof.step(n), at the start "
    "of each step\n"
)

REGIONS = """
prof = cep.Profiler(sys.argv[1], rank={rank}, world_size=2, backend="host")
for name in {names}:
    with prof.region(name):
        pass
{end}
"""


@pytest.mark.parametrize("end", ["prof.close()\nprof.close()", ""], ids=("closed", "at exit"))
def test_a_step_that_never_begins_is_told(scripts, end):
    _, err = scripts.run(REGIONS.format(rank=0, names=["forward", "backward"], end=end))
    assert err == NO_STEP.format("forward, backward")


def skip_without_hooks():
    if cep.binding != "native":
        pytest.skip("hooks of PyTorch need the extension module")


@pytest.fixture
def model_and_optimizer(monkeypatch):
    monkeypatch.setattr(cep._errors, "_told", set())  # as in a process of its own
    torch = pytest.importorskip("torch", reason="no torch")
    skip_without_hooks()
    pytest.importorskip("cep.torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train_two_steps(folder, model, optimizer, instrument):
    import torch

    with cep.Profiler(folder, record_every_n_steps=1, backend="host") as prof:
        instrument(prof)
        for step in range(2):
            prof.step(step)
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()


@pytest.mark.parametrize("first, second, told", [
    ("model, optimizer", "model, None", ["the model Sequential is instrumented twice"]),
    ("model, optimizer", "model[0], None", ["the model Linear, as part of the model Sequential, is instrumented twice"]),
    ("model[1], None", "model, None", ["the model Sequential, around the model Linear, is instrumented twice"]),
    ("model, optimizer", "torch.nn.Linear(4, 4), optimizer", ["the optimizer SGD is instrumented twice"]),
    ("model, optimizer", "model, optimizer", ["the model Sequential is", "the optimizer SGD is"]),
    ("model, optimizer", "model[0], None, prefix='first.'", []),
], ids=("model", "inside", "around", "optimizer", "both", "other names"))
def test_what_is_instrumented_twice_is_told_and_counted_once(tmp_path, files, capfd, model_and_optimizer, first, second, told):
    import torch

    model, optimizer = model_and_optimizer

    def instrument(prof):
        names = {"cep": cep, "torch": torch, "prof": prof, "model": model, "optimizer": optimizer}
        for given in [first, second, second] if told else [first, second]:
            eval(f"cep.torch.instrument(prof, {given})", names)

    train_two_steps(tmp_path, model, optimizer, instrument)
    lines = capfd.readouterr().err.splitlines()
    assert [line[: len("cep: " + start)] for line, start in zip(lines, told)] == ["cep: " + one for one in told]
    assert len(lines) == len(told)
    assert all("call remove() on the first handle before" in line for line in lines)
    assert [row["step"] for row in files.spans("forward")] == [0, 1]
    assert [row["step"] for row in files.spans("backward")] == [0, 1]
    if "optimizer" in first:
        assert [row["step"] for row in files.spans("optimizer")] == [0, 1]


def test_a_model_can_be_instrumented_again_after_remove(tmp_path, files, capfd, model_and_optimizer):
    def instrument(prof):
        cep.torch.instrument(prof, *model_and_optimizer).remove()
        cep.torch.instrument(prof, *model_and_optimizer)

    train_two_steps(tmp_path, *model_and_optimizer, instrument)
    assert capfd.readouterr().err == ""
    assert [row["step"] for row in files.spans("optimizer")] == [0, 1]


WITH_AN_INTEGRATION = LIGHTNING_MODULE + """
from cep.integrations.lightning import CepCallback
module = Module()
with cep.Profiler(sys.argv[1], record_every_n_steps=1, backend="host") as prof:
    cep.torch.instrument(prof, module.layer, None)
    lightning.Trainer(sys.argv[1], max_steps=3, callbacks=[CepCallback(prof)]).fit(module, loader)
"""


def test_an_integration_and_instrument_together_are_told_and_counted_once(scripts, files):
    pytest.importorskip("torch", reason="no torch")
    skip_without_hooks()
    _, err = scripts.run(WITH_AN_INTEGRATION, env={"PYTHONPATH": path_with(STAND_INS)})
    (line,) = err.splitlines()
    assert "the model Module, around the model Linear, is instrumented twice" in line
    for name in ("training_step", "forward", "backward", "optimizer"):
        assert [row["step"] for row in files.spans(name)] == [0, 1, 2]


LOOP = """
with cep.Profiler(sys.argv[1], record_every_n_steps=1, backend="host") as prof:
    {before}
    for _ in range(3):
        with prof.region("forward"):
            pass
        prof.step()
"""


@pytest.mark.parametrize("before",
                         ["pass", "prof.step(0)", "prof.region('load').__enter__().__exit__(None, None, None); prof.step(0)"])
def test_a_step_at_the_end_of_the_loop_loses_no_pass(scripts, files, before):
    _, err = scripts.run(LOOP.format(before=before))
    assert not err
    assert [row["step"] for row in files.spans("forward")] == [0, 1, 2]


SET_UP = """
with cep.Profiler(sys.argv[1], record_every_n_steps=1, backend="host") as prof:
    for name in ("load_checkpoint", "build optimizer"):
        prof.region(name)(lambda: None)()
    for _ in range(3):
        {at_begin}
        prof.region({name!r})(lambda: None)()
        {at_end}
"""


@pytest.mark.parametrize(("at_begin", "at_end", "name", "steps"), [
    ("prof.step()", "", "forward", [0, 1, 2]),
    ("", "prof.step()", "train.forward", [0, 1, 2]),
    ("", "prof.step()", "nameless", [0, 0, 1]),  # taken for set-up: in the next pass's step
])
def test_a_set_up_before_the_loop_is_part_of_step_0_and_no_pass(scripts, files, at_begin, at_end, name, steps):
    scripts.run(SET_UP.format(at_begin=at_begin, at_end=at_end, name=name))
    assert [row["step"] for row in files.spans(name)] == steps
    assert [row["step"] for one in ("load_checkpoint", "build optimizer") for row in files.spans(one)] == [0, 0]


NUMBERED = """
with cep.Profiler(sys.argv[1], record_every_n_steps=1, backend="host") as prof:
    for number, _ in enumerate(prof.iterate("data_load", range(2)), start=7):
        prof.step({number})
        prof.region("forward")(lambda: None)()
"""


@pytest.mark.parametrize(("number", "first"), [("number", 7), ("", 0)])
def test_the_first_wait_for_data_belongs_to_the_first_step(scripts, files, number, first):
    scripts.run(NUMBERED.format(number=number))
    steps = {name: [row["step"] for row in files.spans(name)] for name in ("data_load", "forward")}
    assert steps["forward"] == [first, first + 1]
    assert steps["data_load"][:2] == [first, first]


def test_nested_and_unfinished_spans_before_the_first_step(scripts, files):
    scripts.run("""
with cep.Profiler(sys.argv[1], record_every_n_steps=1, backend="host") as prof:
    with prof.region("outer"):
        prof.region("inner")(lambda: None)()
    with prof.region("begun before"):
        prof.step(3)
""")
    assert [(row["name"], row["step"], row["clock"]) for row in files.spans()] == [("outer", 3, "external")]
