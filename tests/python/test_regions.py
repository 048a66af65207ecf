# SPDX-License-Identifier: Apache-2.0
"""Regions as context managers: nesting, errors, threads, attributes."""

import functools
import importlib
import sys
import types

import cep
import pytest
from cep._binding import native
from conftest import end_ns

needs_module = pytest.mark.skipif(cep.binding != "native", reason="the extension module is not in use")


def test_a_block_begun_off_a_recorded_step_does_not_end_another(tmp_path, files):
    profiler = cep.Profiler(tmp_path, record_every_n_steps=2)
    region = profiler.region("layer")
    profiler.step(0)
    with region:
        profiler.step(1)
        with region:
            profiler.step(2)
        with profiler.region("marker_of_time"):
            pass
    profiler.close()
    (layer,) = files.spans("layer")
    assert layer["step"] == 0
    assert end_ns(layer) >= end_ns(files.span("marker_of_time"))


def test_a_block_left_on_a_recorded_step_but_begun_before_has_no_row(tmp_path, files):
    with cep.Profiler(tmp_path, record_every_n_steps=2) as profiler:
        profiler.step(1)
        with profiler.region("layer"):
            profiler.step(2)
    assert files.spans() == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_marks_the_row_and_passes_through(profiler, files, error):
    with pytest.raises(error):
        with profiler.region("forward"):
            raise error("out of luck")
    assert files.span("forward")["error"] == error.__name__


def test_an_exception_with_an_endless_name_is_cut_to_what_a_row_holds(profiler, files):
    error = type("Ü" * 100, (Exception,), {})
    with pytest.raises(error):
        with profiler.region("forward"):
            raise error
    assert files.span("forward")["error"] == "Ü" * 31


def test_closing_a_generator_inside_a_region_is_not_an_error(profiler, files):
    def batches():
        with profiler.region("forward"):
            yield 1

    generator = batches()
    next(generator)
    generator.close()
    assert "error" not in files.span("forward")


def test_attributes_are_in_the_row(profiler, files):
    with profiler.region("all_reduce", bytes=4096, flops=2.5e9, group="dp", coll=17, meta={"bucket": 3}):
        pass
    row = files.span("all_reduce")
    assert (row["kind"], row["bytes"], row["flops"], row["group"], row["coll"]) == ("comm", 4096, 2.5e9, "dp", 17)
    assert row["meta"] == {"bucket": 3}


def test_attributes_not_given_are_not_in_the_row(profiler, files):
    with profiler.region("all_reduce", group="dp", coll=0):
        pass
    row = files.span("all_reduce")
    assert row["coll"] == 0
    assert not {"bytes", "flops", "meta"} & row.keys()


def test_an_error_keeps_the_attributes_of_the_begin(profiler, files):
    with pytest.raises(ValueError):
        with profiler.region("all_reduce", group="dp", coll=1, bytes=8):
            raise ValueError
    row = files.span("all_reduce")
    assert (row["error"], row["group"], row["coll"], row["bytes"]) == ("ValueError", "dp", 1, 8)


@pytest.mark.parametrize("attributes, named", [
    ({"bytes": -1}, "bytes"),
    ({"bytes": 1.5}, "bytes"),
    ({"flops": float("nan")}, "flops"),
    ({"group": ""}, "group"),
    ({"group": "x" * 64}, "group"),
    ({"coll": 3}, "coll"),
    ({"group": "dp", "coll": -1}, "coll"),
    ({"meta": {"of": object()}}, "meta"),
    ({"meta": {"of": float("inf")}}, "meta"),
    ({"meta": 5}, "meta"),
    ({"meta": {"of": "x" * 20000}}, "meta"),
])
def test_an_invalid_attribute_is_a_warning_that_names_it_when_a_span_is_recorded(tmp_path, files, attributes, named):
    with cep.Profiler(tmp_path, record_every_n_steps=2) as profiler:
        profiler.step(1)
        with profiler.region("all_reduce", **attributes):
            pass
        profiler.step(2)
        with pytest.warns(RuntimeWarning, match=named):
            with profiler.region("all_reduce", **attributes):
                pass
        assert profiler.stats.dropped_meta == 1
    assert files.span("all_reduce").keys().isdisjoint(attributes)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256, "a\0b", 5])
def test_an_invalid_name_is_refused(profiler, name):
    with pytest.raises(cep.OptionError, match="name"):
        profiler.region(name)


def test_an_unknown_kind_is_refused_by_name(profiler):
    with pytest.raises(cep.OptionError, match="kind.*gemm.*compute"):
        profiler.region("forward", kind="gemm")


def test_the_kind_is_as_given_or_as_the_words_of_the_name_say(profiler, files):
    with profiler.region("forward", kind="other"):
        pass
    with profiler.region("all_gather"):
        pass
    with profiler.region("comma"):
        pass
    assert [row["kind"] for row in files.spans()] == ["other", "comm", "other"]


def test_streams_of_other_libraries_are_accepted(profiler, files):
    torch_stream = types.SimpleNamespace(cuda_stream=0)
    cupy_stream = types.SimpleNamespace(ptr=0)
    for stream in (torch_stream, cupy_stream, 0):
        with profiler.region("forward", stream=stream):
            pass
    assert len(files.spans("forward")) == 3


def test_what_is_no_stream_is_refused(profiler):
    with pytest.raises(cep.OptionError, match="stream"):
        profiler.region("forward", stream="side")


class FakeTorch(types.ModuleType):
    """The part of PyTorch that the package uses."""

    def __init__(self):
        super().__init__("torch")
        self.asked = []
        self.initialized = False
        self.cuda = types.SimpleNamespace(is_initialized=lambda: self.initialized)
        self._C = types.SimpleNamespace(_cuda_getCurrentRawStream=self.raw_stream)

    def raw_stream(self, device):
        self.asked.append(device)
        return 0


def test_pytorchs_current_stream_is_asked_for_once_cuda_is_in_use(tmp_path, monkeypatch):
    torch = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    with cep.Profiler(tmp_path, backend="host", record_every_n_steps=2) as profiler:
        profiler.step(0)
        with profiler.region("forward"):
            pass
        assert torch.asked == []
        torch.initialized = True
        profiler.step(2)
        torch.asked.clear()
        with profiler.region("forward"):
            pass
        assert torch.asked == [-1]
        with profiler.region("checkpoint", stream=cep.HOST):
            pass
        profiler.step(3)
        with profiler.region("forward"):
            pass
        assert torch.asked == [-1]


@needs_module
def test_spans_of_a_device_that_is_not_current_are_made_while_it_is(tmp_path):
    exchanged = []

    def exchange(device):
        exchanged.append(device)
        return 0

    with cep.Profiler(tmp_path, record_every_n_steps=1) as profiler:
        before = profiler.region("before")
        profiler._set_device(exchange, 3)
        profiler.step(0)
        calls = {}

        def count(name, call):
            exchanged.clear()
            call()
            calls[name] = list(exchanged)

        def fails():
            with pytest.raises(ValueError), profiler.region("failed"):
                raise ValueError

        def block(region):
            with region:
                pass

        count("with", lambda: block(before))
        count("attributes", lambda: block(profiler.region("copy", bytes=8)))
        count("decorator", profiler.region("decorated")(lambda: None))
        count("error", fails)
        count("phase", lambda: profiler.phase("chained"))
        count("end_phase", profiler.end_phase)
        count("host", lambda: block(profiler.region("loading", stream=cep.HOST)))
    around = [3, 0]
    assert calls == {
        "with": 2 * around, "attributes": 2 * around, "decorator": 2 * around, "error": 2 * around,
        "phase": around, "end_phase": around, "host": [],
    }  # fmt: skip


@needs_module
@pytest.mark.parametrize("refused", [(3, 0), (0,)], ids=("its own", "the one before"))
def test_a_device_that_cannot_be_made_current_does_not_stop_the_trainer(tmp_path, refused):
    def exchange(device):
        if device in refused:
            raise RuntimeError("no such device")
        return 0

    with cep.Profiler(tmp_path, record_every_n_steps=1) as profiler:
        profiler._set_device(exchange, 3)
        profiler.step(0)
        with profiler.region("forward"):
            pass
        profiler.phase("backward")
        profiler.end_phase()


class WithoutInit(cep.Region):
    def __init__(self, *arguments):
        pass


@pytest.mark.parametrize("make", [lambda *_: cep.Region.__new__(cep.Region), WithoutInit], ids=("new", "subclass"))
@pytest.mark.parametrize("use", [
    lambda region: region.__enter__(),
    lambda region: region(lambda: None)(),
    lambda region: region._begin(),
    lambda region: region._end(1, 0, None),
], ids=("enter", "decorator", "begin", "end"))
def test_a_region_that_was_never_initialised_is_an_error(profiler, make, use):
    region = make(profiler, "forward", None, None, None)
    with pytest.raises(AttributeError):
        use(region)


def test_a_profiler_that_was_never_initialised_is_an_error():
    class WithoutInit(cep.Profiler):
        def __init__(self):
            pass

    for profiler in (cep.Profiler.__new__(cep.Profiler), WithoutInit()):
        with pytest.raises(AttributeError):
            profiler.region("forward")
        with pytest.raises(AttributeError):
            profiler.close()


@needs_module
def test_a_function_can_be_another_one_while_a_list_is_not_empty(profiler):
    switched = []
    one, other = (lambda *given, **more: ("one", given, more)), (lambda *given, **more: ("other", given, more))
    timed = native.TimedFunction(profiler.region("copy"), one, other, switched)
    a_class = type("Tensor", (), {"to": timed})
    tensor = a_class()
    for name in ("one", "other"):
        assert timed() == (name, (), {})
        assert timed(1, b=2) == timed(*[1], **{"b": 2}) == functools.partial(timed, 1)(b=2) == (name, (1,), {"b": 2})
        assert tensor.to(1, b=2) == a_class.to(tensor, 1, b=2) == (name, (tensor, 1), {"b": 2})
        switched.append(True)
    with pytest.raises(ZeroDivisionError):
        native.TimedFunction(profiler.region("copy"), lambda divisor: 1 / divisor, other, [])(0)


@needs_module
def test_open_spans_are_one_for_each_key_and_end_as_not_finished_when_another_begins(profiler, files):
    pytest.importorskip("torch")
    importlib.import_module("cep.torch")
    spans = native.Phase(profiler.region("forward"))
    assert not spans
    for key in (1, 2, None, 2):
        spans.begin(key)
    assert spans
    spans.end(1)
    spans.end(1)
    spans.end(3)
    spans.end(None, LookupError)
    spans.abandon()
    assert not spans
    spans.end(2)
    assert [row.get("error") for row in files.spans("forward")] == ["NotFinished", None, "LookupError", "NotFinished"]
