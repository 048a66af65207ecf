# SPDX-License-Identifier: Apache-2.0
"""cep kernels: what it advises of kernels, copies and memory, from each threshold on."""

import pytest
from kernel_traces import kernel, report, trace_text

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
SCALAR_GEMM = "ampere_sgemm_128x64_nn"
FLASH = "void pytorch_flash::flash_fwd_kernel<float>(int)"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float>(float*)"
PAGEABLE = "Memcpy HtoD (Pageable -> Device)"
RULES = {
    "bound by compute: compare": ([(GEMM, 51), (SOFTMAX, 38), (NCCL, 11)], [(GEMM, 49), (SOFTMAX, 38), (NCCL, 13)]),
    "little of matmul runs on Tensor Cores": ([(SCALAR_GEMM, 40), (GEMM, 35), (NCCL, 15)],
                                              [(SCALAR_GEMM, 35), (GEMM, 40), (NCCL, 15)]),
    "communication is": ([(GEMM, 79), (NCCL, 21)], [(GEMM, 81), (NCCL, 19)]),
    "other kernels are": ([(GEMM, 59), (SOFTMAX, 41)], [(GEMM, 61), (SOFTMAX, 39)]),
    "pageable memory: pin_memory": ([(GEMM, 97), (PAGEABLE, 3)], [(GEMM, 99), (PAGEABLE, 1)]),
}


def advice_on(cep, tmp_path, kernels, gap_us=0, times=10):
    events, at_us = [], 0
    for name, duration_us in kernels:
        category = "gpu_memcpy" if name == PAGEABLE else "kernel"
        events.append(kernel(name, at_us * times, duration_us * times, cat=category))
        at_us += duration_us + gap_us
    (tmp_path / "t.json").write_text(trace_text(events))
    return cep("kernels", "t.json").stdout.decode().split("\nranks ")[0]


@pytest.mark.parametrize("rule", RULES)
def test_advice_is_given_from_its_threshold_on(cep, tmp_path, rule):
    with_it, without = RULES[rule]
    assert rule in advice_on(cep, tmp_path, with_it)
    assert rule not in advice_on(cep, tmp_path, without)


def test_short_kernels_with_gaps_are_bound_by_launches(cep, tmp_path):
    """Kernels of 20 µs are not short, and without gaps the GPU does not wait."""
    kernels = [(SOFTMAX, 19)] * 50
    assert "bound by launches" in advice_on(cep, tmp_path, kernels, gap_us=6, times=1)
    assert "bound by launches" not in advice_on(cep, tmp_path, [(SOFTMAX, 21)] * 50, gap_us=6, times=1)
    assert "bound by launches" not in advice_on(cep, tmp_path, kernels, gap_us=4, times=1)


def test_mostly_idle_gpus_are_the_hosts_first(cep, tmp_path):
    for gap_us, is_idle in ((11, True), (9, False)):
        text = advice_on(cep, tmp_path, [(GEMM, 10)] * 50, gap_us=gap_us, times=1)
        assert ("look first at what the host does between kernels" in text) == is_idle


def test_attention_is_a_class_of_its_own(cep, tmp_path):
    text = advice_on(cep, tmp_path, [(FLASH, 70), (GEMM, 20), (SOFTMAX, 10)])
    assert "matmul 20.0 %, attention 70.0 %, comm 0.0 %, memory 0.0 %, other 10.0 %" in text
    assert "100.0 % of matmul's time is in kernels whose names say Tensor Cores" in text


def test_copies_by_direction_and_memory_of_the_host(cep, tmp_path):
    """As Kineto writes them: bytes in the arguments."""
    def copy(name, start_us, duration_us, size, **more):
        event = kernel(name, start_us, duration_us, cat="gpu_memcpy", **more)
        return {**event, "args": {**event["args"], "bytes": size}}

    (tmp_path / "t.json").write_text(trace_text([
        copy("Memcpy HtoD (Pinned -> Device)", 0, 10, 100000), copy(PAGEABLE, 10, 50, 50000), copy(PAGEABLE, 60, 50, 150000),
        copy("Memcpy DtoH (Device -> Pageable)", 110, 5, 1000), copy("Memcpy DtoD (Device -> Device)", 115, 4, 8000),
        kernel("Memcpy HtoD (Pinned -> Device)", 120, 10, cat="gpu_memcpy")]))
    copies = {(copy["direction"], copy["host_memory"]): copy for copy in report(cep, "t.json")["total"]["copies"]}
    figures = {kind: (copy["count"], copy["bytes"], copy["time_ms"], copy["gb_per_s"]) for kind, copy in copies.items()}
    assert figures == {
        ("host to device", "pinned"): (2, 100000, 0.02, pytest.approx(5)),
        ("host to device", "pageable"): (2, 200000, 0.1, pytest.approx(2)),
        ("device to host", "pageable"): (1, 1000, 0.005, pytest.approx(0.2)),
        ("device to device", None): (1, 8000, 0.004, pytest.approx(2))}
    text = cep("kernels", "t.json").stdout.decode()
    lines = [line.split() for line in text.splitlines()]
    assert "host to device pageable 2 200 kB 100.0 µs 2 GB/s".split() in lines
