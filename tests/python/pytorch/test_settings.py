# SPDX-License-Identifier: Apache-2.0
"""What PyTorch, a model, an optimizer and a loader were told stands in the run row."""

import types

import cep
import cep.torch
import pytest
import torch
import torch.distributed.fsdp


def settings(files):
    return files.typed("run")[-1]["meta"]["settings"]


def test_settings_of_pytorch(files):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with torch.autograd.set_detect_anomaly(True):
            cep.Profiler(directory=files.directory).close()
    finally:
        torch.set_float32_matmul_precision(before)
    found = settings(files)
    assert found["torch"] == torch.__version__ and found["matmul_precision"] == "high"
    assert found["anomaly_detection"] is True and found["deterministic_algorithms"] is False
    assert not torch.cuda.is_initialized()


def test_settings_of_a_training(files):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    data = torch.utils.data.TensorDataset(torch.randn(8, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=False, num_workers=0)
    with cep.Profiler(directory=files.directory, record_every_n_steps=1) as profiler:
        for (batch,) in cep.torch.trace_training(profiler, loader, model, optimizer):
            model(batch).sum().backward()
            optimizer.step()
    found = settings(files)
    assert len(files.typed("run")) == 2  # as it was opened, and after the first forward with all that is known then
    assert (found["parameters"], found["device"], found["compiled"]) == ("float32", "cpu", False)
    assert (found["optimizer"], found["optimizer_foreach"]) == ("AdamW", True)
    assert (found["loader_num_workers"], found["loader_pin_memory"], found["loader_batch_size"]) == (0, False, 4)
    assert found["torch"] == torch.__version__


class _Sharded(torch.nn.Linear):
    """As FullyShardedDataParallel and Transformers' models say what they were told."""

    sharding_strategy = torch.distributed.fsdp.ShardingStrategy.FULL_SHARD
    backward_prefetch = None
    forward_prefetch = True
    limit_all_gathers = False
    is_gradient_checkpointing = True
    config = types.SimpleNamespace(_attn_implementation="sdpa")


def test_settings_of_a_sharded_model(files):
    model = _Sharded(4, 4)
    with cep.Profiler(directory=files.directory) as profiler:
        cep.torch.instrument(profiler, model).remove()
    found = settings(files)
    assert (found["fsdp_sharding_strategy"], found["fsdp_forward_prefetch"]) == ("FULL_SHARD", True)
    assert found["fsdp_limit_all_gathers"] is False and found["fsdp_backward_prefetch"] == "none"
    assert (found["gradient_checkpointing"], found["attention"]) == (True, "sdpa")


@pytest.mark.parametrize(("name", "layout"), [("contiguous", torch.contiguous_format), ("channels_last", torch.channels_last)])
def test_the_memory_format_of_convolutions_is_that_of_their_filters(files, name, layout):
    point = torch.nn.Conv2d(3, 4, 1)  # has both formats
    model = torch.nn.Sequential(point, torch.nn.Conv2d(4, 4, 3)).to(memory_format=layout)
    with cep.Profiler(directory=files.directory) as profiler:
        cep.torch.instrument(profiler, model).remove()
    assert settings(files)["convolutions"] == name


@pytest.mark.parametrize("autocast", [False, True])
def test_the_type_of_matrix_products_is_what_autocast_makes_of_them(files, autocast):
    class Inside(torch.nn.Module):  # as Accelerate does: autocast is on in the forward only
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))

        def forward(self, batch):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                return {"logits": self.layers(batch).float()}

    model = Inside()
    with cep.Profiler(directory=files.directory, record_every_n_steps=2) as profiler:
        with cep.torch.instrument(profiler, model):
            for step in range(4):
                profiler.step(step)
                model(torch.randn(2, 4))["logits"].sum().backward()
    assert settings(files)["matmul_dtype"] == ("bfloat16" if autocast else "float32")
