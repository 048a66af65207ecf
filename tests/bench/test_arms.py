# SPDX-License-Identifier: Apache-2.0
"""The ways to instrument a training that the benchmarks compare run, as far as no GPU is needed."""

import importlib

import pytest

pytest.importorskip("torch", reason="no torch")
import cep  # noqa: E402


# The rows of four steps where they are not three in each, or in each tenth. The last phase of a chain is still open.
ROWS = {"off": 0, "off again": 0, "empty with": 0, "cep, no step recorded": 3, "native phases, every step": 11}


class Calls(list):
    """A training whose phases are noted and do nothing."""

    def forward(self):
        self.append("forward")

    def backward(self, loss):
        self.append("backward")

    def optimize(self):
        self.append("optimizer")


def arms_of(program):
    if program == "price":
        return importlib.import_module("price").training_module({"native": cep, "ctypes": cep}, None)
    return importlib.import_module("training")


@pytest.mark.parametrize("program", ["training", "price"])
def test_each_arm_trains_and_counts_its_rows(program, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    training = arms_of(program)
    for name in set(training.ARMS) - set(training.NEED_A_GPU):
        calls = Calls()
        arm = training.ARMS[name](calls, tmp_path / name)
        for step in range(4):
            arm.step(step)
        assert calls == ["forward", "backward", "optimizer"] * 4
        assert arm.close() == ROWS.get(name, 3 if "10th" in name else 12), name
