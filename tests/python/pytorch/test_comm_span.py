# SPDX-License-Identifier: Apache-2.0
"""Where the span of an asynchronous collective of CUDA tensors begins and ends, with stand-ins for streams."""

import gc
import threading
import weakref

import pytest
from conftest import end_ns

torch = pytest.importorskip("torch", reason="no torch")

import cep.torch  # noqa: E402
from cep.torch._comm_span import Description, SideStreams, begin_async  # noqa: E402
from cep.torch._groups import Group  # noqa: E402
from cep.torch._hooks import AsyncSpan, SideStream  # noqa: E402
from cep.torch._waits import waits  # noqa: E402

pytest_plugins = ("training_jobs",)

if torch.cuda.is_available():
    pytest.skip("stand-ins for streams are not for where there are streams", allow_module_level=True)

GROUP = Group("world", 2, True, iter(()))
WHAT = Description("all_reduce", 64, GROUP, 3)


class Stream:
    """A stream that logs what is queued on it, and is done with it once the test says so."""

    are_idle = False

    def __init__(self, log, number, device=0):
        self.log, self.device = log, device
        self.cuda_stream = number

    def query(self):
        return Stream.are_idle

    def wait_event(self, event):
        self.log.append(("waits for stream", self.cuda_stream, event.stream))


class Event:
    """An event: keeps the stream on which it was recorded last."""

    stream = None

    def record(self, stream):
        self.stream = stream.cuda_stream


class Tensor:
    """A tensor that no other stream may be recorded on: the allocator would keep its memory until that stream has passed."""

    def record_stream(self, stream):
        raise AssertionError("its memory is no longer free when the trainer's own stream is done with it")


class Work:
    """As NCCL's: the first wait lets go of the tensors that PyTorch keeps for the caller."""

    def __init__(self, log, tensors=()):
        self.log, self.kept = log, list(tensors)

    def wait(self):
        self.log.append(("waits for result", *self.log.current))
        self.kept.clear()

    def get_future(self):
        return NoWait(self.log)


class Future:
    def __init__(self, log, done=True):
        self.log, self.is_done, self.callbacks = log, done, []

    def done(self):
        return self.is_done

    def wait(self):
        assert self.is_done, "waits on the host"
        self.log.append(("waits for result", *self.log.current))

    def add_done_callback(self, callback):
        self.callbacks.append(callback)


class WorkOf:
    """As gloo's."""

    def __init__(self, future):
        self.get_future = lambda: future


class NoWait(Future):
    """NCCL's future: its wait() records the current stream on the result's tensors."""

    def wait(self):
        raise AssertionError("records a stream on tensors")

    add_done_callback = wait


class Log(list):
    """The calls in their order, and the stream that is current."""

    def __init__(self):
        super().__init__()
        self.made = 0
        self.current, self.device = [7], 0


@pytest.fixture
def log(monkeypatch):
    log = Log()

    def make(device):
        log.made += 1
        return Stream(log, 100 + log.made, device)

    def use(stream):
        log.current, log.device = [stream.cuda_stream], stream.device

    def use_device(device):
        log.device = device

    monkeypatch.setattr(torch.cuda, "Stream", make)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.distributed, "Work", Work)
    monkeypatch.setattr(Stream, "are_idle", False)
    monkeypatch.setattr(torch.cuda, "set_stream", use)
    monkeypatch.setattr(torch.cuda, "set_device", use_device)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: log.device)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(log, log.current[0], device))
    return log


def test_it_lasts_from_the_inputs_to_the_result_on_a_stream_beside_the_trainers(files, profiler, log):
    span = begin_async(profiler, SideStreams(), WHAT, device=0)
    log.append("called")
    span.end_with_works([Work(log)], [Tensor()])
    profiler.close()
    assert log == [("waits for stream", 101, 7), "called", ("waits for result", 101)]
    row = files.span("all_reduce")
    assert (row["kind"], row["bytes"], row["group"], row["coll"]) == ("comm", 64, "world", 3)


@pytest.fixture
def let_go(log, monkeypatch):
    """Lets go of what this file's other tests have left, and at the end looks whether Work is PyTorch's own again."""

    def sweep_all():
        monkeypatch.setattr(Stream, "are_idle", True)
        gc.collect()
        waits.sweep()
        monkeypatch.setattr(Stream, "are_idle", False)
        assert not waits.kept

    sweep_all()
    yield
    sweep_all()
    assert not hasattr(Work.wait, "_cep_patch")


def run_and_drop(profiler, log):
    """An asynchronous collective whose tensor only the Work keeps, as the trainer goes on."""
    tensor = Tensor()
    work = Work(log, [tensor])
    begin_async(profiler, SideStreams(), WHAT, device=0).end_with_works([work], [tensor])
    return work, weakref.ref(tensor)


def test_the_trainers_wait_frees_the_tensors_as_without_a_profiler(profiler, log, let_go):
    work, tensor = run_and_drop(profiler, log)
    assert work.kept == [] and tensor() is not None  # the profiler's wait came first
    work.wait()
    assert tensor() is None


def test_tensors_that_nobody_waits_for_are_kept_until_the_device_is_done(profiler, log, let_go, monkeypatch):
    work, tensor = run_and_drop(profiler, log)
    del work
    profiler.step(1)
    waits.sweep()
    assert tensor() is not None
    monkeypatch.setattr(Stream, "are_idle", True)
    waits.sweep()
    assert tensor() is None


def test_a_device_that_has_failed_stops_no_step(profiler, log, let_go, monkeypatch):
    def fail(stream):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    _, tensor = run_and_drop(profiler, log)
    with monkeypatch.context() as patched:
        patched.setattr(Stream, "query", fail)
        waits.sweep()
    assert tensor() is not None


def test_nothing_is_asked_of_streams_while_one_is_captured(profiler, log, let_go, monkeypatch):
    """To ask would end the capture with an error."""
    asked = []
    _, tensor = run_and_drop(profiler, log)
    with monkeypatch.context() as patched:
        patched.setattr(Stream, "query", lambda stream: asked.append(stream))
        patched.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        waits.sweep()
    assert asked == [] and tensor() is not None


def test_each_message_of_a_batch_keeps_its_tensors_until_the_wait_for_the_last(profiler, log, let_go):
    tensor = Tensor()
    works = [Work(log), Work(log)]
    begin_async(profiler, SideStreams(), WHAT, device=0).end_with_works(works, [tensor])
    reference = weakref.ref(tensor)
    del tensor
    works[0].wait()
    assert reference() is not None
    works[1].wait()
    assert reference() is None


def test_a_group_has_one_stream_on_a_device(profiler, log):
    streams = SideStreams()
    other = WHAT._replace(group=GROUP._replace(name="dp"))
    for what, device in ((WHAT, 0), (WHAT, 0), (other, 0), (WHAT, 1)):
        begin_async(profiler, streams, what, device).end_with_works([Work(log)], [])
    assert log.made == 3
    assert (log.current, log.device) == ([7], 0)  # as before


def test_a_result_that_is_not_there_yet_is_not_waited_for_on_the_host(files, profiler, log):
    future = Future(log, done=False)
    by_gloo = WHAT._replace(group=GROUP._replace(on_device=False))
    begin_async(profiler, SideStreams(), by_gloo, device=0).end_with_works([WorkOf(future)], [])
    assert profiler.stats.open_spans == 1
    (callback,) = future.callbacks
    callback(future)
    profiler.close()
    assert "error" not in files.span("all_reduce")


def test_a_call_that_raised_or_has_no_future_is_marked(files, profiler, log):
    begin_async(profiler, SideStreams(), WHAT, device=None).fail(OSError)
    begin_async(profiler, SideStreams(), WHAT, device=None).end_with_works([WorkOf(None)], [])
    profiler.close()
    assert [row["error"] for row in files.spans("all_reduce")] == ["OSError", "Unmeasured"]


def test_a_collective_that_failed_on_the_device_is_marked_and_left_to_the_trainer(files, profiler, log):
    class Failed(Work):
        def wait(self):
            raise RuntimeError("a rank is gone")

    begin_async(profiler, SideStreams(), WHAT, device=0).end_with_works([Failed(log)], [Tensor()])
    profiler.close()
    assert files.span("all_reduce")["error"] == "RuntimeError"


def test_on_the_host_it_is_no_part_of_the_depth_of_what_begins_meanwhile(files, profiler, log):
    futures = [Future(log, done=False), Future(log, done=False)]
    for future in futures:
        begin_async(profiler, SideStreams(), WHAT, device=None).end_with_works([WorkOf(future)], [])
    with profiler.region("training_step"), profiler.region("forward"):
        pass
    for future in futures:
        future.callbacks[0](future)
    profiler.close()
    assert [row["depth"] for row in files.spans("all_reduce")] == [0, 0]
    assert (files.span("training_step")["depth"], files.span("forward")["depth"]) == (0, 1)


@pytest.mark.parametrize("who", ["step", "backward", "optimizer"])
def test_on_the_host_who_knows_that_it_has_ended_does_not_leave_its_end_to_the_callback(
    files, profiler, log, trainer, who
):
    future = Future(log, done=False)
    span = begin_async(profiler, SideStreams(), WHAT, device=None)
    span.end_with_works([WorkOf(future)], [])
    with cep.torch.instrument(profiler, trainer.model, trainer.optimizer, memory=False):
        loss = trainer.loss()
        profiler.flush()
        assert files.spans("all_reduce") == []  # not done
        future.is_done = True
        if who == "step":
            profiler.step(1)
        elif who == "backward":
            loss.backward()
        else:
            trainer.optimizer.step()
        profiler.flush()
        row = files.span("all_reduce")
        assert row["step"] == 0
        if who == "backward":
            assert end_ns(row) <= end_ns(files.span("backward"))
    future.callbacks[0](future)  # late
    profiler.close()
    assert len(files.spans("all_reduce")) == 1
    assert profiler.stats.open_spans == 0


def test_pytorchs_object_of_the_current_stream_is_made_again_for_another_stream_only(profiler, log):
    current, made = [7], []

    def make(device):
        made.append(current[0])
        return Stream(log, current[0], device)

    stream, event = Stream(log, 101), Event()
    cuda = torch.cuda.set_stream, torch.cuda.current_device, torch.cuda.set_device
    calls = lambda device: current[0], make, lambda one: (one,), event.record, stream.wait_event, event, *cuda
    side = SideStream(0, stream, calls, True, False)
    region = profiler.region("all_reduce", kind="comm")
    for number in (7, 7, 8, 7):
        current[0] = number
        AsyncSpan(region, side, (4, None, "world", 1, None, False)).end_with_works([Work(log)], [])
        assert log.current == [number]
    assert made == [7, 8, 7]
    assert [entry[-1] for entry in log if entry[0] == "waits for stream"] == [7, 7, 8, 7]


def test_threads_that_make_collectives_at_once_wait_each_for_its_own_stream(profiler, log):
    stream, event, second = Stream(log, 101), Event(), threading.local()
    inside, region = threading.Event(), profiler.region("all_reduce", kind="comm")

    def record(current):  # gives the interpreter's lock up, as PyTorch's does
        event.record(current)
        if not inside.is_set():
            inside.set()
            other.join(0.3)  # it is done before, if nothing keeps it out

    def begin():
        AsyncSpan(region, side, (4, None, "world", 1, None, False)).end_with_works([Work(log)], [])

    def begin_on_8():
        second.stream = Stream(log, 8)
        begin()

    cuda = torch.cuda.set_stream, torch.cuda.current_device, torch.cuda.set_device
    current = lambda device: getattr(second, "stream", None) or Stream(log, 7)
    calls = None, current, lambda one: (one,), record, stream.wait_event, event, *cuda
    side = SideStream(0, stream, calls, True, False)
    other = threading.Thread(target=lambda: inside.wait() and begin_on_8())
    other.start()
    begin()
    other.join()
    assert [entry[-1] for entry in log if entry[0] == "waits for stream"] == [7, 8]


def test_a_signals_handler_that_makes_a_collective_in_the_midst_of_another_goes_on(profiler, log):
    stream, event = Stream(log, 101), Event()
    nested, region = [], profiler.region("all_reduce", kind="comm")

    def record(current):
        if not nested:
            nested.append(True)
            begin()
        event.record(current)

    def begin():
        AsyncSpan(region, side, (4, None, "world", 1, None, False)).end_with_works([Work(log)], [])

    cuda = torch.cuda.set_stream, torch.cuda.current_device, torch.cuda.set_device
    calls = None, lambda device: Stream(log, 7), lambda one: (one,), record, stream.wait_event, event, *cuda
    side = SideStream(0, stream, calls, True, False)
    begin()
    assert [entry[-1] for entry in log if entry[0] == "waits for stream"] == [7, 7]
