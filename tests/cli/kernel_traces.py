# SPDX-License-Identifier: Apache-2.0
"""Traces for the tests of cep kernels, and an independent computation of what is in them."""

import gzip
import json
import pathlib
from decimal import Decimal

import pytest

TRACES = pathlib.Path(__file__).resolve().parents[1] / "data" / "traces"
GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
CLASSES = ("matmul", "attention", "comm", "memory", "other")


# ---- an independent computation: times as exact decimals, unions by a sweep over sorted edges


def ns(us):
    return int(Decimal(us) * 1000)


def gpu_events(trace):
    return [e for e in trace["traceEvents"] if e.get("cat") in GPU_CATEGORIES]


def covered(spans_a, spans_b=None):
    """The time that is covered by spans of A, and of B where there is B."""
    edges = sorted([(t, d, 0) for b, e in spans_a for t, d in ((b, 1), (e, -1))]
                   + [(t, d, 1) for b, e in spans_b or () for t, d in ((b, 1), (e, -1))])
    depth, total, previous = [0, 0], 0, 0
    for time, change, which in edges:
        if depth[0] > 0 and (spans_b is None or depth[1] > 0):
            total += time - previous
        depth[which] += change
        previous = time
    return total


def class_of(event):
    """The classes of the kernels in the stored traces, by rules that know no others."""
    name = event["name"]
    if event["cat"] != "kernel":
        return "memory"
    if name.startswith("nccl"):
        return "comm"
    if "sdpa" in name or "cudnn::fusion" in name:
        return "attention"
    if name.startswith("nvjet") or "splitKreduce" in name:
        return "matmul"
    moving = ("direct_copy_kernel_cuda", "bfloat16_copy_kernel_cuda", "FillFunctor", "vectorized_gather_kernel")
    return "memory" if any(word in name for word in moving) else "other"


def expected(path):
    with gzip.open(path, "rt") as file:
        trace = json.load(file, parse_float=Decimal)
    events = gpu_events(trace)
    span = {id(e): (ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in events}
    annotations = [e for e in trace["traceEvents"] if e.get("name", "").startswith("ProfilerStep#")]
    edges = list(span.values()) + [(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in annotations]
    begin, end = min(b for b, _ in edges), max(e for _, e in edges)
    comm = [span[id(e)] for e in events if class_of(e) == "comm"]
    compute = [span[id(e)] for e in events if class_of(e) != "comm" and e["cat"] == "kernel"]
    spans = list(span.values())
    on_gpu = [e for e in annotations if e["cat"] == "gpu_user_annotation"]
    starts = sorted((ns(e["ts"]), int(e["name"].split("#")[1])) for e in on_gpu)
    bounds = [s for s, _ in starts] + [end]
    return {
        "rank": trace["distributedInfo"]["rank"], "count": len(events), "window": end - begin, "busy": covered(spans),
        "begin": begin + trace["baseTimeNanoseconds"], "end": end + trace["baseTimeNanoseconds"],
        "time": {c: sum(ns(e["dur"]) for e in events if class_of(e) == c) for c in CLASSES},
        "counts": {c: sum(class_of(e) == c for e in events) for c in CLASSES},
        "comm": covered(comm), "overlap": covered(comm, compute),
        "steps": [(step, bounds[i + 1] - bounds[i], covered(spans, [(bounds[i], bounds[i + 1])]))
                  for i, (_, step) in enumerate(starts)],
        "durations": [(e["name"], ns(e["dur"])) for e in events],
    }


def report(cep, *arguments, **more):
    return json.loads(cep("kernels", "--json", *arguments, **more).stdout)


def check_times(found, want):
    """`want`: a list of ranks' expectations, whose sums `found` has."""
    total = lambda key: sum(w[key] for w in want)  # noqa: E731
    kernel_ns = sum(sum(w["time"].values()) for w in want)
    times = {
        "window_ms": total("window"), "busy_ms": total("busy"), "idle_ms": total("window") - total("busy"),
        "kernel_ms": kernel_ns, "own_work_ms": kernel_ns - sum(w["time"]["comm"] for w in want),
    }
    for key, value in times.items():
        assert found[key] == pytest.approx(value / 1e6, rel=1e-12), key
    for name in CLASSES:
        one = found["classes"][name]
        class_ns = sum(w["time"][name] for w in want)
        assert one["count"] == sum(w["counts"][name] for w in want)
        assert one["time_ms"] == pytest.approx(class_ns / 1e6, rel=1e-12), name
        assert one["share"] == pytest.approx(class_ns / kernel_ns, rel=1e-12), name
    assert found["comm_union_ms"] == pytest.approx(total("comm") / 1e6, rel=1e-12)
    assert found["overlap_ms"] == pytest.approx(total("overlap") / 1e6, rel=1e-12)
    assert found["exposed_comm_ms"] == pytest.approx((total("comm") - total("overlap")) / 1e6, rel=1e-12)
    assert found["overlap"] == pytest.approx(total("overlap") / total("comm"), rel=1e-12)


# ---- made traces


def kernel(name, start_us, duration_us, *, device=0, stream=7, cat="kernel", **more):
    return {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": start_us, "dur": duration_us,
            "args": {"device": device, "stream": stream}, **more}


def trace_text(events, **more):
    return json.dumps({"schemaVersion": 1, **more, "traceEvents": events, "traceName": "t"})


def ranked(rank, events, world_size=2, **more):
    return trace_text(events, distributedInfo={"rank": rank, "world_size": world_size}, **more)


SMALL = [kernel("sgemm_nn", 100, 10), kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 105, 10, stream=9),
         kernel("Memcpy DtoH (Device -> Pinned)", 130, 5, cat="gpu_memcpy")]
