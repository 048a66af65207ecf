# SPDX-License-Identifier: Apache-2.0
"""Settings of run rows: shown, compared, advised on."""

import json
import re
from pathlib import Path

import pytest
from conftest import START_NS, run_row, span_row

SETTINGS = {"torch": "2.13.0", "matmul_precision": "highest", "tf32": False, "autocast": "none", "parameters": "float32",
            "device": "cuda", "anomaly_detection": False, "loader_num_workers": 4, "loader_pin_memory": True,
            "loader_persistent_workers": True, "compiled": True, "threads": 4, "cores": 64, "ranks_on_host": 8}
MS = 10**6


def write_job(job, settings_of_rank, *, ranks=2, data_ms=1.0, copy_ms=1.0, steps=40, gap_ms=0.0, transfer_ms=0.0):
    """Steps of 100 ms compute, a copy and a wait for data on the host clock."""
    for rank in range(ranks):
        settings = settings_of_rank(rank)
        rows = [run_row(rank, world_size=ranks, **({"meta": {"settings": settings}} if settings is not None else {}))]
        for step in range(steps):
            at = START_NS + step * round((100 + data_ms + copy_ms + gap_ms + transfer_ms) * MS)
            for name, kind, ms in (("data_load", "data", data_ms), ("host_to_device", "data", copy_ms)):
                rows.append(span_row(rank, step, name, ms, at, kind=kind))
                at += round(ms * MS)
            at += round(gap_ms * MS)  # the device waits for its host, as the small lag says
            rows.append(span_row(rank, step, "forward", 100.0, at, clock="gpu", lag_ms=0.01, device=0, stream=1))
            if transfer_ms:
                rows.append(span_row(rank, step, "all_gather", transfer_ms, at + 100 * MS, kind="comm", clock="gpu", lag_ms=5.0,
                                     device=0, stream=1, group="world", coll=step))
        job.write(rank, rows)


def settings_of(cep, *, name="job"):
    return json.loads(cep("summarize", "--json", name).stdout)["settings"]


def test_settings_are_shown_and_in_the_json(cep, job):
    write_job(job, lambda rank: SETTINGS)
    found = settings_of(cep)
    assert found["usual"] == {name: str(value).lower() for name, value in SETTINGS.items()}
    assert (found["uneven"], [one["id"] for one in found["advice"]]) == ([], ["float32_matmul"])
    text = cep("summarize", "job").stdout.decode()
    assert "settings  torch 2.13.0, matmul_precision highest" in text and "and 8 more" in text


def test_a_job_without_settings_says_nothing_of_them(cep, job):
    write_job(job, lambda rank: None)
    assert settings_of(cep) is None and "settings" not in cep("summarize", "job").stdout.decode()


def test_a_rank_with_another_setting_is_named(cep, job):
    odd = {**SETTINGS, "threads": 1, "OMP_NUM_THREADS": "1"}
    write_job(job, lambda rank: odd if rank == 3 else SETTINGS, ranks=5)
    assert settings_of(cep)["uneven"] == [
        {"name": "threads", "usual": "4", "odd": "1", "ranks": [3]},
        {"name": "OMP_NUM_THREADS", "usual": "", "odd": "1", "ranks": [3]},
    ]
    text = cep("summarize", "job").stdout.decode()
    assert "threads is 1 on rank 3 and 4 on most" in text and "OMP_NUM_THREADS is 1 on rank 3 and not set on most" in text


def test_where_ranks_are_more_than_cores_fewer_threads_are_no_advice(cep, job):
    write_job(job, lambda rank: {**SETTINGS, "threads": 1, "cores": 2, "ranks_on_host": 4})
    assert "4 ranks on 2 cores: fewer ranks, or a host with more cores" in cep("summarize", "job").stdout.decode()


GOOD = {**SETTINGS, "tf32": True}
# Rule: what triggers it, and what just does not.
RULES = {
    "anomaly_detection": ({"anomaly_detection": True}, {}),
    "launch_blocking": ({"CUDA_LAUNCH_BLOCKING": "1"}, {"CUDA_LAUNCH_BLOCKING": "0"}),
    "distributed_debug": ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, {"TORCH_DISTRIBUTED_DEBUG": "INFO"}),
    "nccl_debug": ({"NCCL_DEBUG": "TRACE"}, {"NCCL_DEBUG": "WARN"}),
    "deterministic": ({"deterministic_algorithms": True}, {"deterministic_algorithms": False}),
    "cudnn_deterministic": ({"cudnn_deterministic": True}, {"cudnn_deterministic": False}),
    "pin_memory": ({"loader_pin_memory": False}, {"loader_pin_memory": False, "copy_ms": 0.9}),
    "num_workers": ({"loader_num_workers": 0}, {"loader_num_workers": 0, "data_ms": 0.9}),
    "persistent_workers": ({"loader_persistent_workers": False}, {"loader_persistent_workers": False, "data_ms": 0.9}),
    "compile": ({"compiled": False, "gap_ms": 1.3}, {"compiled": False, "gap_ms": 0.8}),
    "optimizer": ({"optimizer_fused": False, "gap_ms": 1.3}, {"optimizer_fused": False, "gap_ms": 0.8}),
    "find_unused_parameters": ({"ddp_find_unused_parameters": True}, {"ddp_find_unused_parameters": False}),
    "backward_prefetch": ({"fsdp_backward_prefetch": "none", "transfer_ms": 1.2},
                          {"fsdp_backward_prefetch": "none", "transfer_ms": 0.9}),
    "attention": ({"attention": "eager"}, {"attention": "sdpa"}),
    "flash_sdp": ({"flash_sdp": False}, {"flash_sdp": True}),
    "channels_last": ({"convolutions": "contiguous"}, {"convolutions": "channels_last"}),
    "channels_last of a CPU": ({"convolutions": "contiguous"}, {"convolutions": "contiguous", "device": "cpu"}),
    "cudnn_benchmark": ({"convolutions": "channels_last", "cudnn_benchmark": False}, {"cudnn_benchmark": False}),
    "float32_matmul": ({"tf32": False}, {"tf32": False, "autocast": "bfloat16"}),
    "float32_matmul of products": ({"tf32": False, "autocast": "bfloat16", "matmul_dtype": "float32"},
                                   {"tf32": False, "matmul_dtype": "bfloat16"}),
    "threads": ({"threads": 9}, {"threads": 8}),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_setting_is_advised_on_where_it_costs(cep, job, rule):
    for changes, ids in zip(RULES[rule], ([rule.split()[0]], [])):
        times = {"data_ms": 1.2, "copy_ms": 1.2, "gap_ms": 0.0, "transfer_ms": 0.0}
        times.update((key, value) for key, value in changes.items() if key in times)
        settings = {**GOOD, **{key: value for key, value in changes.items() if key not in times}}
        write_job(job, lambda rank, settings=settings: settings, **times)
        advice = settings_of(cep)["advice"]
        assert [one["id"] for one in advice] == ids
        said = " ".join(cep("summarize", "job").stdout.decode().split())
        assert all(" ".join(one["text"].split()) in said for one in advice)


def test_each_rule_is_in_the_guide_and_here():
    root = Path(__file__).parents[2]
    rules = {rule.split()[0] for rule in RULES}
    page = (root / "docs/guide/advice.md").read_text().split("## Rules of settings")[1]
    assert set(re.findall(r'<a id="(\w+)">', page)) == rules
    source = (root / "tools/advice/settings_advice.cpp").read_text()
    assert set(re.findall(r'\{"(\w+)",\s+"\w+",\s+"\w+",|add\("(\w+)"', source)) == {
        (rule, "") if f'add("{rule}"' not in source else ("", rule) for rule in rules}


def test_compare_begins_with_the_settings_that_differ(cep, job, tmp_path):
    write_job(job, lambda rank: SETTINGS)
    (tmp_path / "job").rename(tmp_path / "before")
    (tmp_path / "job").mkdir()
    changed = {**SETTINGS, "matmul_precision": "high", "NCCL_ALGO": "Ring"}
    del changed["tf32"]
    write_job(job, lambda rank: changed)
    text = cep("compare", "before", "job").stdout.decode()
    first = next(line for line in text.splitlines() if line.startswith("because"))
    assert "settings that differ: matmul_precision highest → high, tf32 false → not set, NCCL_ALGO not set → Ring" in first
    report = json.loads(cep("compare", "--json", "before", "job").stdout)
    assert report["settings_changed"] == [{"name": "matmul_precision", "a": "highest", "b": "high"},
                                          {"name": "tf32", "a": "false", "b": "not set"},
                                          {"name": "NCCL_ALGO", "a": "not set", "b": "Ring"}]


@pytest.mark.parametrize("settings", [[], "text", 5, {"a": {"b": 1}}, {"a\nb": "x"}, {"a": "x\ny"}, {"a=b": 1},
                                      {"long": "x" * 9000}])
def test_odd_settings_are_left_out(cep, job, settings):
    write_job(job, lambda rank: settings)
    assert settings_of(cep) is None
