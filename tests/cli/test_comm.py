# SPDX-License-Identifier: Apache-2.0
"""cep comm: planted latencies and bandwidths come back, and every figure is computed again from the rows."""

import json

import numpy as np
import pytest
from comm_jobs import FACTORS, SIZES, Network, comm, planted, transfer_ms


def test_planted_latency_and_bandwidth_come_back(comm, job):
    planted(job)
    model, = comm("job")["models"]
    assert (model["operation"], model["group"], model["ranks"], model["groups"]) == ("all_reduce", "dp", 4, 1)
    assert model["fit"]["alpha_us"] == pytest.approx(25.0, rel=1e-9)
    assert model["fit"]["beta_gb_per_s"] == pytest.approx(120.0, rel=1e-9)
    assert model["fit"]["r_squared"] == pytest.approx(1.0)
    assert model["fit"]["max_relative_error"] == pytest.approx(0.0, abs=1e-9)
    assert model["fit"]["half_bytes"] == pytest.approx(25e-6 * 120e9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha_us, beta", [(8.0, 40.0), (25.0, 120.0), (150.0, 350.0)])
def test_noise_of_5_percent_moves_latency_and_bandwidth_by_less(comm, job, seed, alpha_us, beta):
    planted(job, alpha_us=alpha_us, beta=beta, noise=0.05, repeats=25, seed=seed)
    fit = comm("job")["models"][0]["fit"]
    assert fit["alpha_us"] == pytest.approx(alpha_us, rel=0.06)
    assert fit["beta_gb_per_s"] == pytest.approx(beta, rel=0.06)


def relative_least_squares(sizes, times_ms):
    """Least squares of (time − fitted) / fitted, by iteration."""
    sizes, times = np.array(sizes, float), np.array(times_ms)
    fitted = times
    for _ in range(200):
        design = np.column_stack([np.ones_like(sizes), sizes]) / fitted[:, None]
        scale = np.array([1.0, sizes.max()])
        solution = np.linalg.lstsq(design / scale, times / fitted, rcond=None)[0] / scale
        fitted = solution[0] + solution[1] * sizes
    return solution, fitted


def test_fit_and_its_errors_agree_with_numpy(comm, job):
    times = {}
    network = Network(job, 3)
    for step in range(7):
        for size in SIZES:
            duration_ms = transfer_ms(size, 30, 90) * network.rng.uniform(0.8, 1.2)
            times.setdefault(size, []).append(duration_ms)
            network.collective("all_gather", "dp", range(3), size, duration_ms, step=step)
    network.write()
    medians = np.array([np.median(times[size]) for size in SIZES])
    (intercept, slope), fitted = relative_least_squares(SIZES, medians)
    fit = comm("job")["models"][0]["fit"]
    assert fit["alpha_us"] == pytest.approx(1e3 * intercept, rel=1e-6)
    assert fit["beta_gb_per_s"] == pytest.approx(1 / slope / 1e6, rel=1e-6)
    errors = np.concatenate([np.abs(np.array(times[size]) / one - 1) for size, one in zip(SIZES, fitted)])
    assert fit["p90_relative_error"] == pytest.approx(np.quantile(errors, 0.9), rel=1e-6)
    assert fit["mean_relative_error"] == pytest.approx(errors.mean(), rel=1e-6)
    assert fit["max_relative_error"] == pytest.approx(errors.max(), rel=1e-6)
    unexplained = np.sum((fitted - medians) ** 2) / np.sum((medians - medians.mean()) ** 2)
    assert fit["r_squared"] == pytest.approx(1 - unexplained, rel=1e-9)


def test_small_messages_decide_the_latency(comm, job):
    """A plain least-squares line through these points has its intercept from the noise of the largest ones."""
    sizes = [4096 * 4**i for i in range(9)]
    network = Network(job, 2, seed=3)
    plain_errors = []
    for group in range(20):
        noisy = [transfer_ms(size, 12, 100) * network.rng.uniform(0.97, 1.03) for size in sizes]
        for size, duration_ms in zip(sizes, noisy):
            network.collective("all_reduce", f"dp{group}", range(2), size, duration_ms)
        plain_errors.append(np.polyfit(sizes, noisy, 1)[1] * 1e3 - 12)
    network.write()
    errors = [model["fit"]["alpha_us"] - 12 for model in comm("--by", "group", "job")["models"]]
    assert len(errors) == 20 and max(map(abs, errors)) < 0.05 * 12
    assert np.sqrt(np.mean(np.square(plain_errors))) > 10 * np.sqrt(np.mean(np.square(errors)))


def test_a_size_that_met_congestion_does_not_bend_the_line(comm, job):
    sizes = [2**i for i in range(16, 28)]
    network = Network(job, 2)
    for step in range(3):
        for size in sizes:
            slow = 3.0 if size == 2**20 else 1.0
            network.collective("all_reduce", "dp", range(2), size, slow * transfer_ms(size, 20, 100), step=step)
    network.write()
    fit = comm("job")["models"][0]["fit"]
    assert fit["alpha_us"] == pytest.approx(20, rel=0.02)
    assert fit["beta_gb_per_s"] == pytest.approx(100, rel=0.02)
    assert fit["max_relative_error"] == pytest.approx(2, rel=0.05)


def test_single_slow_collectives_do_not_count(comm, job):
    network = Network(job, 2)
    for step in range(9):
        for size in SIZES:
            slow = 10.0 if step % 4 == 0 else 1.0
            network.collective("all_reduce", "dp", range(2), size, slow * transfer_ms(size, 20, 100), step=step)
    network.write()
    fit = comm("job")["models"][0]["fit"]
    assert (fit["alpha_us"], fit["beta_gb_per_s"]) == (pytest.approx(20, rel=1e-6), pytest.approx(100, rel=1e-6))


def test_the_block_of_inputs_has_what_was_expected_and_what_was_not_readable(comm, job):
    planted(job)
    job.path(2).unlink()
    inputs = comm("job", "no_such_file")["inputs"]
    assert list(inputs) == ["files", "bytes", "rows", "ranks_seen", "ranks_expected", "missing_ranks", "truncated_files",
                            "unreadable_files", "skipped_rows", "run", "runs_left_out", "other_runs"]
    assert (inputs["ranks_seen"], inputs["ranks_expected"], inputs["missing_ranks"]) == (3, 4, [2])
    assert (inputs["files"], inputs["unreadable_files"]) == (3, 1)


def test_latency_is_never_negative(comm, job):
    network = Network(job, 2)
    for size, duration_ms in ((10**6, 0.1), (10**7, 1.3), (10**8, 13.5)):
        network.collective("all_reduce", "dp", range(2), size, duration_ms)
    network.write()
    fit = comm("job")["models"][0]["fit"]
    assert fit["alpha_us"] == 0 and fit["beta_gb_per_s"] > 0


def test_times_that_do_not_grow_have_no_bandwidth(comm, job, cep):
    network = Network(job, 2)
    for size in (1000, 2000, 4000):
        network.collective("all_reduce", "dp", range(2), size, 0.05 - size / 1e9)
    network.write()
    fit = comm("job")["models"][0]["fit"]
    assert fit["beta_gb_per_s"] is None and fit["alpha_us"] == pytest.approx(50, rel=0.01)
    assert "no bandwidth can be computed" in cep("comm", "job").stdout.decode()


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_sizes_are_refused_with_the_reason(comm, job, cep, count):
    planted(job, sizes=SIZES[:count])
    model, = comm("job")["models"]
    assert model["fit"] is None and f"{count} distinct size" in model["refused"] and "3 are needed" in model["refused"]
    assert len(model["sizes"]) == count
    assert model["refused"] in cep("comm", "job").stdout.decode()


def test_waiting_is_what_spans_are_longer_than_the_transfer(comm, job):
    network = planted(job, repeats=5)
    model, = comm("job")["models"]
    waits = np.array(network.waits)
    total = waits.sum() + sum(4 * duration for _, duration in network.transfers)
    assert model["wait_fraction"] == pytest.approx(waits.sum() / total, rel=1e-9)
    for size in model["sizes"]:
        chosen = [w.mean() for w, (bytes_, _) in zip(waits, network.transfers) if bytes_ == size["bytes"]]
        assert size["wait_ms"] == pytest.approx(np.median(chosen), rel=1e-6)
        assert size["transfer_ms"] == pytest.approx(transfer_ms(size["bytes"], 25, 120), rel=1e-9)


@pytest.mark.parametrize("name, operation", [
    ("all_reduce", "all_reduce"), ("ncclDevKernel_AllReduce_Sum_bf16_RING", "all_reduce"), ("all_gather", "all_gather"),
    ("_all_gather_base", "all_gather"), ("reduce_scatter_tensor", "reduce_scatter"), ("all_to_all", "all_to_all"),
    ("broadcast", "broadcast"), ("reduce", "reduce"), ("gather", "gather"), ("scatter", "scatter"),
])
@pytest.mark.parametrize("ranks", [2, 5])
def test_bandwidths_are_those_of_nccl_tests(comm, job, name, operation, ranks):
    planted(job, ranks=ranks, name=name, repeats=2)
    model, = comm("--link-gb-per-s", "150", "job")["models"]
    assert model["operation"] == operation
    factor = FACTORS[operation](ranks)
    assert model["fit"]["bus_gb_per_s"] == pytest.approx(120 * factor, rel=1e-6)
    assert model["fit"]["link_efficiency"] == pytest.approx(120 * factor / 150, rel=1e-6)
    for size in model["sizes"]:
        bandwidth = size["bytes"] / transfer_ms(size["bytes"], 25, 120) / 1e6
        assert size["algorithm_gb_per_s"] == pytest.approx(bandwidth, rel=1e-6)
        assert size["bus_gb_per_s"] == pytest.approx(bandwidth * factor, rel=1e-6)
        assert size["link_efficiency"] == pytest.approx(bandwidth * factor / 150, rel=1e-6)


def test_an_unknown_operation_is_fitted_and_has_no_bus_bandwidth(comm, job):
    planted(job, name="my_exchange")
    model, = comm("job")["models"]
    assert (model["operation"], model["name"]) == ("other", "my_exchange")
    assert model["fit"]["beta_gb_per_s"] == pytest.approx(120) and model["fit"]["bus_gb_per_s"] is None


def test_a_link_in_gigabits_is_an_eighth(comm, job):
    planted(job)
    assert comm("--link-gbps", "400", "job")["models"] == comm("--link-gb-per-s", "50", "job")["models"]


def test_send_and_receive_are_one_transfer(comm, job):
    network = Network(job, 2)
    for step in range(3):
        for size in SIZES:
            network.collective("send", "pp0-1", (0, 1), size, transfer_ms(size, 10, 50), names=("send", "recv"),
                               step=step)
    network.write()
    model, = comm("job")["models"]
    assert (model["operation"], model["ranks"], model["collectives"]) == ("send_recv", 2, 15)
    assert model["fit"]["alpha_us"] == pytest.approx(10, rel=1e-6)


def hops(operation, algorithm, n):
    one_way = n - 1 if algorithm == "ring" else int(np.ceil(np.log2(n)))
    return 1 if operation == "send_recv" else one_way * (2 if operation == "all_reduce" else 1)


@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"])
def test_predictions_agree_with_the_formulas(comm, job, operation):
    planted(job, ranks=4, name=operation)
    model, = comm("--predict", "64k,1GiB,100MB", "--world", "4,6,64,1000", "job")["models"]
    expected = [(size, world) for world in (4, 6, 64, 1000) for size in (64_000, 2**30, 100_000_000)]
    assert [(one["bytes"], one["ranks"]) for one in model["predictions"]] == expected
    for one in model["predictions"]:
        for algorithm in ("ring", "tree"):
            alpha_ms = 0.025 * hops(operation, algorithm, one["ranks"]) / hops(operation, algorithm, 4)
            sent = FACTORS[operation](one["ranks"]) / FACTORS[operation](4)
            assert one[f"{algorithm}_ms"] == pytest.approx(alpha_ms + one["bytes"] / 120e6 * sent, rel=1e-6)
        assert one["beyond_sizes"] == (not SIZES[0] <= one["bytes"] <= SIZES[-1])


def test_predictions_say_where_nine_of_ten_transfers_are(comm, job, cep):
    planted(job, ranks=2, noise=0.2, repeats=60)
    size = SIZES[3]
    model, = comm("--predict", str(size), "job")["models"]
    one, = model["predictions"]
    assert one["ring_low_ms"] < one["ring_ms"] < one["ring_high_ms"]
    rng = np.random.default_rng(9)
    fresh = transfer_ms(size, 25, 120) * np.exp(rng.normal(0, 0.2, 4000))
    held = np.mean((fresh >= one["ring_low_ms"]) & (fresh <= one["ring_high_ms"]))
    assert 0.87 < held < 0.97
    beyond, = comm("--predict", "100GB", "job")["models"][0]["predictions"]
    assert beyond["beyond_sizes"]
    assert beyond["ring_high_ms"] / beyond["ring_ms"] >= one["ring_high_ms"] / one["ring_ms"] * 0.99
    assert " to " in cep("comm", "--predict", "1M", "job").stdout.decode().split("Predictions")[-1]


def test_a_tree_is_recommended_where_it_is_faster(comm, job, cep):
    planted(job, ranks=4)
    model, = comm("--predict", "8k,100GB", "--world", "4,256", "job")["models"]
    faster = {(one["bytes"], one["ranks"]): one["faster"] for one in model["predictions"]}
    assert faster[8000, 4] == "either" and faster[8000, 256] == "tree" and faster[10**11, 256] == "either"
    assert "NCCL_ALGO" in cep("comm", "--predict", "8k", "job").stdout.decode()


def test_predictions_of_shards_are_of_the_whole_of_so_many_ranks(comm, job):
    planted(job, ranks=4, name="all_gather")
    wholes = comm("--predict", "64M,256M,1024M", "--world", "4,16", "job")["models"][0]["predictions"]
    shards = comm("--shard-bytes", "--predict", "64M", "--world", "4,16", "job")["models"][0]
    assert [(one["shard_bytes"], one["bytes"]) for one in shards["predictions"]] == [
        (64_000_000, 256_000_000), (64_000_000, 1_024_000_000)]
    assert all(one["shard_bytes"] is None for one in wholes)
    beta = shards["fit"]["beta_gb_per_s"]
    for one in shards["predictions"]:
        n = one["ranks"]
        expected = 0.025 * (n - 1) / 3 + one["bytes"] / (beta * 1e6) * ((n - 1) / n) / (3 / 4)
        assert one["ring_ms"] == pytest.approx(expected, rel=1e-6)


def test_launches_that_the_host_times_have_no_bandwidth(comm, job, cep):
    """An asynchronous collective returns at once, whatever its size."""
    network = Network(job, 2)
    for step in range(20):
        for size in SIZES:
            network.collective("all_reduce", "dp", range(2), size, 0.01, step=step)
    network.write()
    text = cep("comm", "--link-gb-per-s", "50", "job").stdout.decode()
    assert "GB/s" not in text and "they are launches" in text
    model, = comm("job")["models"]
    assert model["is_launch"] and model["fit"] is None and model["paid_gb_per_s"] is None
    assert {size["algorithm_gb_per_s"] for size in model["sizes"]} == {None}
    assert all(size["bus_gb_per_s"] is None for size in model["sizes"])


def test_more_than_the_link_has_a_remark(cep, job):
    planted(job, ranks=4)
    doubt = "Either part of the bytes takes a faster link"
    assert doubt in cep("comm", "--link-gb-per-s", "100", "job").stdout.decode()
    assert doubt not in cep("comm", "--link-gb-per-s", "200", "job").stdout.decode()


def test_waiting_is_a_share_of_the_steps_too(cep, comm):
    cep("simulate", "-o", "sim", "--ranks", 4, "--steps", 60, "--buckets", 3, "--noise", 0.2, "--seed", 3)
    report = comm("sim")
    spans, starts = {}, {}
    for path in sorted((cep.folder / "sim").glob("cuda_events_rank_*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row.get("kind") != "comm":
                continue
            spans.setdefault((row["group"], row["coll"]), []).append(row["duration_ms"])
            steps = starts.setdefault(row["rank"], {})
            steps[row["step"]] = min(steps.get(row["step"], row["start_ns"]), row["start_ns"])
    waiting = sum(sum(ms) - len(ms) * min(ms) for ms in spans.values())
    elapsed = sum(np.median(np.diff(list(steps.values())) / np.diff(list(steps))) / 1e6 * len(steps)
                  for steps in starts.values())
    assert report["wait_of_step"] == pytest.approx(waiting / elapsed, rel=1e-6)
    assert sum(model["wait_of_step"] for model in report["models"]) == pytest.approx(report["wait_of_step"])
    assert "of the time of steps" in report["headline"]


def test_predictions_default_to_what_was_measured(comm, job):
    planted(job)
    assert comm("job")["models"][0]["predictions"] == []
    of_world = comm("--world", "8", "job")["models"][0]["predictions"]
    assert [one["bytes"] for one in of_world] == list(SIZES) and {one["ranks"] for one in of_world} == {8}
    of_size = comm("--predict", "1M", "job")["models"][0]["predictions"]
    assert [(one["bytes"], one["ranks"]) for one in of_size] == [(10**6, 4)]
    assert of_size[0]["ring_ms"] == pytest.approx(transfer_ms(10**6, 25, 120), rel=1e-6)
