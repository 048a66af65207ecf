# SPDX-License-Identifier: Apache-2.0
"""Profilers and regions that are copied or pickled, with what holds them."""

import copy
import pickle

import cep
import pytest

WAYS = pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))], ids=["copy", "deepcopy", "pickle"]
)


@WAYS
def test_a_copy_of_a_profiler_is_off_and_leaves_the_original_on(files, profiler, copied):
    twin = copied(profiler)
    assert profiler.enabled and not twin.enabled and twin.path is None
    with twin.region("forward"), profiler.region("forward"):
        twin.step(5)
    twin.close()
    assert [row["step"] for row in files.spans()] == [0]


@WAYS
def test_a_copy_of_a_region_times_nothing(files, profiler, copied):
    twin = copied(profiler.region("forward"))
    assert twin.name == "forward"
    with twin:
        pass
    assert files.spans() == []


class Model:
    """As a module of Lightning's that holds its profiler."""

    def __init__(self, profiler):
        self.profiler, self.region, self.weights = profiler, profiler.region("forward"), [1.0]

    def forward(self):
        with self.region:
            return self.weights[0]


@WAYS
def test_what_holds_a_profiler_can_be_copied(files, profiler, copied):
    model = Model(profiler)
    twin = copied(model)
    assert twin.forward() == model.forward() == 1.0
    assert len(files.spans("forward")) == (2 if copied is copy.copy else 1)  # a shallow copy has the same profiler


def test_a_subclass_stays_one(profiler, tmp_path):
    class Mine(cep.Profiler):
        pass

    with Mine(tmp_path / "mine") as mine:
        assert isinstance(copy.deepcopy(mine), Mine)
