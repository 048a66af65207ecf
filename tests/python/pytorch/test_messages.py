# SPDX-License-Identifier: Apache-2.0
"""Rows of messages that return before they are done: isend, irecv, batches of them, and a schedule of torch.distributed.pipelining."""

import pytest
from collective_rows import comm_rows
from conftest import end_ns

torch = pytest.importorskip("torch", reason="no torch")

pytest_plugins = ("training_jobs",)


def test_a_message_ends_where_the_trainer_has_waited_for_it(job, files):
    job.run(2, """
import time
one, other = torch.ones(1), torch.ones(1)
wait = dist.Work.wait
with cep.Profiler(folder, record_every_n_steps=2) as prof, cep.torch.instrument_collectives(prof):
    for step in range(3):
        prof.step(step)
        for _ in range(2):
            work = dist.isend(one, 1) if rank == 0 else dist.irecv(one, 0)
            time.sleep(0.02)
            with prof.region("waiting"):
                work.wait()
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, one, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)])
        for work in works:
            with prof.region("waiting_for_batch"):
                work.wait()
assert dist.Work.wait is wait
""")
    for rank, name in enumerate(("send", "recv")):
        rows, waits, of_batch = comm_rows(files, rank), files.spans("waiting", rank=rank), files.spans("waiting_for_batch", rank=rank)
        assert len(waits) == len(of_batch) == 4
        for step, in_step in ((0, rows[:3]), (2, rows[3:])):
            assert [(row["name"], row["group"], row["coll"]) for row in in_step] == [
                (name, "world/0>1", step * 1_000_000),
                (name, "world/0>1", step * 1_000_000 + 1),
                ("send_recv", "world/0-1", step * 1_000_000),
            ]
            assert not any("error" in row for row in in_step)
            ends = [wait for wait in waits if wait["step"] == step] + [wait for wait in of_batch if wait["step"] == step][1:]
            for row, wait in zip(in_step, ends):
                assert wait["start_ns"] <= end_ns(row) <= end_ns(wait)
            assert all(row["duration_ms"] > 20 for row in in_step[:2])


def test_a_message_that_nobody_waits_for_has_an_error(job, files):
    outputs = job.run(2, """
one = torch.ones(1)
with cep.Profiler(folder, record_every_n_steps=1) as prof, cep.torch.instrument_collectives(prof):
    prof.step(0)
    work = (dist.isend if rank == 0 else dist.irecv)(one, 1 - rank)
    (dist.send if rank == 0 else dist.recv)(one, 1 - rank)  # so the other is done
    prof.step(1)
    print(prof._wants_steps, prof.stats.open_spans)  # under way still: steps call nothing for that
    del work
    print(prof.stats.open_spans)
""")
    for rank, name in enumerate(("send", "recv")):
        rows = [row for row in comm_rows(files, rank) if row["name"] == name]
        assert [row.get("error") for row in rows] == ["Unmeasured", None]
    assert outputs == ["False 1\n0\n"] * 2


@pytest.mark.skipif(torch.__version__ < (2, 4), reason="torch.distributed.pipelining came with PyTorch 2.4")
def test_the_messages_of_a_pipeline_are_rows_with_two_ends(job, files):
    job.run(2, """
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
model = torch.nn.Linear(8, 8)
schedule = Schedule1F1B(PipelineStage(model, rank, ranks, torch.device("cpu")), 4, lambda output, target: output.sum())
batch = torch.ones(8, 8)
with cep.Profiler(folder, record_every_n_steps=1, start_step=1) as prof, cep.torch.instrument(prof, model):
    for step in range(4):
        prof.step(step)
        schedule.step(*([batch] if rank == 0 else []), **({"target": batch} if rank == 1 else {}))
""")
    ends = []
    for rank in range(2):
        rows = comm_rows(files, rank)
        assert {row["step"] for row in rows} == {1, 2, 3} and not any("error" in row for row in rows)
        ends.append({(row["group"], row["coll"]) for row in rows})
        assert sum(row["bytes"] for row in rows if row["step"] == 2) == 2 * 8 * 8 * 4  # activations there, gradients back
    assert ends[0] == ends[1]
