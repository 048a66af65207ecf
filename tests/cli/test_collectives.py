# SPDX-License-Identifier: Apache-2.0
"""One identity of a collective: every command takes the same spans for one."""

import json

import pytest
from conftest import START_NS, run_row

MS = 10**6
PERIOD = 40  # ms from step to step


def span(rank, step, name, at_ms, ms, kind, **more):
    return {"name": name, "step": step, "rank": rank, "duration_ms": ms,
            "start_ns": START_NS + round((step * PERIOD + at_ms) * MS), "kind": kind, "clock": "gpu", "seq": 0,
            "depth": 1, "stream": 1 if kind == "comm" else 0, **more}


def numbered_by_operation(job, *, ranks=4, steps=60, layers=3):
    """Even ranks. Each layer gathers in 1 ms and scatters in 4 ms; each operation counts its collectives by itself."""
    for rank in range(ranks):
        rows = [run_row(rank, world_size=ranks)]
        for step in range(steps):
            at_ms = 0.0
            for i in range(layers):
                more = {"group": "dp", "coll": step * layers + i, "bytes": 1 << 20}
                rows += [span(rank, step, "all_gather", at_ms, 1.0, "comm", **more) | {"seq": i},
                         span(rank, step, "layer", at_ms + 1, 5.0, "compute") | {"seq": i},
                         span(rank, step, "reduce_scatter", at_ms + 6, 4.0, "comm", **more) | {"seq": i}]
                at_ms += 10
        job.write(rank, rows)


def flat_rows(job, *, ranks=4, steps=60):
    """Even ranks whose rows have the core keys only. Two all_reduces a step, of 1 and of 10 ms."""
    for rank in range(ranks):
        job.write(rank, [{"duration_ms": ms, "name": name, "rank": rank, "step": step}
                         for step in range(steps)
                         for name, ms in (("forward", 10), ("all_reduce", 1), ("backward", 20), ("all_reduce", 10))])


def waiting_ms(cep):
    """The waiting of the whole run, as summarize says it."""
    ledger = cep.summary("job")["ledger"]
    return next(piece["ms"] for piece in ledger["pieces"] if piece["piece"] == "waiting")


def wait_share(cep):
    """The share of waiting in the time of collectives, as comm says it."""
    models = json.loads(cep("comm", "--json", "job").stdout)["models"]
    return sum(m["wait_fraction"] * m["total_ms"] for m in models) / sum(m["total_ms"] for m in models)


def flows_of(cep):
    """The names of the spans that each flow of the trace joins."""
    events = json.loads(cep("trace", "--all", "job").stdout)["traceEvents"]
    slices = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in events if e["ph"] == "X"}
    names = {}
    for event in (e for e in events if e["ph"] in "stf"):
        inside = {name for (pid, tid, ts), name in slices.items()
                  if (pid, tid) == (event["pid"], event["tid"]) and 0 <= event["ts"] - ts < 0.01}
        names.setdefault(event["id"], set()).update(inside)
    return names


@pytest.mark.parametrize("make", [numbered_by_operation, flat_rows])
def test_even_ranks_do_not_wait(cep, job, make):
    make(job)
    assert wait_share(cep) == pytest.approx(0, abs=0.001)
    assert waiting_ms(cep) == 0
    verdict = cep.summary("job")["verdict"]
    assert (verdict["stragglers"], verdict["abstained"]) == ([], False), verdict


def test_a_flow_joins_one_operation_where_each_is_numbered_by_itself(cep, job):
    numbered_by_operation(job, steps=2)
    flows = flows_of(cep)
    assert len(flows) == 2 * 2 * 3
    assert sorted(map(sorted, flows.values())) == [["all_gather"]] * 6 + [["reduce_scatter"]] * 6


def unnamed_groups(job, *, steps=60):
    """Four pairs of even ranks, each pair 3 ms behind the one before. Rows name no group, and each pair counts its own
    collectives, which take 1 ms in the first pair and 4 ms in the last."""
    for rank in range(8):
        dp, tp = divmod(rank, 2)
        rows = [run_row(rank, world_size=8, dp=dp, tp=tp, pp=0)]
        for step in range(steps):
            at_ms, ms = 3.0 * dp, 1.0 + dp
            rows += [span(rank, step, "forward", at_ms, 10.0, "compute"),
                     span(rank, step, "all_reduce", at_ms + 10, ms, "comm", coll=step, bytes=1 << 20),
                     span(rank, step, "backward", at_ms + 10 + ms, 15.0 - ms, "compute")]
        job.write(rank, rows)


def test_groups_without_a_name_are_told_apart_by_the_places_of_their_ranks(cep, job):
    unnamed_groups(job)
    assert waiting_ms(cep) == 0
    assert wait_share(cep) == pytest.approx(0, abs=0.001)
    models = json.loads(cep("comm", "--json", "job").stdout)["models"]  # those that are as fast share one
    assert [sum(model[key] for model in models) for key in ("groups", "collectives")] == [4, 4 * 60]
    assert {model["ranks"] for model in models} == {2}
    groups = {m["group"] for m in json.loads(cep("comm", "--json", "--by", "group", "job").stdout)["models"]}
    assert groups == {f"[dp{dp}]" for dp in range(4)}


def test_ranks_of_one_place_only_are_one_group(cep, job):
    """The same without places: then nothing says that these are many groups."""
    unnamed_groups(job)
    for rank in range(8):
        rows = job.path(rank).read_text().splitlines()
        job.path(rank).write_text("\n".join([json.dumps(run_row(rank, world_size=8)), *rows[1:]]) + "\n")
    model, = json.loads(cep("comm", "--json", "job").stdout)["models"]
    assert (model["groups"], model["ranks"], model["collectives"]) == (1, 8, 60)


def test_rows_of_one_rank_do_not_wait_for_each_other(cep, job):
    """Two of one number, in which no other rank took part."""
    for rank in range(2):
        rows = [run_row(rank, world_size=2)]
        for step in range(60):
            rows.append(span(rank, step, "forward", 0, 20.0, "compute"))
            if rank == 0:
                rows += [span(0, step, "all_reduce", at_ms, ms, "comm", group="dp", coll=step) | {"seq": seq}
                         for seq, (at_ms, ms) in enumerate(((20, 1.0), (22, 9.0)))]
        job.write(rank, rows)
    assert waiting_ms(cep) == 0


def test_few_of_many_transfers_that_have_one_key_leave_the_others_as_they_are(cep):
    """So many that some have the same 32 bits of their keys."""
    cep("simulate", "--ranks", "16", "--pp", "8", "--micro-batches", "700", "--steps", "2", "--record-every", "1", "-o", "job")
    (sent,) = [model for model in json.loads(cep("comm", "--json", "job").stdout)["models"] if model["operation"] == "send_recv"]
    assert sent["collectives"] + sent["incomplete_collectives"] // 2 == 2 * 14 * 1400
    assert sent["incomplete_collectives"] <= 8
