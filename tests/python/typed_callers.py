# SPDX-License-Identifier: Apache-2.0
"""Calls of cep.torch for mypy, never run: each right call has its result's type, and each wrong one is an error, or else
its ignore comment is unused, which is an error too."""

from typing import Dict

import torch

import cep
import cep.torch


def right(model: torch.nn.Module, optimizer: torch.optim.Optimizer, profiler: cep.Profiler) -> None:
    handle: cep.torch.Instrumentation = cep.torch.instrument(profiler, model, [optimizer])
    handle.remove()
    cep.torch.instrument_optimizers(profiler, optimizer).remove()
    batch: Dict[str, torch.Tensor] = cep.torch.to_device(profiler, {"x": torch.ones(1)}, torch.device("cpu"))
    del batch


def on_a_stream(profiler: cep.Profiler, stream: torch.cuda.Stream) -> None:
    profiler.region("forward", stream=stream)


def wrong(model: torch.nn.Module, optimizer: torch.optim.Optimizer, profiler: cep.Profiler) -> None:
    cep.torch.instrument(profiler, "model", optimizer)  # type: ignore[arg-type]
    cep.torch.instrument(profiler, model, model)  # type: ignore[arg-type]
    cep.torch.instrument_collectives(profiler, names={"dp": "dp"})  # type: ignore[dict-item]
    number: int = cep.torch.to_device(profiler, torch.ones(1), "cpu")  # type: ignore[assignment]
    profiler.region("forward", stream="a stream")  # type: ignore[arg-type]
    del number
