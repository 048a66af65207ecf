# SPDX-License-Identifier: Apache-2.0
"""When the span of an asynchronous collective on the host clock ends."""

from types import SimpleNamespace

import pytest
from conftest import end_ns

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep._native import AsyncSpan  # noqa: E402

pytest_plugins = ("training_jobs",)


class Future:
    """As gloo's."""

    def __init__(self):
        self.is_done, self.callbacks = False, []

    def done(self):
        return self.is_done

    def add_done_callback(self, callback):
        self.callbacks.append(callback)


def begin(profiler):
    return AsyncSpan(profiler.region("all_reduce", kind="comm"), (64, None, "world", 3, None, True))


def end_with(span, future):
    span.end_with(SimpleNamespace(get_future=lambda: future))


def test_it_ends_with_its_future_and_has_its_attributes(files, profiler):
    future = Future()
    end_with(begin(profiler), future)
    assert profiler.stats.open_spans == 1
    (callback,) = future.callbacks
    callback(future)
    row = files.span("all_reduce")
    assert (row["kind"], row["clock"], row["bytes"], row["group"], row["coll"]) == ("comm", "host", 64, "world", 3)
    assert "error" not in row


def test_a_call_that_raised_or_has_no_future_is_marked(files, profiler):
    begin(profiler).fail(OSError)
    end_with(begin(profiler), None)
    assert [row["error"] for row in files.spans("all_reduce")] == ["OSError", "Unmeasured"]


def test_it_is_no_part_of_the_depth_of_what_begins_meanwhile(files, profiler):
    futures = [Future(), Future()]
    for future in futures:
        end_with(begin(profiler), future)
    with profiler.region("training_step"), profiler.region("forward"):
        pass
    for future in futures:
        future.callbacks[0](future)
    assert [row["depth"] for row in files.spans("all_reduce")] == [0, 0]
    assert (files.span("training_step")["depth"], files.span("forward")["depth"]) == (0, 1)


@pytest.mark.parametrize("who", ["step", "backward", "optimizer"])
def test_who_knows_that_it_has_ended_does_not_leave_its_end_to_the_callback(files_while_open, profiler, trainer, who):
    future = Future()
    end_with(begin(profiler), future)
    with cep.torch.instrument(profiler, trainer.model, trainer.optimizer, memory=False):
        loss = trainer.loss()
        profiler.flush()
        assert files_while_open.spans("all_reduce") == []  # not done
        future.is_done = True
        if who == "step":
            profiler.step(1)
        elif who == "backward":
            loss.backward()
        else:
            trainer.optimizer.step()
        profiler.flush()
        row = files_while_open.span("all_reduce")
        assert row["step"] == 0
        if who == "backward":
            assert end_ns(row) <= end_ns(files_while_open.span("backward"))
    future.callbacks[0](future)  # late
    profiler.close()
    assert len(files_while_open.spans("all_reduce")) == 1
    assert profiler.stats.open_spans == 0
