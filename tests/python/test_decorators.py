# SPDX-License-Identifier: Apache-2.0
"""Regions as decorators of functions, coroutines and generators."""

import asyncio

import pytest
from conftest import end_ns


def test_each_call_of_a_function_is_a_span(profiler, files):
    @profiler.region("forward")
    def add(a, b=1):
        "Adds."
        return a + b

    assert (add(1), add(1, b=2)) == (2, 3)
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert len(files.spans("forward")) == 2


def test_a_function_may_call_itself(profiler, files):
    @profiler.region("visit")
    def visit(depth):
        return 1 + (visit(depth - 1) if depth else 0)

    assert visit(4) == 5
    assert len({row["depth"] for row in files.spans("visit")}) == 5


def test_a_function_that_raises_is_marked(profiler, files):
    @profiler.region("forward")
    def fail():
        raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert files.span("forward")["error"] == "LookupError"


def test_a_coroutines_span_lasts_until_it_returns(profiler, files):
    async def main():
        gate = asyncio.Event()

        @profiler.region("save")
        async def save():
            await gate.wait()
            return "saved"

        task = asyncio.ensure_future(save())
        await asyncio.sleep(0)
        with profiler.region("meanwhile"):
            pass
        gate.set()
        return await task

    assert asyncio.run(main()) == "saved"
    save, meanwhile = files.span("save"), files.span("meanwhile")
    assert save["start_ns"] <= meanwhile["start_ns"]
    assert end_ns(save) >= end_ns(meanwhile)


def test_interleaved_coroutines_keep_their_spans_apart(profiler, files):
    async def main():
        first_may_end, second_may_end = asyncio.Event(), asyncio.Event()

        @profiler.region("load")
        async def load(gate):
            await gate.wait()

        first = asyncio.ensure_future(load(first_may_end))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(load(second_may_end))
        await asyncio.sleep(0)
        first_may_end.set()
        await first
        with profiler.region("between"):
            pass
        second_may_end.set()
        await second

    asyncio.run(main())
    between = files.span("between")
    first, second = sorted(files.spans("load"), key=lambda row: row["start_ns"])
    assert end_ns(first) <= between["start_ns"]
    assert end_ns(second) >= end_ns(between)


def test_a_cancelled_coroutine_is_marked(profiler, files):
    async def main():
        @profiler.region("load")
        async def load():
            await asyncio.Event().wait()

        task = asyncio.ensure_future(load())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert files.span("load")["error"] == "CancelledError"


def test_a_generator_has_a_span_for_each_of_its_turns(profiler, files):
    @profiler.region("data_load")
    def batches(count):
        for number in range(count):
            yield number
        return "end"

    assert list(batches(3)) == [0, 1, 2]
    assert len(files.spans("data_load")) == 4


def test_a_generators_span_does_not_contain_its_consumer(profiler, files):
    @profiler.region("data_load")
    def batches():
        yield 1
        yield 2

    for _ in batches():
        with profiler.region("forward"):
            pass
    assert {row["depth"] for row in files.spans("forward")} == {row["depth"] for row in files.spans("data_load")}


def test_a_generator_can_be_sent_to_thrown_into_and_closed(profiler):
    log = []

    @profiler.region("data_load")
    def echo():
        received = yield "ready"
        try:
            while True:
                try:
                    received = yield received
                except ValueError as error:
                    received = f"caught {error}"
        finally:
            log.append("closed")

    generator = echo()
    assert next(generator) == "ready"
    assert generator.send("a") == "a"
    assert generator.throw(ValueError("b")) == "caught b"
    generator.close()
    assert log == ["closed"]


def test_a_generators_result_passes_through(profiler):
    @profiler.region("data_load")
    def inner():
        yield 1
        return "result"

    def outer():
        return (yield from inner())

    generator = outer()
    next(generator)
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "result"


def test_an_async_generator_has_a_span_for_each_of_its_turns(profiler, files):
    @profiler.region("data_load")
    async def batches():
        for number in range(3):
            await asyncio.sleep(0)
            yield number

    async def main():
        return [number async for number in batches()]

    assert asyncio.run(main()) == [0, 1, 2]
    assert [row.get("error") for row in files.spans("data_load")] == [None] * 4
