# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a training do in a step. Each step ends with an ``extra`` of no time, for faults to use, and begins
with a gap that no row covers."""

from program import BACK, COMM, HOST, LAUNCH, MAIN, RECV, SEND, Program, schedule


def begin(program, rank, load_ms=2.0):
    gap = program.op(rank, MAIN, "gap", 0.2)
    load = program.op(rank, HOST, "data_load", load_ms, [gap])
    program.row("data_load", "data", load)
    return load


def finish(program, rank, after, ms=5.0):
    program.work(rank, "optimizer", ms, after)
    program.row("extra", "other", program.op(rank, MAIN, "extra", 0.0))


def ddp(ranks=8, micro_batches=1, buckets=4, transfer_ms=4.0, joined=True, backward_ms=60.0, split=None):
    """Gradients are reduced in buckets while backward goes on. ``joined``: backward ends with the last of them."""
    program = Program(ranks)
    for rank in range(ranks):
        after = [begin(program, rank)]
        for micro in range(micro_batches):
            after = [program.work(rank, "forward", 30.0 / micro_batches, after, (micro,))]
            pieces, reduced = [], []
            is_last = micro == micro_batches - 1
            for bucket in range(buckets):
                share = split[bucket] if split else 1 / buckets
                pieces.append(program.op(rank, MAIN, "backward", share * backward_ms / micro_batches,
                                         after if not pieces else (), (micro, bucket)))
                if is_last:
                    reduced.append(program.collective(rank, "all_reduce", "dp", bucket, transfer_ms, [pieces[-1]],
                                                      depth=2))
            last = pieces[-1]
            if joined and reduced:
                last = program.op(rank, MAIN, "join", 0.0, reduced)
            program.row("backward", "compute", pieces[0], last)
            after = [last]
        finish(program, rank, after + reduced)
    return program


def fsdp(ranks=8, layers=4, transfer_ms=3.0):
    """Weights are gathered one layer ahead, and gradients scattered behind."""
    program = Program(ranks)
    for rank in range(ranks):
        before = [begin(program, rank)]
        number = 0
        for phase, layer_ms in (("forward", 8.0), ("backward", 16.0)):
            done, scattered = [], []
            for layer in range(layers):
                ahead = done[layer - 2:layer - 1] if layer > 1 else before
                gathered = program.collective(rank, "all_gather", "fsdp", number, transfer_ms, ahead, depth=2)
                number += 1
                done.append(program.op(rank, MAIN, phase, layer_ms, [gathered, *before], (layer,)))
                if phase == "backward":
                    scattered.append(program.collective(rank, "reduce_scatter", "fsdp", 100 + layer, transfer_ms,
                                                        [done[-1]], stream=RECV, depth=2))
            program.row(phase, "compute", done[0], done[-1])
            before = done[-1:]
        finish(program, rank, scattered, 4.0)
    return program


def hosted(ranks=4, layers=8, forward_ms=1.4, launch_ms=1.4, transfer_ms=0.6, waits=True):
    """As fsdp, but each operation begins no sooner than the host has launched it, one after the other. The host is about
    as fast as the device in forward, and ahead of it in backward. It waits for the device at the end of a step. ``waits``:
    weights are gathered no earlier than one layer ahead."""
    program = Program(ranks, joins_streams=True)
    for rank in range(ranks):
        program.row("data_load", "data", program.op(rank, HOST, "data_load", 1.0))

        def launched(ms=launch_ms, rank=rank):
            return program.op(rank, HOST, LAUNCH, ms)

        number, scattered, before = 0, [], []
        for phase, layer_ms in (("forward", forward_ms), ("backward", 2 * forward_ms)):
            first = program.op(rank, MAIN, "begin", 0.0, [launched(0.05)])
            done = []
            for layer in range(layers):
                host = launched()
                ahead = done[layer - 2:layer - 1] if layer > 1 else before
                gathered = program.collective(rank, "all_gather", "fsdp", number, transfer_ms,
                                              [host, *(ahead if waits else ())], depth=2)
                number += 1
                done.append(program.op(rank, MAIN, phase, layer_ms, [gathered, host], (layer,)))
                if phase == "backward":
                    scattered.append(program.collective(rank, "reduce_scatter", "fsdp", 100 + layer, transfer_ms,
                                                        [done[-1], launched(0.2)], stream=RECV, depth=2))
            program.row(phase, "compute", first, done[-1])
            before = done[-1:]
        program.work(rank, "optimizer", 1.0, [*scattered, launched(0.5)])
    return program


def tensor(dp=2, tp=4, layers=4, transfer_ms=1.0, leave_ms=0.0):
    """Ranks of a tensor-parallel group reduce inside of forward and backward, on the same stream. ``leave_ms``: the last of
    them leaves a collective so much later than the first, as with gloo."""
    places = [{"tp": rank % tp, "dp": rank // tp} for rank in range(dp * tp)]
    program = Program(dp * tp, places)
    for rank, place in enumerate(places):
        after = [begin(program, rank)]
        number = 0
        for phase, layer_ms in (("forward", 6.0), ("backward", 12.0)):
            first = None
            for layer in range(layers):
                made = program.op(rank, MAIN, phase, layer_ms, after, (layer,))
                first = made if first is None else first
                meeting = (f"tp{place['dp']}", number)
                reduced = program.op(rank, MAIN, "all_reduce", transfer_ms, meeting=meeting)
                last = program.op(rank, MAIN, "leave", (rank + number) % tp / (tp - 1) * leave_ms)
                program.row("all_reduce", "comm", reduced, last, meeting[0], meeting, depth=2)
                number += 1
                after = []
            program.row(phase, "compute", first, last)
        reduced = program.collective(rank, "grad_all_reduce", f"dp{place['tp']}", 0, 4.0, [last])
        finish(program, rank, [reduced], 4.0)
    return program


def pipeline(dp=2, pp=4, micro_batches=8, said=True, forward_ms=4.0):
    """1F1B. ``said``: run rows have the stage of a rank."""
    places = [{"dp": rank % dp, "pp": rank // dp} for rank in range(dp * pp)]
    program = Program(dp * pp, places if said else None)

    def transfer(rank, what, number, stream, after):
        place = places[rank]
        stage = place["pp"] - (what in ("recv_f", "send_b"))
        group = f"pp{place['dp']}.{stage}{'f' if what[-1] == 'f' else 'b'}"
        return program.collective(rank, what[:4], group, number, 0.1, after, stream)

    for rank, place in enumerate(places):
        load = begin(program, rank, 1.0)
        stage = place["pp"]
        before = [load]
        for backward, _, micro in schedule(stage, pp, micro_batches):
            after, is_first, is_last = list(before), stage == 0, stage == pp - 1
            if backward and not is_last:
                after.append(transfer(rank, "recv_b", micro, RECV, before))
            elif not backward and not is_first:
                after.append(transfer(rank, "recv_f", micro, RECV, before))
            phase = "backward" if backward else "forward"
            made = program.work(rank, phase, forward_ms * (2 if backward else 1), after, (stage, micro))
            if backward and not is_first:
                transfer(rank, "send_b", micro, BACK, [made])
            elif not backward and not is_last:
                transfer(rank, "send_f", micro, SEND, [made])
            before = [made]
        if dp > 1:
            before = [program.collective(rank, "all_reduce", f"dp{stage}", 0, 4.0, before)]
        finish(program, rank, before, 3.0)
    return program


def experts(ranks=8, layers=2):
    """Tokens go to the ranks of their experts and back, all_to_all, in forward and backward."""
    program = Program(ranks, [{"ep": rank} for rank in range(ranks)])
    for rank in range(ranks):
        after = [begin(program, rank)]
        number = 0
        for phase, scale in (("forward", 1.0), ("backward", 2.0)):
            for layer in range(layers):
                after = [program.work(rank, "attention_" + phase, 6.0 * scale, after, (layer,))]
                for where in ("expert", None):
                    after = [program.collective(rank, "all_to_all", "ep", number, 1.0, after, stream=MAIN)]
                    number += 1
                    if where:
                        after = [program.work(rank, "expert_" + phase, 8.0 * scale, after, (layer,))]
        reduced = program.collective(rank, "all_reduce", "dp", 0, 4.0, after, COMM)
        finish(program, rank, [reduced], 4.0)
    return program
