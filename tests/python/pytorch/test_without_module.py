# SPDX-License-Identifier: Apache-2.0
"""PyTorch without the extension module: no hooks, and who asks for them is told what to install. All else works."""

import sys

import pytest
from conftest import STAND_INS, needs_torch, path_with
from launched import EXAMPLE, run  # noqa: F401

needs_torch()

CAUSE = "cep's extension module is missing (CEP_BINDING is ctypes), and PyTorch's hooks need it: install cep's wheel"
WITHOUT = {"CEP_BINDING": "ctypes"}
MODEL = """
import torch, cep.torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


CALLS = """
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
off, on = cep.Profiler(sys.argv[1], enable=False), cep.Profiler(sys.argv[1])
for call in (
    lambda profiler: cep.torch.instrument(profiler, model, optimizer),
    lambda profiler: cep.torch.instrument_optimizers(profiler, optimizer),
    lambda profiler: cep.torch.instrument_collectives(profiler),
    lambda profiler: cep.torch.trace_training(profiler, [], model, optimizer),
):
    call(off)
    try:
        call(on)
    except ImportError as error:
        print(error)
"""


def test_a_call_that_needs_hooks_raises_unless_the_profiler_is_off(scripts):
    out, _ = scripts.run(MODEL + CALLS, env=WITHOUT)
    assert out.count(CAUSE) == 4 and out.count("(python3-dev, python3-devel)\n") == 4


def test_what_needs_no_hooks_works(scripts, files):
    scripts.run(
        MODEL
        + """
with cep.Profiler(sys.argv[1], record_every_n_steps=1, backend="host") as prof:
    for batch in cep.torch.iterate(prof, [torch.ones(4)] * 3, first_step=0):
        with prof.region("forward"):
            model(cep.torch.to_device(prof, batch, "cpu"))
        assert not cep.torch.record_memory(prof)
""",
        env=WITHOUT,
    )
    for name in ("data_load", "host_to_device", "forward"):
        assert {row["step"] for row in files.spans(name)} == {0, 1, 2}


@pytest.mark.parametrize("warnings", ["", "error::RuntimeWarning"])
def test_a_callback_warns_once_and_the_training_goes_on(scripts, tmp_path, warnings):
    _, err = scripts.run(
        MODEL
        + """
from cep.integrations.transformers import CepCallback
from transformers import Trainer
callback = CepCallback()
trainer = Trainer(model, sys.argv[1], torch.utils.data.DataLoader(torch.ones(16, 4)), max_steps=9, callbacks=[callback])
trainer.train()
assert trainer.state.global_step == 9 and not callback.profiler.enabled
""",
        env={**WITHOUT, "PYTHONPATH": path_with(STAND_INS), "PYTHONWARNINGS": warnings},
    )
    assert err.count(CAUSE) == (warnings == "")
    assert not (tmp_path / "cuda_event_profiler").exists()


def test_cep_run_says_it_once_and_leaves_the_script_alone(run, tmp_path):  # noqa: F811
    out, err = run(sys.executable, EXAMPLE, **WITHOUT)
    assert out and err.count(CAUSE) == 1 and err.startswith("cep run: nothing of this training is recorded: ")
    assert not (tmp_path / "cuda_event_profiler").exists()
