# SPDX-License-Identifier: Apache-2.0
"""cep.torch.CUDATimer and CUDATimerCollection, with CUDA's events and without."""

import pytest

torch = pytest.importorskip("torch")

from cep.torch import timers  # noqa: E402  # after the check that there is torch
from cep.torch.timers import CUDATimer, CUDATimerCollection  # noqa: E402

REGIONS = ["forward", "backward", "comm"]


class FakeEvent:
    """A CUDA event on a device whose clock moves 1.5 ms with each record."""

    made = []
    clock_ms = 0.0

    def __init__(self, enable_timing):
        assert enable_timing
        self.recorded_ms = None
        self.waited_for = 0
        FakeEvent.made.append(self)

    def record(self):
        FakeEvent.clock_ms += 1.5
        self.recorded_ms = FakeEvent.clock_ms

    def synchronize(self):
        self.waited_for += 1

    def elapsed_time(self, end):
        assert end.waited_for, "the end of the region was not waited for"
        return end.recorded_ms - self.recorded_ms


@pytest.fixture
def fake_cuda(monkeypatch):
    FakeEvent.made.clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    return FakeEvent.made


def test_the_time_between_start_and_stop_is_that_of_the_device(fake_cuda):
    timer = CUDATimer()
    assert fake_cuda == [], "no event before the first start"
    timer.start()
    timer.stop()
    assert timer.elapsed_ms() == 1.5


def test_only_reading_waits_and_only_for_the_end(fake_cuda):
    timer = CUDATimer()
    timer.start()
    timer.stop()
    assert [event.waited_for for event in fake_cuda] == [0, 0]
    timer.elapsed_ms()
    assert [event.waited_for for event in fake_cuda] == [0, 1]


def test_a_timer_is_used_again_with_the_same_events(fake_cuda):
    timer = CUDATimer()
    for _ in range(3):
        timer.start()
        timer.stop()
        assert timer.elapsed_ms() == 1.5
    assert len(fake_cuda) == 2


def test_without_cuda_the_hosts_clock_is_read(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    clock = iter([1_000_000, 3_250_000])
    monkeypatch.setattr(timers.time, "perf_counter_ns", lambda: next(clock))
    timer = CUDATimer()
    timer.start()
    timer.stop()
    assert timer.elapsed_ms() == 2.25


def test_what_was_not_timed_took_no_time(fake_cuda):
    timer = CUDATimer()
    assert timer.elapsed_ms() == 0.0
    timer.stop()
    assert timer.elapsed_ms() == 0.0
    timer.start()
    assert timer.elapsed_ms() == 0.0, "started, not stopped"


def test_a_collection_times_each_region(fake_cuda):
    timers_of_regions = CUDATimerCollection(regions=REGIONS)
    assert timers_of_regions.enabled
    timers_of_regions.start("forward")
    timers_of_regions.start("backward")
    timers_of_regions.stop("backward")
    timers_of_regions.stop("forward")
    assert timers_of_regions.elapsed_ms("backward") == 1.5
    assert timers_of_regions.elapsed_all() == {"forward": 4.5, "backward": 1.5, "comm": 0.0}


def test_a_disabled_collection_does_nothing(fake_cuda):
    off = CUDATimerCollection(regions=REGIONS, enabled=False)
    assert not off.enabled
    off.start("forward")
    off.stop("forward")
    assert off.elapsed_ms("forward") == 0.0
    assert off.elapsed_all() == {"forward": 0.0, "backward": 0.0, "comm": 0.0}
    assert fake_cuda == []


def test_an_unknown_region_is_an_error():
    with pytest.raises(KeyError):
        CUDATimerCollection(regions=REGIONS).start("optimizer")
