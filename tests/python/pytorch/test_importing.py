# SPDX-License-Identifier: Apache-2.0
"""Which modules import PyTorch, and the error if there is none."""

import importlib.util

import pytest


def test_cep_alone_does_not_import_pytorch(scripts):
    scripts.run("assert 'torch' not in sys.modules")


def test_parts_are_imported_when_they_are_first_used(scripts):
    scripts.run("""
import cep
assert "cep.compat" not in sys.modules and cep.compat.CudaEventProfiler
try:
    cep.nothing
except AttributeError as error:
    assert str(error) == "module 'cep' has no attribute 'nothing'", error
else:
    raise AssertionError("no error")
""")


with_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")


@with_torch
@pytest.mark.parametrize("script", [
    pytest.param("import cep\nassert cep.torch.instrument and cep.integrations.log_metrics", id="needs no import of its own"),
    pytest.param("import cep.torch\nassert all(hasattr(cep.torch, name) for name in cep.torch.__all__)", id="has what it lists"),
    pytest.param("import torch, cep.torch\nassert not torch.cuda.is_initialized()", id="does not initialise CUDA"),
])
def test_cep_torch(scripts, script):
    scripts.run(script)


def test_without_pytorch_the_error_says_what_is_missing(scripts):
    scripts.run("""
sys.modules["torch"] = None
try:
    import cep.torch
except ImportError as error:
    assert str(error).startswith("cep.torch needs PyTorch 2.4 or later"), error
else:
    raise AssertionError("no error")
""")


@with_torch
def test_every_function_calls_its_profiler_profiler(scripts):
    scripts.run("""
import inspect, cep.torch, cep.integrations
taking = {}
for module in (cep, cep.torch, cep.integrations):
    for name in module.__all__:
        if callable(getattr(module, name)) and name != "Profiler":
            try:
                parameters = inspect.signature(getattr(module, name)).parameters.values()
            except ValueError:
                continue
            taking[name] = [one.name for one in parameters if one.name == "prof" or "Profiler" in str(one.annotation)]
found = {name: parameters for name, parameters in taking.items() if parameters}
assert len(found) >= 10, found
assert all(parameters == ["profiler"] for parameters in found.values()), found
""")
