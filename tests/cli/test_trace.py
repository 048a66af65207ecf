# SPDX-License-Identifier: Apache-2.0
"""cep trace: Chrome trace events of rank files."""

import json
import random
from collections import Counter, defaultdict
from fractions import Fraction

import pytest
from conftest import START_NS, run_row, span_row
from trace_events import Trace, collective_rows, flows_of, gpu_row, trace, tracks_of


def all_nest(spans):
    """Spans in the order of the trace, each inside the innermost one that is not over, or behind all of them."""
    ends = []
    for start, end in spans:
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and end > ends[-1]:
            return False
        ends.append(end)
    return True


# Times.

def test_each_span_has_its_exact_start_and_duration(trace, four_ranks):
    found = trace("--all", "job")
    wanted = Counter((span["rank"], span["name"], span["start_ns"], Fraction(round(span["duration_ms"] * 1e6), 1000))
                     for span in four_ranks.spans())
    assert Counter((e["pid"], e["name"], found.start_ns(e), e["dur"]) for e in found.slices) == wanted


@pytest.mark.parametrize("start_ns", [0, -10**15 - 7, 3_999_999_999_999_999_999])
def test_times_far_from_today_are_exact(trace, job, start_ns):
    job.write(0, [span_row(0, 1, "a", 0.000001, start_ns), span_row(0, 1, "b", 0.0, start_ns + 1)])
    found = trace("job")
    assert [(found.start_ns(e), e["dur"]) for e in found.slices] == [(start_ns, Fraction(1, 1000)), (start_ns + 1, 0)]


def test_times_have_three_decimals(cep, four_ranks):
    text = cep("trace", "job").stdout.decode()
    times = [part.split(",")[0] for part in text.split('"ts":')[1:]]
    assert times and all(len(time.split(".")[1]) == 3 for time in times)


# Processes and tracks.

def test_a_process_is_a_rank_on_its_host(trace, four_ranks):
    found = trace("--all", "job")
    assert set(found.names("process_name").values()) == {f"rank {rank} (node0)" for rank in range(4)}
    order = {e["pid"]: e["args"]["sort_index"] for e in found.of("M") if e["name"] == "process_sort_index"}
    assert sorted(order, key=order.get) == [0, 1, 2, 3]


def test_a_thread_is_a_stream_or_the_host(trace, job):
    job.write(0, [gpu_row(0, 1, "g", 1.0, START_NS, stream=7), span_row(0, 1, "h", 1.0, START_NS),
                  span_row(0, 1, "e", 1.0, START_NS, clock="external")])
    found = trace("job")
    names = found.names("thread_name")
    assert {e["name"]: names[e["pid"], e["tid"]] for e in found.slices} == {
        "g": "device 0 stream 7", "h": "host clock", "e": "external clock"}


def test_slices_of_a_track_nest(trace, job):
    rng = random.Random(5)
    rows = [gpu_row(0, 1, f"s{i}", rng.randrange(1, 2000) / 1000, START_NS + rng.randrange(20_000_000), stream=i % 3)
            for i in range(600)]
    job.write(0, rows)
    found = trace("job")
    tracks = tracks_of(found)
    assert sum(map(len, tracks.values())) == 600
    assert all(all_nest(spans) for spans in tracks.values())
    names = Counter(name.split(",")[0] for name in found.names("thread_name").values())
    assert names.keys() == {f"device 0 stream {stream}" for stream in range(3)} and min(names.values()) > 1


def test_numbers_of_threads_are_unique(trace, four_ranks):
    found = trace("--all", "job")
    threads = {(event["pid"], event["tid"]) for event in found.events}
    assert len({tid for _, tid in threads}) == len(threads) >= 4
    assert not {tid for _, tid in threads} & {pid for pid, _ in threads}


def test_the_host_comes_before_the_streams(trace, job):
    job.write(0, [gpu_row(0, 1, "g", 1.0, START_NS, stream=7), gpu_row(0, 1, "g", 1.0, START_NS + 10, stream=3),
                  span_row(0, 1, "h", 1.0, START_NS + 20)])
    found = trace("job")
    order = {event["tid"]: event["args"]["sort_index"] for event in found.of("M") if event["name"] == "thread_sort_index"}
    names = sorted(((order[tid], name) for (_, tid), name in found.names("thread_name").items()))
    assert [name for _, name in names] == ["host clock", "device 0 stream 7", "device 0 stream 3"]


def test_perfetto_finds_the_events_first(cep, four_ranks):
    """Versions of it stop at a key that they do not know, and look for ts and dur in what comes first in an event."""
    text = cep("trace", "job").stdout.decode()
    assert text.startswith('{"traceEvents":[\n')
    assert all(line.startswith('{"ph":"X","pid":') and line.index('"ts":') < line.index('"dur":') < line.index('"name":')
               for line in text.splitlines() if '"ph":"X"' in line)


def test_nested_and_adjacent_spans_stay_on_one_track(trace, job):
    ms = 1_000_000
    job.write(0, [gpu_row(0, 1, "a", 1.0, START_NS), gpu_row(0, 1, "b", 2.0, START_NS + ms),
                  gpu_row(0, 1, "all", 3.0, START_NS), gpu_row(0, 1, "point", 0.0, START_NS + ms)])
    found = trace("job")
    assert len(tracks_of(found)) == 1
    assert found.slices[0]["name"] == "all"


def test_the_traces_of_a_simulated_job_nest(trace, simulate):
    simulate("sim", "--ranks", 4, "--steps", 20)
    found = trace("--all", "sim")
    assert all(all_nest(spans) for spans in tracks_of(found).values())
    assert found.ranks() == {0, 1, 2, 3} and found.steps() == set(range(20))


def test_a_rank_beyond_32_bits_gets_a_process_of_its_own(trace, job):
    job.write(0, [span_row(rank, 1, "f", 1.0, START_NS) for rank in (2**40, 2**61, 5)])
    found = trace("job")
    assert len(found.ranks()) == 3 and max(found.ranks()) < 2**31
    assert set(found.names("process_name").values()) == {f"rank {2**40}", f"rank {2**61}", "rank 5"}


# What rows carry.

def test_arguments_are_the_other_keys(trace, job):
    more = {"bytes": 2**40, "flops": 1.5e12, "group": "dp", "coll": 3, "error": "out of \"memory\"", "lag_ms": 0.25,
            "meta": {"a": [1, {"b": None}], "é": "ü"}, "new_key": True}
    job.write(0, [gpu_row(0, 4, "all_reduce", 1.0, START_NS, kind="comm", **more)])
    event, = trace("job").slices
    assert event["cat"] == "comm"
    wanted = {"step": 4, "seq": 0, "kind": "comm", "host_ms": Fraction("0.25"), "stream": 0, **more}
    assert wanted.items() <= event["args"].items()
    assert not event["args"].keys() & {"name", "rank", "start_ns", "duration_ms"}


HOSTILE = ['"},{"ph":"X"', "</script>", "a\\", "\u0000\u001b[2J", "\u202e\u2028", "", "\N{PILE OF POO}", "x" * 5000]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_strings(trace, job, name):
    job.write(0, [run_row(0, host=name), span_row(0, 1, name, 1.0, START_NS, group=name, meta={name: name}),
                  {"type": "mark", "name": name, "step": 1, "rank": 0, "start_ns": START_NS, "meta": {"s": name}},
                  {"type": "counter", "name": name, "step": 1, "rank": 0, "value": 1, "start_ns": START_NS}])
    found = trace("job")
    events = [event for event in found.events if event["ph"] != "M"]
    assert [(event["ph"], event["name"]) for event in events] == [("X", name), ("i", name), ("C", name)]
    assert events[0]["args"]["meta"] == {name: name}
    assert list(found.names("process_name").values()) == [f"rank 0 ({name})" if name else "rank 0"]


def test_counters_and_marks(trace, job):
    job.write(0, [{"type": "counter", "name": "memory", "step": 1, "rank": 0, "value": v, "start_ns": START_NS + i}
                  for i, v in enumerate((1, -2.5, 1e300))]
              + [{"type": "mark", "name": "checkpoint", "step": 1, "rank": 0, "start_ns": START_NS + 9}])
    found = trace("job")
    assert [(float(e["args"]["value"]), found.start_ns(e) - START_NS) for e in found.of("C")] == [(1, 0), (-2.5, 1), (1e300, 2)]
    assert [e.keys() for e in found.of("C")] and all(set(e["args"]) == {"value"} for e in found.of("C"))
    mark, = found.of("i")
    assert (mark["s"], mark["pid"], mark["args"]["step"], found.start_ns(mark)) == ("p", 0, 1, START_NS + 9)


def open_row(name, elapsed_ms, **more):
    return {"type": "open", "name": name, "step": 1, "rank": 0, "start_ns": START_NS, "elapsed_ms": elapsed_ms,
            "kind": "comm", "clock": "gpu", "seq": 0, "depth": 0, **more}


def test_a_span_that_never_ended_lasts_to_its_last_row(trace, job):
    job.write(0, [open_row("hangs", 10.0), open_row("ends", 10.0), open_row("hangs", 20.0),
                  gpu_row(0, 1, "ends", 15.0, START_NS + 5000, lag_ms=0.005)])
    found = trace("job")
    assert sorted((e["name"], e["dur"], e["args"].get("open")) for e in found.slices) == [
        ("ends", 15000, None), ("hangs", 20000, True)]


def test_flows_join_the_ranks_of_a_collective(trace, job):
    for rank in range(4):
        job.write(rank, collective_rows(rank))
    found = trace("--all", "job")
    slices = {(e["pid"], e["tid"], e["ts"]): e for e in found.slices}
    flows = flows_of(found)
    assert len(flows) == 6
    for events in flows:
        assert [e["ph"] for e in events] == ["s", "t", "t", "f"]
        assert [e["pid"] for e in events] == [0, 1, 2, 3]
        assert events[-1]["bp"] == "e"
        joined = [slices[e["pid"], e["tid"], e["ts"] - Fraction(1, 1000)]["args"] for e in events]
        assert len({(a["group"], a["coll"], a["step"]) for a in joined}) == 1


def test_arrows_lie_in_one_slice_only(trace, job):
    """A viewer joins an arrow to a slice that is open at its time, its ends included: at the start of a collective that
    follows another at once, that may be the other one."""
    for rank in range(3):
        job.write(rank, [run_row(rank, world_size=3)] + [
            gpu_row(rank, 1, "all_reduce", 2.0, START_NS + coll * 2_000_000, kind="comm", group="dp", coll=coll)
            for coll in range(4)])
    found = trace("--all", "job")
    arrows = [event for event in found.events if event["ph"] in "stf"]
    assert len(arrows) == 12
    for arrow in arrows:
        open_slices = [e for e in found.slices if e["tid"] == arrow["tid"] and e["ts"] <= arrow["ts"] <= e["ts"] + e["dur"]]
        assert len(open_slices) == 1


def joined_slices(trace):
    """Each arrow with the slice that Perfetto joins it to: it takes events in the order of their times, and of those with
    one time in the order of the file; an arrow belongs to the slice that was opened last on its track."""
    stacks = defaultdict(list)
    for event in sorted((e for e in trace.events if e["ph"] in "Xstf"), key=lambda e: e["ts"]):
        stack = stacks[event["tid"]]
        if event["ph"] == "X":
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
                stack.pop()
            stack.append(event)
        else:
            yield event, stack[-1]


def test_perfetto_joins_the_spans_of_collectives(trace, simulate):
    simulate("job", "--ranks", 8, "--tp", 2, "--pp", 2, "--steps", 6)
    found = trace("--all", "job")
    collectives = defaultdict(set)
    ranks = defaultdict(list)
    for arrow, slice_ in joined_slices(found):
        assert arrow["ts"] - slice_["ts"] == Fraction(1, 1000)
        collectives[arrow["id"]].add(tuple(slice_["args"][key] for key in ("group", "coll", "step")))
        ranks[arrow["id"]].append(slice_["pid"])
    assert len(ranks) > 500
    assert all(len(one) == 1 for one in collectives.values())
    assert all(len(set(of_flow)) == len(of_flow) > 1 for of_flow in ranks.values())


def ends_of_collectives(trace, start_ns):
    """By collective: the ends of its spans, in nanoseconds."""
    ends = defaultdict(list)
    for event in trace.slices:
        if event["cat"] == "comm":
            place = tuple(event["args"][key] for key in ("group", "coll", "step"))
            ends[place].append(start_ns(event) + event["dur"] * 1000)
    return [of_one for of_one in ends.values() if len(of_one) > 1]


def test_clocks_that_agree_as_well_as_the_ends_of_collectives_are_left_alone(cep, job):
    chance = random.Random(1)
    for rank in range(4):
        rows = [run_row(rank, world_size=4, host=f"node{rank // 2}")]
        for number in range(60):  # each rank notes the end of a collective at some time within 60 ms
            rows.append(span_row(rank, number // 3, "all_reduce", chance.uniform(1, 60), START_NS + 80_000_000 * number,
                                 kind="comm", clock="gpu", stream=2, seq=number % 3, group="dp", coll=number))
        job.write(rank, rows)
    done = cep("trace", "--all", "job")
    assert b"clocks" not in done.stderr
    shown = Trace(done.stdout)
    assert {(shown.start_ns(event) - START_NS) % 80_000_000 for event in shown.slices if event["cat"] == "comm"} == {0}


def test_clocks_of_hosts_are_set_right_by_collectives(cep, trace, simulate):
    simulate("job", "--ranks", 8, "--ranks-per-host", 2, "--steps", 40, "--record-every", 1, clock_skew_ms=30)
    done = cep("trace", "--all", "job")
    shown = Trace(done.stdout)
    written = ends_of_collectives(shown, lambda event: int(event["args"]["written_start_ns"]))
    assert max(max(ends) - min(ends) for ends in written) > 5e6
    distances = sorted(max(ends) - min(ends) for ends in ends_of_collectives(shown, shown.start_ns))
    data = json.loads(done.stdout)["otherData"]
    error_ns = float(data["clock_error_ms"]) * 1e6
    assert distances[int(0.9 * len(distances))] <= error_ns <= 50_000
    assert {f"clock_ahead_ms of node{host}" for host in range(4)} <= set(data)
    assert b"the clocks of hosts are up to" in done.stderr and b"to within" in done.stderr
    starts = {(row["rank"], row["start_ns"]) for path in (cep.folder / "job").glob("*.jsonl")
              for row in map(json.loads, path.read_text().splitlines()) if row.get("type", "span") == "span"}
    assert {(event["pid"], int(event["args"]["written_start_ns"])) for event in shown.slices} == starts


def test_clocks_of_standard_input_are_set_right_too(cep, simulate):
    simulate("job", "--ranks", 8, "--ranks-per-host", 2, "--steps", 40, "--record-every", 1, clock_skew_ms=30)
    rows = b"".join(path.read_bytes() for path in sorted((cep.folder / "job").glob("*.jsonl")))
    piped, named = cep("trace", "-", stdin=rows), cep("trace", "job")
    assert (piped.stdout, piped.stderr) == (named.stdout, named.stderr)
    assert b"the clocks of hosts are up to" in piped.stderr


def test_clocks_that_agree_are_left_alone(cep, trace, simulate):
    simulate("job", "--ranks", 8, "--ranks-per-host", 2, "--steps", 40, "--record-every", 1)
    done = cep("trace", "--all", "job")
    assert b"clock" not in done.stderr and b"written_start_ns" not in done.stdout
    assert set(json.loads(done.stdout)["otherData"]) == {"schema", "base_unix_ns"}


def test_a_collective_that_took_no_time_has_no_arrow(trace, job):
    for rank in range(3):
        job.write(rank, [run_row(rank, world_size=3), gpu_row(rank, 1, "all_reduce", rank * 1e-6, START_NS, kind="comm",
                                                              group="dp", coll=0)])
    found = trace("--all", "job")
    assert len(found.slices) == 3 and flows_of(found) == []


def test_a_collective_of_one_shown_rank_has_no_flow(trace, job):
    for rank in range(4):
        job.write(rank, collective_rows(rank))
    assert flows_of(trace("--ranks", "2", "job")) == []


def test_attempts_are_not_joined(trace, job):
    for rank in range(2):
        job.write(rank, collective_rows(rank) + collective_rows(rank, attempt=2))
    flows = flows_of(trace("--all", "job"))
    assert len(flows) == 12 and all([e["pid"] for e in events] == [0, 1] for events in flows)


def test_attempts_are_chosen(trace, job):
    for rank in range(2):
        first, again = collective_rows(rank, steps=range(4)), collective_rows(rank, steps=range(2, 4), attempt=2)
        job.write(rank, first + again)

    def attempts_of_steps(*options):
        found = trace(*options, "job")
        return sorted({(e["args"]["step"], 1 if found.start_ns(e) < START_NS + 2 * 10**12 else 2) for e in found.slices})

    first, second = [(step, 1) for step in range(4)], [(step, 2) for step in range(2, 4)]
    assert attempts_of_steps("--all") == sorted(first + second)
    assert attempts_of_steps("--all", "--attempt", "last") == first[:2] + second
    assert attempts_of_steps("--attempt", "2") == second
    assert attempts_of_steps("--attempt", "1") == first


def test_a_group_that_is_an_axis_is_one_at_each_place_of_the_others(trace, job):
    for rank in range(4):
        job.write(rank, collective_rows(rank, group="tp", steps=[1], tp=rank % 2, dp=rank // 2))
    assert sorted([e["pid"] for e in events] for events in flows_of(trace("--all", "job"))) == [[0, 1], [0, 1], [2, 3], [2, 3]]
