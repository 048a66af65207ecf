# SPDX-License-Identifier: Apache-2.0
"""cep comm: groups of ranks, when transfers are slow, which spans match, and the forms of its output."""

import csv
import io
import json
import random

import numpy as np
import pytest
from comm_jobs import SIZES, Network, comm, grouped, planted, transfer_ms
from conftest import START_NS, run_row


def test_groups_of_a_kind_that_differ_are_told_apart(comm, job, cep):
    grouped(job)
    report = comm("job")
    models = {(model["group"], model["groups"]): model for model in report["models"]}
    assert set(models) == {("tp", 8), ("tp", 4), ("world", 1)}
    assert models["world", 1]["fit"]["alpha_us"] == pytest.approx(90, rel=1e-6)
    assert models["world", 1]["times_usual"] is None and models["world", 1]["members"] == []
    usual, slow = models["tp", 8], models["tp", 4]
    assert usual["fit"]["beta_gb_per_s"] == pytest.approx(200, rel=1e-6) and usual["times_usual"] == 1
    assert slow["fit"]["beta_gb_per_s"] == pytest.approx(50, rel=1e-6) and slow["times_usual"] > 2
    assert slow["members"] == ["tp.dp8", "tp.dp9", "tp.dp10", "tp.dp11"]
    assert "all_reduce of groups tp.dp8, tp.dp9, tp.dp10, tp.dp11 take" in report["headline"]
    assert "tp (4 slow)" in cep("comm", "job").stdout.decode()


def groups_of(job, betas, *, steps=40, noise=0.03, seed=1):
    """Groups of two ranks that have the same sizes, and bandwidths of their own."""
    network = Network(job, 2 * len(betas), seed=seed)
    for step in range(steps):
        for size in SIZES:
            for g, beta in enumerate(betas):
                factor = np.exp(network.rng.gauss(0, noise))
                network.collective("all_reduce", f"dp.pp{g}", (2 * g, 2 * g + 1), size,
                                   factor * transfer_ms(size, 20, beta), step=step)
    network.write()


@pytest.mark.parametrize("betas", [(50, 50, 10, 50), (50, 10), (10, 50)])
def test_one_slow_group_is_named_with_its_own_bandwidth(comm, job, cep, betas):
    groups_of(job, betas)
    report = comm("job")
    slow, = (model for model in report["models"] if (model["times_usual"] or 1) > 1.5)
    usual, = (model for model in report["models"] if model["times_usual"] == 1)
    name = f"dp.pp{betas.index(10)}"
    assert slow["members"] == [name] and f"group {name} takes" in report["headline"]
    assert slow["fit"]["beta_gb_per_s"] == pytest.approx(10, rel=0.03)
    assert usual["fit"]["beta_gb_per_s"] == pytest.approx(50, rel=0.03)
    assert name in cep("comm", "job").stdout.decode()


@pytest.mark.parametrize("seed", range(6))
def test_groups_that_are_alike_share_a_line(comm, job, seed):
    groups_of(job, (50,) * 6, steps=12, noise=0.2, seed=seed)
    model, = comm("job")["models"]
    assert (model["groups"], model["times_usual"], model["members"]) == (6, None, [])


def slow_at(job, is_slow, *, steps=60, alpha_us=20, beta=50):
    """Transfers that take five times as long where `is_slow(step, i)`; (bytes, milliseconds) of all."""
    network = Network(job, 2)
    for step in range(steps):
        for i, size in enumerate(SIZES):
            factor = 5 if is_slow(step, i) else 1
            network.collective("all_reduce", "dp", range(2), size, factor * transfer_ms(size, alpha_us, beta), step=step)
    network.write()
    return network.transfers


def check_errors(model, transfers):
    """Against the fit that the model has, over all transfers."""
    fit = model["fit"]
    fitted = [transfer_ms(size, fit["alpha_us"], fit["beta_gb_per_s"]) for size, _ in transfers]
    errors = np.abs(np.array([ms for _, ms in transfers]) / fitted - 1)
    assert fit["mean_relative_error"] == pytest.approx(errors.mean(), rel=1e-6)
    assert fit["p90_relative_error"] == pytest.approx(np.quantile(errors, 0.9), rel=1e-6)
    assert fit["max_relative_error"] == pytest.approx(errors.max(), rel=1e-6)
    paid = sum(size for size, _ in transfers) / sum(ms for _, ms in transfers) / 1e6
    assert model["paid_gb_per_s"] == pytest.approx(paid, rel=1e-9)


def test_the_error_is_that_of_the_transfers_and_what_is_paid_stands_beside_what_is_usual(comm, job, cep):
    rng = random.Random(4)
    transfers = slow_at(job, lambda step, i: rng.random() < 1 / 3)
    model, = comm("job")["models"]
    check_errors(model, transfers)
    assert model["fit"]["beta_gb_per_s"] == pytest.approx(50, rel=0.01) and model["paid_gb_per_s"] < 30
    assert model["fit"]["mean_relative_error"] > 1
    assert model["slow"]["pattern"] == "now and then" and model["slow"]["share"] == pytest.approx(1 / 3, abs=0.06)
    for size in model["sizes"]:
        times = [ms for bytes_, ms in transfers if bytes_ == size["bytes"]]
        assert size["transfer_p90_ms"] == pytest.approx(np.quantile(times, 0.9))
        assert size["transfer_mean_ms"] == pytest.approx(np.mean(times))
        assert size["paid_gb_per_s"] == pytest.approx(size["bytes"] / np.mean(times) / 1e6)
        assert size["slow_share"] == pytest.approx(np.mean(np.array(times) > 1.5 * np.median(times)))
    text = cep("comm", "job").stdout.decode()
    assert "with all transfers" in text and "now and then" in text


@pytest.mark.parametrize("is_slow, steps, pattern, words", [
    (lambda step: 10 <= step < 20, 60, ("window", 10, 19), "in steps 10 to 19"),
    (lambda step: step % 4 == 3, 60, ("periodic", 3, 59), "every 4 steps"),
])
def test_when_transfers_are_slow_is_said(comm, job, cep, is_slow, steps, pattern, words):
    slow_at(job, lambda step, _: is_slow(step), steps=steps)
    report = comm("job")
    slow = report["models"][0]["slow"]
    assert (slow["pattern"], slow["first_step"], slow["last_step"]) == pattern
    assert words in cep("comm", "job").stdout.decode()
    assert slow["share"] == pytest.approx(np.mean([is_slow(step) for step in range(steps)]))
    check_errors(report["models"][0], [(size, (5 if is_slow(step) else 1) * transfer_ms(size, 20, 50))
                                       for step in range(steps) for size in SIZES])


def test_transfers_that_are_slow_from_a_step_on_say_so(comm, job, cep):
    slow_at(job, lambda step, _: step >= 36, steps=60)
    slow = comm("job")["models"][0]["slow"]
    assert (slow["pattern"], slow["first_step"], slow["last_step"]) == ("window", 36, 59)
    assert "from step 36 on" in cep("comm", "job").stdout.decode()


def test_by_group_each_has_a_line(comm, job, cep):
    grouped(job)
    models = {model["group"]: model for model in comm("--by", "group", "job")["models"]}
    assert set(models) == {f"tp.dp{g}" for g in range(12)} | {"world"}
    for g in range(12):
        beta = models[f"tp.dp{g}"]["fit"]["beta_gb_per_s"]
        assert beta == pytest.approx(50 if g >= 8 else 200, rel=1e-6)
    text = cep("comm", "--by", "group", "--limit", "3", "job").stdout.decode()
    assert "… 10 operations with less time not shown; --limit 0 shows all" in text


def test_a_group_called_by_its_axis_is_split_by_the_other_axes(comm, job):
    network = Network(job, 8, coordinates=lambda rank: {"tp": rank % 2, "dp": rank // 2, "pp": 0})
    for size in SIZES:
        for tp in range(2):
            network.colls.pop("dp", None)
            ranks = range(tp, 8, 2)
            network.collective("all_reduce", "dp", ranks, size, transfer_ms(size, 10, 100), coll=SIZES.index(size))
    network.write()
    model, = comm("job")["models"]
    assert (model["group"], model["groups"], model["ranks"], model["collectives"]) == ("dp", 2, 4, 2 * len(SIZES))
    assert {m["group"] for m in comm("--by", "group", "job")["models"]} == {"dp.tp0.pp0", "dp.tp1.pp0"}


def test_without_an_index_spans_match_by_name_step_and_seq(comm, job):
    network = Network(job, 3)
    for step in range(4):
        for seq, size in enumerate(SIZES):
            network.collective("all_reduce", None, range(3), size, transfer_ms(size, 40, 60), step=step, seq=seq,
                               coll=None)
    network.write()
    model, = comm("job")["models"]
    assert (model["group"], model["ranks"], model["collectives"]) == (None, 3, 4 * len(SIZES))
    assert model["fit"]["alpha_us"] == pytest.approx(40, rel=1e-6)


def test_rows_without_bytes_are_told_so(comm, job, cep):
    network = Network(job, 2)
    for step in range(5):
        network.collective("all_reduce", "dp", range(2), None, 1.0, step=step)
    network.write()
    report = comm("job")
    model, = report["models"]
    assert model["fit"] is None and model["refused"] == "the rows say no bytes"
    assert (model["spans"], model["spans_without_bytes"]) == (10, 10)
    assert "no span of a collective has its bytes" in report["headline"]
    assert report["wait_fraction"] == pytest.approx(sum(map(sum, network.waits)) / (sum(map(sum, network.waits)) + 10))


def test_one_rank_alone_cannot_tell_waiting_from_transfer(comm, job):
    planted(job)
    model, = comm("--ranks", "1", "job")["models"]
    assert model["fit"] is None and "only one rank" in model["refused"] and model["collectives"] == 0


def test_a_job_without_communication(cep, four_ranks):
    done = cep("comm", "job")
    assert b"no communication" in done.stdout and b"no spans of communication" in done.stderr
    assert json.loads(cep("comm", "--json", "job").stdout)["models"] == []


def test_collectives_without_most_of_their_ranks_do_not_count(comm, job):
    network = Network(job, 4)
    for step in range(8):
        for size in SIZES:
            network.collective("all_reduce", "dp", range(4), size, transfer_ms(size, 25, 120), step=step)
    for rank in (1, 2, 3):  # of step 3, one rank is left, and it waited
        network.rows[rank] = [row for row in network.rows[rank] if row.get("step") != 3]
    network.write()
    model, = comm("job")["models"]
    assert (model["collectives"], model["incomplete_collectives"]) == (7 * len(SIZES), len(SIZES))


def test_with_ranks_missing_groups_are_as_large_as_their_kind(comm, job, cep):
    network = Network(job, 8)
    for size in SIZES:
        for g in range(2):
            network.collective("all_reduce", f"dp.pp{g}", range(4 * g, 4 * g + 4), size, transfer_ms(size, 25, 120))
    network.write(range(7))
    model, = comm("job")["models"]
    assert (model["groups"], model["ranks"]) == (2, 4)
    done = cep("comm", "--strict", "job", status=4)
    assert b"7 of 8 ranks" in done.stderr and b"some waits are counted as transfer" in done.stdout


def test_attempts_that_repeat_a_step_are_apart(comm, job):
    rows = {rank: [] for rank in range(2)}
    for attempt, beta in ((1, 100), (2, 100)):
        network = Network(job, 2, seed=attempt)
        for size in SIZES:
            network.collective("all_reduce", "dp", range(2), size, transfer_ms(size, 25, beta) + attempt)
        for rank in range(2):
            begin_ns = START_NS + attempt * 10**13
            network.rows[rank][0] = run_row(rank, world_size=2, attempt=attempt, start_unix_ns=begin_ns)
            rows[rank] += network.rows[rank]
    for rank in range(2):
        job.write(rank, rows[rank])
    for attempts, count, more_ms in (((), 1, 2), (("--attempt", 1), 1, 1), (("--attempt", "all"), 2, 1.5)):
        model, = comm(*attempts, "job")["models"]
        assert model["collectives"] == count * len(SIZES), attempts
        assert model["sizes"][0]["transfer_ms"] == pytest.approx(transfer_ms(SIZES[0], 25, 100) + more_ms, rel=1e-6)


def test_shards_count_times_the_ranks(comm, job):
    planted(job, ranks=4, name="all_gather")
    whole, shards = (comm(*more, "job")["models"][0] for more in ((), ("--shard-bytes",)))
    assert [s["bytes"] for s in shards["sizes"]] == [4 * s["bytes"] for s in whole["sizes"]]
    assert shards["fit"]["beta_gb_per_s"] == pytest.approx(4 * whole["fit"]["beta_gb_per_s"])


def test_memory_is_bounded_by_a_sample_that_is_the_same_on_all_ranks(comm, job):
    """Where there are more spans than are kept, half of the steps are left out, the same on each rank."""
    count, rare, ranks = 150_000, 1_000, 2
    sizes = [SIZES[i % len(SIZES)] for i in range(count)]
    job.folder.mkdir()

    def line(name, rank, i, duration_ms, group, step):
        return (f'{{"name":"{name}","step":{step},"rank":{rank},"duration_ms":{duration_ms:.9f},"kind":"comm",'
                f'"bytes":{sizes[i]},"group":"{group}","coll":{i}}}\n')

    for rank in range(ranks):
        lines = [line("all_reduce", rank, i, transfer_ms(size, 25, 120) + (i % 7 if i % 2 == rank else 0), "dp", i // 100)
                 for i, size in enumerate(sizes)]
        lines += [line("all_gather", rank, i, transfer_ms(sizes[i], 5, 300), f"tp{i % 2}", i) for i in range(rare)]
        job.path(rank).write_text("".join(lines))
    assert [model["one_in"] for model in comm("job")["models"]] == [1, 1]
    some = ("--max-samples", ranks * count, "job")
    report = comm(*some)
    frequent, seldom = report["models"]
    assert (frequent["one_in"], seldom["one_in"]) == (2, 2)
    assert (frequent["spans"], seldom["spans"]) == (ranks * count, ranks * rare)
    assert frequent["incomplete_collectives"] == seldom["incomplete_collectives"] == 0
    assert frequent["collectives"] == pytest.approx(count / 2, rel=0.05)
    assert seldom["collectives"] == pytest.approx(rare / 2, rel=0.2)
    assert frequent["fit"]["alpha_us"] == pytest.approx(25, rel=1e-4)
    assert seldom["fit"]["alpha_us"] == pytest.approx(5, rel=1e-4)
    assert comm("-j", "1", *some) == comm("-j", "4", *some) == report


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ranks", [8, 64])
def test_what_simulate_planted_comes_back(simulate, comm, ranks, seed):
    job = simulate("sim", "--ranks", ranks, "--tp", 4, "--steps", 400, "--record-every", 10, "--buckets", 6, "--noise", 0.02,
                   "--seed", seed, latency_us=25, drop_fraction=0.02)
    truth = job.truth["transfers"]
    dp = next(one for one in truth if one["dimension"] == "dp")
    model = next(m for m in comm("sim")["models"] if m["group"] == "dp")
    assert (model["ranks"], model["groups"]) == (ranks // 4, 4)
    assert [size["bytes"] for size in model["sizes"]] == dp["bytes"]
    assert model["fit"]["alpha_us"] == pytest.approx(dp["alpha_us"], rel=0.15)
    assert model["fit"]["beta_gb_per_s"] == pytest.approx(dp["beta_gb_per_s"], rel=0.03)


def test_of_many_ranks_the_last_to_come_is_still_the_measure(cep, comm):
    """Any quantile that leaves the last rank out adds a wait: one of 1 % would be off by a multiple of the transfer."""
    cep("simulate", "-o", "sim", "--ranks", 512, "--steps", 60, "--buckets", 4, "--noise", 0.01, "--record-every", 10)
    truth = json.loads((cep.folder / "sim" / "truth.json").read_text())["transfers"][0]
    model, = comm("sim")["models"]
    first = model["sizes"][0]
    expected_ms = truth["alpha_us"] / 1e3 + first["bytes"] / (truth["beta_gb_per_s"] * 1e6)
    assert first["transfer_ms"] == pytest.approx(expected_ms, rel=0.05)


def test_csv_has_the_sizes_of_json(cep, comm, job):
    grouped(job)
    report = comm("--link-gb-per-s", "100", "job")
    text = cep("comm", "--csv", "--link-gb-per-s", "100", "job").stdout.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    sizes = [(model, size) for model in report["models"] for size in model["sizes"]]
    assert len(rows) == len(sizes)
    for row, (model, size) in zip(rows, sizes):
        assert (row["operation"], row["group"]) == (model["operation"], model["group"])
        assert float(row["alpha_us"]) == model["fit"]["alpha_us"]
        for key in ("bytes", "transfer_ms", "transfer_p90_ms", "wait_ms", "algorithm_gb_per_s", "paid_gb_per_s",
                    "bus_gb_per_s", "slow_share", "link_efficiency"):
            assert float(row[key]) == size[key]


def test_text_and_markdown_have_the_figures(cep, job):
    planted(job)
    text = cep("comm", "--predict", "1M", "job").stdout.decode()
    lines = text.splitlines()
    assert "all_reduce over 4 ranks (dp): latency 25.0 µs, bandwidth 120 GB/s (180 GB/s on the bus)" in lines[0]
    assert lines[2].split()[:2] == ["operation", "group"] and "25.0 µs" in lines[3] and "180 GB/s" in lines[3]
    assert any("beyond" not in line and "1.0 MB" in line for line in lines)
    markdown = cep("comm", "--markdown", "job").stdout.decode()
    assert "| operation | group |" in markdown and f"**{lines[0]}**" in markdown.splitlines()


def test_rows_of_other_profilers_are_no_error(cep, job):
    job.write(0, [{"duration_ms": 1.5, "name": "all_reduce", "rank": 0, "step": 3},
                  {"duration_ms": 2.5, "name": "forward", "rank": 0, "step": 3}])
    report = json.loads(cep("comm", "--json", "job").stdout)
    assert [m["operation"] for m in report["models"]] == ["all_reduce"]
