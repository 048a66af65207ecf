# SPDX-License-Identifier: Apache-2.0
"""The ways to instrument a training that training.py compares; its head says what each does."""

import contextlib
import importlib.machinery
import importlib.util
import json
import os
from collections import deque
from functools import partial

import torch
import torch.distributed as dist

import cep

FLUSH_EVERY_N_STEPS = 10
OFF, OFF_AGAIN, EVERY, EVERY_10TH, PAIRS = "off", "off again", "cep every step", "cep every 10th step", "event pairs"
PHASES, PHASES_10TH, HOST_CLOCK = "cep phases", "cep phases every 10th", "cep on the host clock"
RECORDS, BARE = "reused events, not read", "bare records"
NO_STEP, EMPTY = "cep, no step recorded", "empty with"


class WithoutInstrumentation:
    def __init__(self, training, folder):
        self.training = training

    def step(self, number):
        loss = self.training.forward()
        self.training.backward(loss)
        self.training.optimize()

    def close(self):
        return 0


class WithCep:
    def __init__(self, training, folder, record_every_n_steps=1, backend="auto", package=cep):
        self.training = training
        self.prof = package.Profiler(
            folder,
            record_every_n_steps=record_every_n_steps,
            flush_every_n_steps=FLUSH_EVERY_N_STEPS,
            backend=backend,
        )

    def step(self, number):
        prof, training = self.prof, self.training
        prof.step(number)
        with prof.region("forward"):
            loss = training.forward()
        with prof.region("backward"):
            training.backward(loss)
        with prof.region("optimizer"):
            training.optimize()

    def close(self):
        self.prof.close()
        return self.prof.stats.written


class InOneChain(WithCep):
    """N records for N phases: the last phase of a step ends with the first of the next."""

    def step(self, number):
        prof, training = self.prof, self.training
        prof.step(number)
        prof.phase("forward")
        loss = training.forward()
        prof.phase("backward")
        training.backward(loss)
        prof.phase("optimizer")
        training.optimize()


class InPhases(InOneChain):
    def step(self, number):
        super().step(number)
        self.prof.end_phase()


class InContexts(WithoutInstrumentation):
    def __init__(self, training, context):
        super().__init__(training, None)
        self.context = context

    def step(self, number):
        context, training = self.context, self.training
        with context:
            loss = training.forward()
        with context:
            training.backward(loss)
        with context:
            training.optimize()


class WithReusedEvents:
    def __init__(self, training, folder):
        self.training = training
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(6)]

    def step(self, number):
        events, training = self.events, self.training
        events[0].record()
        loss = training.forward()
        events[1].record()
        events[2].record()
        training.backward(loss)
        events[3].record()
        events[4].record()
        training.optimize()
        events[5].record()

    def close(self):
        return 0


class WithBareRecords(InContexts):
    library = None  # the path of bare_records.abi3.so

    def __init__(self, training, folder):
        loader = importlib.machinery.ExtensionFileLoader("bare_records", self.library)
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("bare_records", self.library, loader=loader))
        loader.exec_module(module)
        super().__init__(training, module.BareRecords(torch.cuda.current_stream().cuda_stream, 64))


class WithEventPairs:
    def __init__(self, training, folder):
        self.training = training
        self.file = open(os.path.join(folder, "events.jsonl"), "a", encoding="utf-8")
        self.pending = deque()
        self.written = 0

    def begin(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def end(self, name, step, begin):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self.pending.append((name, step, begin, event))

    def write_finished(self):
        rows = []
        while self.pending and self.pending[0][3].query():
            name, step, begin, end = self.pending.popleft()
            row = {"duration_ms": begin.elapsed_time(end), "name": name, "rank": dist.get_rank(), "step": step}
            rows.append(json.dumps(row) + "\n")
        self.file.write("".join(rows))
        self.file.flush()
        self.written += len(rows)

    def step(self, number):
        training = self.training
        event = self.begin()
        loss = training.forward()
        self.end("forward", number, event)
        event = self.begin()
        training.backward(loss)
        self.end("backward", number, event)
        event = self.begin()
        training.optimize()
        self.end("optimizer", number, event)
        if number % FLUSH_EVERY_N_STEPS == 0:
            self.write_finished()

    def close(self):
        self.write_finished()
        self.file.close()
        return self.written


ARMS = {
    OFF: WithoutInstrumentation,
    OFF_AGAIN: WithoutInstrumentation,
    EVERY: WithCep,
    EVERY_10TH: partial(WithCep, record_every_n_steps=10),
    PAIRS: WithEventPairs,
    PHASES: InPhases,
    HOST_CLOCK: partial(WithCep, backend="host"),
    NO_STEP: partial(WithCep, record_every_n_steps=10**9),
    EMPTY: lambda training, folder: InContexts(training, contextlib.nullcontext()),
    PHASES_10TH: partial(InPhases, record_every_n_steps=10),
    RECORDS: WithReusedEvents,
    BARE: WithBareRecords,
}
DEFAULT_ARMS = (OFF, OFF_AGAIN, EVERY, EVERY_10TH, PHASES, PHASES_10TH, PAIRS, BARE)
NEED_A_GPU = (PAIRS, RECORDS, BARE)
