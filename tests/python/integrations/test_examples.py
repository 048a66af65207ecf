# SPDX-License-Identifier: Apache-2.0
"""The integrations in real trainings: the examples of the frameworks, run as a user would."""

import importlib.util

import pytest
from conftest import needs_torch

needs_torch()

from framework_rows import FRAMEWORKS  # noqa: E402  # after the check that there is torch
from framework_runs import run_example  # noqa: E402

INSTALLED = [
    pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"no {name}"))
    for name in FRAMEWORKS
]


@pytest.mark.parametrize(("ranks", "stride", "batches"), [(2, 3, 1), (1, 3, 2)])
@pytest.mark.parametrize("framework", INSTALLED)
def test_every_phase_of_every_recorded_step(tmp_path, framework, ranks, stride, batches, command):
    """Of a step of several batches too."""
    run_example(framework, tmp_path, command, ranks=ranks, steps=12, stride=stride, batches=batches)
