# SPDX-License-Identifier: Apache-2.0
"""Traces that `cep trace` made, as their tests read them."""

import json
from collections import defaultdict
from fractions import Fraction

import pytest
from conftest import START_NS, run_row, span_row


class Trace:
    """A trace as a viewer reads it. Numbers keep all their decimals."""

    def __init__(self, data):
        self.text = data.decode()
        document = json.loads(self.text, parse_float=Fraction)
        self.base_ns = int(document["otherData"]["base_unix_ns"])
        self.events = document["traceEvents"]
        self.slices = self.of("X")

    def of(self, phase):
        return [event for event in self.events if event["ph"] == phase]

    def start_ns(self, event):
        return self.base_ns + event["ts"] * 1000

    def names(self, what):
        return {(event["pid"], event["tid"]): event["args"]["name"] for event in self.of("M") if event["name"] == what}

    def ranks(self):
        return {event["pid"] for event in self.slices}

    def steps(self):
        return {event["args"]["step"] for event in self.slices}


@pytest.fixture
def trace(cep):
    def run(*arguments, **more):
        return Trace(cep("trace", *arguments, **more).stdout)
    return run


def gpu_row(rank, step, name, duration_ms, start_ns, stream=0, **more):
    return span_row(rank, step, name, duration_ms, start_ns, clock="gpu", device=rank, stream=stream, **more)


def tracks_of(trace):
    tracks = defaultdict(list)
    for event in trace.slices:
        tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    return tracks


# Collectives.

def collective_rows(rank, *, group="dp", steps=range(3), attempt=1, **coordinates):
    begin_ns = START_NS + attempt * 10**12
    rows = [run_row(rank, world_size=4, attempt=attempt, start_unix_ns=begin_ns, **coordinates)]
    for step in steps:
        rows += [gpu_row(rank, step, "all_reduce", 1.0, begin_ns + step * 10**9 + coll * 10**7 + rank * 1000, kind="comm",
                         group=group, coll=coll) for coll in range(2)]
    return rows


def flows_of(trace):
    flows = defaultdict(list)
    for event in trace.events:
        if event["ph"] in "stf":
            flows[event["id"]].append(event)
    return [sorted(events, key=lambda e: (e["ts"], "stf".index(e["ph"]))) for events in flows.values()]
