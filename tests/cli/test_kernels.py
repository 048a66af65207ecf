# SPDX-License-Identifier: Apache-2.0
"""cep kernels, on real traces and against an independent computation of every number."""

import csv
import gzip
import io
import json
import shutil
import subprocess

import numpy as np
import pytest
from kernel_traces import (
    CLASSES, GPU_CATEGORIES, SMALL, TRACES, check_times, expected, kernel, ranked, report, trace_text,
)


def test_real_traces_give_the_independently_computed_times(cep):
    want = [expected(TRACES / f"trace_rank_{rank}.json.gz") for rank in range(2)]
    found = report(cep, TRACES, "--strict")
    assert found["schema"] == "cep.kernels/3"
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    for rank, one in zip(found["ranks"], want):
        check_times(rank, [one])
        assert (rank["window_begin_ns"], rank["window_end_ns"]) == (one["begin"], one["end"])
        assert rank["rank_from"] == "trace"
        assert rank["devices"] == [{"device": one["rank"], "name": "NVIDIA H200"}]
    check_times(found["total"], want)
    assert found["inputs"]["gpu_events"] == sum(one["count"] for one in want) == 1048


def test_real_traces_give_the_independently_computed_steps(cep):
    for rank in range(2):
        path = TRACES / f"trace_rank_{rank}.json.gz"
        want = expected(path)["steps"]
        assert len(want) == 2
        (found,) = report(cep, path)["ranks"]
        assert [step["step"] for step in found["steps"]] == [step for step, _, _ in want]
        for step, (_, duration_ns, busy_ns) in zip(found["steps"], want):
            assert step["duration_ms"] == pytest.approx(duration_ns / 1e6, rel=1e-12)
            assert step["busy_ms"] == pytest.approx(busy_ns / 1e6, rel=1e-12)
        assert found["mean_step_busy_ms"] == pytest.approx(sum(b for _, _, b in want) / 2e6, rel=1e-12)


def test_kernels_of_real_traces_are_all_there(cep):
    want = [pair for rank in range(2) for pair in expected(TRACES / f"trace_rank_{rank}.json.gz")["durations"]]
    found = report(cep, TRACES, "--limit", "0")["total"]["kernels"]
    assert sum(kernel["count"] for kernel in found) == len(want)
    assert sum(kernel["total_ms"] for kernel in found) == pytest.approx(sum(d for _, d in want) / 1e6, rel=1e-9)
    totals = [kernel["total_ms"] for kernel in found]
    assert totals == sorted(totals, reverse=True)
    assert {kernel["full_name"] for kernel in found} <= {name for name, _ in want}
    for kernel in found:
        if kernel["full_names"] == 1:
            durations = [d for name, d in want if name == kernel["full_name"]]
            assert kernel["count"] == len(durations)
            assert kernel["total_ms"] == pytest.approx(sum(durations) / 1e6, rel=1e-12)
            assert kernel["mean_ms"] == pytest.approx(sum(durations) / 1e6 / len(durations), rel=1e-12)
            assert (kernel["min_ms"], kernel["max_ms"]) == (min(durations) / 1e6, max(durations) / 1e6)


def test_the_rank_that_the_others_wait_for_is_named(cep):
    found = report(cep, TRACES)
    comm = next(row for row in found["comparison"]["rows"] if row["what"] == "comm")
    times = [sum(w["time"]["comm"] for w in [expected(TRACES / f"trace_rank_{r}.json.gz")]) / 2e6 for r in range(2)]
    assert found["comparison"]["per"] == "step"
    assert (comm["shortest_rank"], comm["longest_rank"]) == (0, 1)
    assert comm["shortest_ms"] == pytest.approx(times[0])
    assert comm["excess"] == pytest.approx(times[1] / times[0] - 1)
    assert "rank 0 has the least comm, but in 2 steps that may be chance" in found["headline"]


def test_host_events_and_annotations_do_not_count(cep, tmp_path):
    host = [{"ph": "X", "cat": cat, "name": "ncclDevKernel_x", "pid": 5, "ts": 0, "dur": 1000, "args": {"device": 0}}
            for cat in ("cpu_op", "cuda_runtime", "user_annotation", "gpu_user_annotation", "Trace", "overhead")]
    flows = [{"ph": ph, "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 0, "tid": 7, "ts": 100} for ph in "sf"]
    (tmp_path / "t.json").write_text(trace_text(host + flows + SMALL))
    found = report(cep, "t.json", "--strict")["total"]
    assert (found["window_ms"], found["busy_ms"], found["idle_ms"]) == (0.035, 0.02, 0.015)
    assert [found["classes"][c]["time_ms"] for c in CLASSES] == [0.01, 0, 0.01, 0.005, 0.0]
    assert [found[key] for key in ("comm_union_ms", "overlap_ms", "exposed_comm_ms", "overlap")] == [0.01, 0.005, 0.005, 0.5]


def test_order_of_events_does_not_matter(cep, tmp_path):
    (tmp_path / "a.json").write_text(trace_text(SMALL))
    (tmp_path / "b.json").write_text(trace_text(SMALL[::-1]))
    assert report(cep, "a.json")["total"] == report(cep, "b.json")["total"]


def test_transfers_hide_no_communication(cep, tmp_path):
    events = [SMALL[1], kernel("Memcpy HtoD (Pinned -> Device)", 105, 10, cat="gpu_memcpy")]
    (tmp_path / "t.json").write_text(trace_text(events))
    assert report(cep, "t.json")["total"]["overlap"] == 0


def test_devices_of_one_trace_are_apart(cep, tmp_path):
    events = [kernel("sgemm", 0, 10, device=0), kernel("sgemm", 5, 10, device=1)]
    (tmp_path / "t.json").write_text(trace_text(events))
    found = report(cep, "t.json")["total"]
    assert (found["gpus"], found["busy_ms"], found["window_ms"]) == (2, 0.02, 0.03)


def test_every_way_of_naming_inputs_gives_the_same(cep, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for rank in range(2):
        shutil.copy(TRACES / f"trace_rank_{rank}.json.gz", tmp_path / "a")
        text = gzip.decompress((TRACES / f"trace_rank_{rank}.json.gz").read_bytes())
        (tmp_path / "b" / f"rank{rank}.json").write_bytes(text)
    (tmp_path / "list").write_text("a\n")
    want = report(cep, "a")["total"]
    for arguments in (["b"], ["a/trace_rank_0.json.gz", "b/rank1.json"], ["b/rank?.json"], ["--files-from", "list"]):
        assert report(cep, *arguments)["total"] == want
    both = report(cep, "-", "b/rank1.json", stdin=(TRACES / "trace_rank_0.json.gz").read_bytes())
    assert both["total"] == want


def test_zstd_is_told_by_its_first_bytes(cep, tmp_path):
    if shutil.which("zstd") is None:
        pytest.skip("no zstd command")
    text = gzip.decompress((TRACES / "trace_rank_0.json.gz").read_bytes())
    packed = subprocess.run(["zstd", "-q", "-c"], input=text, capture_output=True, check=True).stdout
    (tmp_path / "odd.name").write_bytes(packed)
    check_times(report(cep, "odd.name")["total"], [expected(TRACES / "trace_rank_0.json.gz")])


def test_rank_is_the_traces_then_the_names_then_the_next_free(cep, tmp_path):
    (tmp_path / "rank_9.json").write_text(ranked(1, SMALL, world_size=20))
    (tmp_path / "rank_3.json").write_text(trace_text(SMALL))
    (tmp_path / "x.json").write_text(trace_text(SMALL))
    (tmp_path / "y.json").write_text(trace_text(SMALL))
    found = report(cep, ".")["ranks"]
    want = [(0, "order"), (1, "trace"), (2, "order"), (3, "name")]
    assert [(rank["rank"], rank["rank_from"]) for rank in found] == want


def test_missing_ranks_are_named(cep, tmp_path):
    (tmp_path / "t.json").write_text(ranked(1, SMALL, world_size=3))
    done = cep("kernels", "t.json", "--strict", status=4)
    assert b"1 of 3 ranks" in done.stderr and b"missing ranks 0, 2" in done.stdout
    assert report(cep, "t.json")["inputs"]["missing_ranks"] == [0, 2]


def test_two_windows_of_a_rank_are_added(cep, tmp_path):
    later = [kernel(e["name"], e["ts"] + 1000, e["dur"], cat=e["cat"]) for e in SMALL]
    (tmp_path / "a.json").write_text(ranked(0, SMALL, world_size=1))
    (tmp_path / "b.json").write_text(ranked(0, later, world_size=1))
    (rank,) = report(cep, "a.json", "b.json", "--strict")["ranks"]
    assert rank["files"] == ["a.json", "b.json"]
    assert (rank["gpus"], rank["busy_ms"], rank["window_ms"]) == (1, 0.04, 0.07)


def test_the_same_window_of_a_rank_counts_once(cep, tmp_path):
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(ranked(0, SMALL, world_size=1))
    done = cep("kernels", "--json", "a.json", "b.json")
    found = json.loads(done.stdout)
    assert found["inputs"]["duplicate_traces"] == 1
    assert found["total"]["busy_ms"] == 0.02
    assert b"b.json: left out: rank 0 at the same time is also in a.json" in done.stderr
    cep("kernels", "a.json", "b.json", "--strict", status=4)


def test_own_work_that_is_longer_is_named(cep, tmp_path):
    for rank in range(4):
        late_us = 20 if rank == 2 else 0
        events = [kernel("sgemm", 0, 100 + late_us), kernel("ncclDevKernel_AllReduce()", 150, 50 - late_us)]
        (tmp_path / f"rank{rank}.json").write_text(ranked(rank, events, world_size=4))
    found = report(cep, ".")
    own = found["comparison"]["rows"][0]
    assert (own["what"], own["longest_rank"], own["median_ms"]) == ("own work", 2, 0.1)
    assert own["excess"] == pytest.approx(0.2)
    assert "rank 2 has the most own work, but one step cannot tell a slow rank from chance" in found["headline"]


STEP_US = 1000


def annotation(step):
    return {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{step}", "pid": 0, "tid": 7,
            "ts": step * STEP_US, "dur": STEP_US, "args": {"device": 0}}


def write_steps(folder, work_us):
    """`work_us`: by rank and step. What is left of 800 us is communication."""
    for rank, of_rank in enumerate(work_us):
        events = []
        for step, own_us in enumerate(of_rank):
            events += [annotation(step), kernel("sgemm", step * STEP_US + 1, own_us),
                       kernel("ncclDevKernel_AllReduce()", step * STEP_US + 1 + own_us, 800 - own_us)]
        (folder / f"rank{rank}.json").write_text(ranked(rank, events, world_size=len(work_us)))


def test_a_slow_rank_is_named_where_steps_agree(cep, tmp_path):
    rng = np.random.default_rng(5)
    work_us = 400 * (1 + 0.03 * rng.standard_normal((8, 3)))
    work_us[6] *= 1.25
    write_steps(tmp_path, work_us)
    found = report(cep, ".")
    assert "Rank 6 stands out" in found["headline"]
    own = found["comparison"]["rows"][0]
    # The two-way analysis of variance, by NumPy.
    of_rank, of_step = work_us.mean(axis=1), work_us.mean(axis=0)
    residuals = work_us - of_rank[:, None] - of_step[None, :] + work_us.mean()
    error = np.sqrt((residuals**2).sum() / 14 / 3 * 8 / 7)
    t = (of_rank[6] - np.delete(of_rank, 6).mean()) / error
    assert own["longest_chance"] < 1e-6 and t > 10


@pytest.mark.parametrize("steps, spread", [(3, 0.1), (3, 0.05), (1, 0.03), (10, 0.1)])
def test_chance_names_no_rank(cep, tmp_path, steps, spread):
    rng = np.random.default_rng(7)
    for _ in range(10):
        write_steps(tmp_path, 400 * (1 + spread * rng.standard_normal((8, steps))).clip(0.5, 1.5))
        assert "stands out" not in report(cep, ".")["headline"].replace("no rank stands out", "")


# ---- damage


def test_a_trace_that_is_cut_off_keeps_its_whole_events(cep, tmp_path):
    text = gzip.decompress((TRACES / "trace_rank_0.json.gz").read_bytes())
    events = json.loads(text)["traceEvents"]
    for fraction in (0.3, 0.75, 0.999):
        cut = text[: int(len(text) * fraction)]
        (tmp_path / "cut.json").write_bytes(cut)
        whole = cut.decode().count('\n  {\n')
        kept = events[:whole]
        any_on_gpu = any(e.get("cat") in GPU_CATEGORIES for e in kept)
        done = cep("kernels", "--json", "cut.json", status=0 if any_on_gpu else 3)
        assert b"cut.json:byte" in done.stderr and b"cut off" in done.stderr
        if done.returncode == 0:
            found = json.loads(done.stdout)["inputs"]
            assert found["truncated_files"] == 1
            in_full = sum(e.get("cat") in GPU_CATEGORIES for e in kept)
            assert found["gpu_events"] in (in_full, in_full - 1)
    cep("kernels", "cut.json", "--strict", status=4)


def test_every_cut_of_a_small_trace_is_survived(cep, tmp_path):
    text = ranked(0, SMALL, world_size=1, deviceProperties=[{"id": 0, "name": "G\\u00b5 \"x\""}], baseTimeNanoseconds=5)
    ends = [text.index("}}", text.index(e["name"])) + 2 for e in SMALL]
    for size in range(0, len(text), 3):
        (tmp_path / "t.json").write_text(text[:size])
        whole = sum(end <= size for end in ends)
        done = cep("kernels", "--json", "t.json", status=0 if whole else 3)
        if whole:
            assert json.loads(done.stdout)["inputs"]["gpu_events"] == whole


def test_a_compressed_trace_that_is_cut_off_is_salvaged(cep, tmp_path):
    (tmp_path / "t.json.gz").write_bytes((TRACES / "trace_rank_0.json.gz").read_bytes()[:-20_000])
    done = cep("kernels", "--json", "t.json.gz")
    found = json.loads(done.stdout)
    assert found["inputs"]["truncated_files"] == 1
    assert 0 < found["inputs"]["gpu_events"] < 524
    assert b"gzip stream is cut off" in done.stderr


@pytest.mark.parametrize("bad, why", [
    ({"ph": "X", "cat": "kernel", "name": "k", "ts": 1}, b"without a duration"),
    ({"ph": "B", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}, b"not complete"),
    ({"ph": "X", "cat": "kernel", "name": "k", "dur": 1}, b"without a start"),
    ({"ph": "X", "cat": "kernel", "ts": 1, "dur": 1}, b"without a name"),
    ({"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -1}, b"no duration"),
    ({"ph": "X", "cat": "kernel", "name": "k", "ts": float("nan"), "dur": 1}, b"no time"),
    ({"ph": "X", "cat": "kernel", "name": "k", "ts": 1e300, "dur": 1}, b"no time"),
    ("text", b"not an event"), (None, b"not an event"), (7, b"not an event"), ([1], b"not an event"),
])
def test_a_bad_event_is_skipped_counted_and_located(cep, tmp_path, bad, why):
    text = trace_text([SMALL[0], bad, *SMALL[1:]])
    (tmp_path / "t.json").write_text(text)
    done = cep("kernels", "--json", "t.json")
    found = json.loads(done.stdout)
    assert (found["inputs"]["skipped_events"], found["total"]["busy_ms"]) == (1, 0.02)
    offset = text.index(json.dumps(SMALL[0])) + len(json.dumps(SMALL[0])) + len(", ")
    assert f"t.json:byte {offset}: ".encode() in done.stderr and why in done.stderr
    cep("kernels", "t.json", "--strict", status=4)


@pytest.mark.parametrize("separator", [", ", ",\n  "])
def test_an_unescaped_quote_costs_its_event_only(cep, tmp_path, separator):
    broken = '{"ph": "X", "cat": "cpu_op", "name": "a "quoted" name with "one", "ts": 1, "dur": 2}'
    parts = [json.dumps(SMALL[0]), broken, *map(json.dumps, SMALL[1:])]
    (tmp_path / "t.json").write_text('{"traceEvents": [' + separator.join(parts) + "\n]}")
    found = report(cep, "t.json")
    assert found["inputs"]["gpu_events"] == 3
    assert found["inputs"]["skipped_events"] == 1


def test_numbers_that_json_does_not_know_are_no_damage_elsewhere(cep, tmp_path):
    event = {**SMALL[0], "args": {"device": 0, "occupancy": float("nan"), "rate": float("inf")}}
    (tmp_path / "t.json").write_text(trace_text([event]))
    assert report(cep, "t.json", "--strict")["inputs"]["gpu_events"] == 1


def test_a_bare_array_is_a_trace_even_without_its_end(cep, tmp_path):
    text = json.dumps(SMALL)
    for name, content in (("a.json", text), ("b.json", text[:-1]), ("c.json", text[:-1] + ",")):
        (tmp_path / name).write_text(content)
        assert report(cep, name, "--strict")["total"]["busy_ms"] == 0.02


def test_old_categories_and_text_numbers_are_read(cep, tmp_path):
    old = {"ph": "X", "cat": "Kernel", "name": "sgemm", "pid": "0", "tid": "stream 7", "ts": "100", "dur": "10"}
    (tmp_path / "t.json").write_text(trace_text([old, {**old, "cat": "Memcpy", "name": "Memcpy HtoD"}]))
    found = report(cep, "t.json")["total"]["classes"]
    assert (found["matmul"]["count"], found["memory"]["count"]) == (1, 1)


@pytest.mark.parametrize("content, why", [
    (b"", "empty"), (b"  \n", "empty"), (b"hello", "not JSON"), (b"\xff\xfe{}", "not JSON"),
    (b'{"a": 1}', "no traceEvents"), (b'{"type":"run"}\n{"name":"x"}\n', "no traceEvents"),
    (b"[1, 2]", "none of its elements"),
    (b'{"traceEvents": []}', "without GPU events"), (b"[]", "without GPU events"),
    (b'{"traceEvents"', "no traceEvents"),
    (b'{"traceEvents": {}}', "no traceEvents"), (b"{", "no traceEvents"), (b"[", "without GPU events"),
    (b"{" * 10_000, "no traceEvents"), (b"[" * 10_000, "without GPU events"),
    (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "x", "ts": 1, "dur": 1}]', "without GPU events"),
])
def test_what_is_no_trace_is_named_with_its_reason(cep, tmp_path, content, why):
    (tmp_path / "t.json").write_bytes(content)
    done = cep("kernels", "t.json", "no_such.json", status=3)
    assert f"t.json: {'a trace ' if why.startswith('without') else ''}".encode() in done.stderr
    assert why.encode() in done.stderr and b"no_such.json: No such file" in done.stderr
    assert done.stdout == b""


def test_traces_of_cpus_have_their_summary_and_one_message(cep, tmp_path):
    text = trace_text([{"ph": "X", "cat": "cpu_op", "name": "x", "ts": 1, "dur": 1}])
    for rank in range(3):
        (tmp_path / f"rank{rank}_trace.json").write_text(text)
    done = cep("kernels", "-o", "summary.md", ".")
    assert done.stderr == b"cep kernels: 3 traces of CPUs only: no GPU events\n"
    assert "the traces are of CPUs only" in (tmp_path / "summary.md").read_text()
    assert report(cep, ".")["ranks"] == []
    cep("kernels", "--strict", ".", status=4)


def test_one_bad_file_does_not_hide_the_good_ones(cep, tmp_path):
    (tmp_path / "bad.json").write_text("nonsense")
    (tmp_path / "good.json").write_text(trace_text(SMALL))
    done = cep("kernels", "--json", ".")
    assert json.loads(done.stdout)["inputs"]["unreadable_files"] == 1
    assert b"bad.json: not JSON" in done.stderr
    cep("kernels", ".", "--strict", status=4)


def test_a_directory_without_traces_says_so(cep, tmp_path):
    (tmp_path / "empty").mkdir()
    assert b"empty: no *.json, " in cep("kernels", "empty", status=3).stderr


@pytest.mark.parametrize("arguments", [[], ["--json", "--csv", "t.json"], ["--limit", "-1", "t.json"], ["-", "-"],
                                       ["t.json", "-o", "t.json"]])
def test_wrong_usage_has_its_status(cep, tmp_path, arguments):
    (tmp_path / "t.json").write_text(trace_text(SMALL))
    cep("kernels", *arguments, status=2)
    assert (tmp_path / "t.json").read_text() == trace_text(SMALL)


# ---- forms of output


def test_csv_has_a_line_for_each_rank_and_one_for_all(cep):
    rows = list(csv.DictReader(io.StringIO(cep("kernels", "--csv", TRACES).stdout.decode())))
    found = report(cep, TRACES)
    assert [row["rank"] for row in rows] == ["0", "1", "all"]
    for row, one in zip(rows, [*found["ranks"], found["total"]]):
        for key in ("window_ms", "busy_ms", "idle_ms", "kernel_ms", "own_work_ms"):
            assert float(row[key]) == one[key]
        assert [float(row[f"{name}_ms"]) for name in CLASSES] == [one["classes"][name]["time_ms"] for name in CLASSES]
        assert float(row["exposed_comm_ms"]) == one["exposed_comm_ms"]


def test_a_summary_file_is_markdown(cep, tmp_path):
    assert cep("kernels", TRACES, "-o", "summary.md").stdout == b""
    summary = (tmp_path / "summary.md").read_text()
    assert summary.encode() == cep("kernels", "--markdown", TRACES).stdout
    assert cep("kernels", "-o", "-", TRACES).stdout == cep("kernels", TRACES).stdout
    assert summary.startswith("# GPU kernels\n\n**The GPUs were busy ")
    assert "| matmul |" in summary and "ncclDevKernel_AllReduce_Sum_f32_RING_LL" in summary
    assert [path.name for path in tmp_path.iterdir()] == ["summary.md"]


def test_a_summary_that_cannot_be_written_is_an_error(cep):
    assert b"nowhere" in cep("kernels", TRACES, "-o", "nowhere/summary.md", status=5).stderr


def test_nothing_readable_leaves_the_summary_as_it_was(cep, tmp_path):
    (tmp_path / "summary.md").write_text("before")
    cep("kernels", "no_such.json", "-o", "summary.md", status=3)
    assert (tmp_path / "summary.md").read_text() == "before"


def test_limit_is_of_the_kernels(cep):
    assert len(report(cep, "--limit", "3", TRACES)["total"]["kernels"]) == 3
    text = cep("kernels", "--limit", "3", TRACES).stdout.decode()
    assert "… 52 kernels with less time not shown; --limit 0 shows all" in text
    assert len(report(cep, TRACES)["total"]["kernels"]) == 15
    assert len(report(cep, "--limit", "0", TRACES)["total"]["kernels"]) == 55


def test_a_limit_does_not_cut_the_classes(cep):
    lines = cep("kernels", "--limit", "1", TRACES).stdout.decode().splitlines()
    assert {"matmul", "comm", "memory", "other", "all"} <= {line.split()[0] for line in lines if line}


def test_text_says_that_comm_contains_waiting(cep):
    assert "contains waiting for the other ranks" in cep("kernels", TRACES).stdout.decode()
