# SPDX-License-Identifier: Apache-2.0
"""cep.integrations.accelerate in a real training: the example, run as a user would."""

import pytest

pytest.importorskip("accelerate")

from framework_runs import run_example  # noqa: E402  # after the check that there is a framework


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_phase_of_every_recorded_step(tmp_path, ranks, command, without_compiler):
    run_example("accelerate", tmp_path, command, ranks=ranks, steps=12, stride=3)


def test_gradient_accumulation_is_one_step_of_several_batches(tmp_path, command, without_compiler):
    run_example("accelerate", tmp_path, command, ranks=1, steps=6, stride=1, batches=2)
