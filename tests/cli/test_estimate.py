# SPDX-License-Identifier: Apache-2.0
"""cep estimate: every figure beside an independent computation, and examples of the literature."""

import csv
import io
import json

import pytest


def estimate(cep, *arguments, status=0):
    return json.loads(cep("estimate", "--json", *arguments, status=status).stdout)


def values(report, section):
    return {key: figure["value"] for key, figure in report[section].items()}


def options_of(**settings):
    options = []
    for name, value in settings.items():
        options += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return options


def test_gpt3_on_1024_a100_has_an_mfu_of_11_percent(cep):
    report = estimate(cep, *options_of(params=175e9, tokens=1024 * 2048, ranks=1024, gpu="A100", step_ms=60000))
    assert report["flops"]["flops_per_step"]["value"] == pytest.approx(6 * 175e9 * 2048 * 1024)
    assert round(report["speed"]["mfu"]["value"], 2) == 0.11
    assert b"its MFU is 11 %" in cep("estimate", "--params", "175e9", "--tokens", "2097152", "--ranks", "1024", "--gpu",
                                     "A100", "--step-ms", "60000").stdout


def test_four_stages_and_eight_micro_batches_wait_27_percent(cep):
    bubble = values(estimate(cep, *options_of(params=1e9, seq=2048, batch=8, pp=4, chunks=2)), "bubble")
    assert bubble == pytest.approx({"gpipe": 3 / 11, "1f1b": 3 / 11, "interleaved": 3 / 19, "zero-bubble": 1 / 9})


def test_seven_billion_parameters_in_32_bits_with_adam_take_112_gb(cep):
    report = estimate(cep, *options_of(params=7e9, param_bytes=4, grad_bytes=4, optimizer_bytes=8))
    assert values(report, "memory") == {"parameters": 28e9, "gradients": 28e9, "optimizer": 56e9, "peak": 112e9}


@pytest.mark.parametrize("ranks", [8, 64])
def test_zero_divides_by_the_factors_of_its_paper(cep, ranks):
    zero = values(estimate(cep, *options_of(params=1e9, ranks=ranks)), "zero")
    assert zero == pytest.approx({"zero_0": 16e9, "zero_1": 4e9 + 12e9 / ranks, "zero_2": 2e9 + 14e9 / ranks,
                                  "zero_3": 16e9 / ranks})


DENSE = dict(layers=24, hidden=2048, heads=16, vocab=50000, seq=1024, batch=64, ranks=16, tp=2, pp=2)
SHAPES = {
    "dense": DENSE,
    "grouped queries, gated": {**DENSE, "kv_heads": 4, "ffn": 5632, "gated": True, "tied": True},
    "recomputed": {**DENSE, "recompute": "full", "micro_batch": 2},
    "selective, sequence parallel": {**DENSE, "recompute": "selective", "sequence_parallel": True, "zero": 1},
    "interleaved": {**DENSE, "pp": 4, "tp": 1, "schedule": "interleaved", "chunks": 3, "zero": 2},
    "gpipe": {**DENSE, "schedule": "gpipe", "zero": 3, "ffn": 4096},
    "experts": {**DENSE, "experts": 8, "top_k": 2, "ep": 4, "tp": 1},
}


class Truth:
    """The formulas of the manual, written again."""

    def __init__(self, settings):
        s = {"ffn": 4 * settings["hidden"], "kv_heads": settings["heads"], "micro_batch": 1, "experts": 1, "top_k": 1,
             "ep": 1, "chunks": 1, "zero": 0, "recompute": "none", "schedule": "1f1b", **settings}
        self.s = s
        self.dp = s["ranks"] // (s["tp"] * s["pp"])
        self.micro_batches = s["batch"] / self.dp / s["micro_batch"]

    def parameters(self):
        s, h = self.s, self.s["hidden"]
        expert = (3 if "gated" in s else 2) * h * s["ffn"]
        attention = 2 * h * h + 2 * h * h * s["kv_heads"] / s["heads"]
        router = h * s["experts"] if s["experts"] > 1 else 0
        embedding = s["vocab"] * h
        dense = s["layers"] * (attention + router) + (1 if "tied" in s else 2) * embedding
        active = s["layers"] * (attention + router + s["top_k"] * expert) + embedding
        return dense, s["layers"] * s["experts"] * expert, active

    def flops_per_token(self):
        scores = 12 * self.s["layers"] * self.s["hidden"] * self.s["seq"]
        return 6 * self.parameters()[2] + scores

    def memory(self):
        s = self.s
        dense, experts, _ = self.parameters()
        mine = (dense + experts / s["ep"]) / s["tp"] / s["pp"]
        tokens = s["seq"] * s["micro_batch"] * s["hidden"]
        split = s["tp"] if "sequence_parallel" in s else 1
        scores = 5 * s["heads"] * s["seq"] / s["hidden"]
        layer = {"full": 2 * tokens / split, "selective": tokens * (10 / split + 24 / s["tp"]),
                 "none": tokens * (10 / split + (24 + scores) / s["tp"])}[s["recompute"]]
        at_once = min(s["pp"], self.micro_batches)
        held = {"gpipe": self.micro_batches, "1f1b": at_once,
                "interleaved": at_once * (1 + (s["pp"] - 1) / s["pp"] / s["chunks"])}[s["schedule"]]
        over = [1 if s["zero"] < stage else self.dp for stage in (3, 2, 1)]
        parts = {"parameters": 2 * mine / over[0], "gradients": 2 * mine / over[1], "optimizer": 12 * mine / over[2],
                 "activations": layer * s["layers"] / s["pp"] * held}
        return {**parts, "peak": sum(parts.values())}

    def sent_bytes(self):
        s = self.s
        dense, experts, _ = self.parameters()
        mine = (dense + experts / s["ep"]) / s["tp"] / s["pp"]
        boundary = 2 * s["seq"] * s["micro_batch"] * s["hidden"]
        layers = s["layers"] / s["pp"]
        sent = {"data_parallel_bytes": (self.dp - 1) / self.dp * 2 * mine * (3 if s["zero"] == 3 else 2)}
        if s["tp"] > 1:
            calls = (6 if s["recompute"] == "full" else 4) * layers * self.micro_batches
            sent["tensor_parallel_bytes"] = calls * 2 * (s["tp"] - 1) / s["tp"] * boundary
        sent["pipeline_bytes"] = 2 * self.micro_batches * s["chunks"] * boundary
        if s["ep"] > 1:
            calls = 4 * layers * self.micro_batches
            sent["expert_parallel_bytes"] = calls * s["top_k"] * (s["ep"] - 1) / s["ep"] * boundary
        return sent


@pytest.mark.parametrize("settings", SHAPES.values(), ids=SHAPES)
def test_figures_are_those_of_the_formulas(cep, settings):
    report = estimate(cep, *options_of(**settings))
    truth = Truth(settings)
    dense, experts, active = truth.parameters()
    flops = values(report, "flops")
    assert flops["parameters"] == pytest.approx(dense + experts) and flops["active_parameters"] == pytest.approx(active)
    assert flops["flops_per_token"] == pytest.approx(truth.flops_per_token())
    assert values(report, "memory") == pytest.approx(truth.memory())
    assert values(report, "communication") == pytest.approx(truth.sent_bytes())


def test_recomputation_is_work_of_the_device_and_not_of_the_model(cep):
    settings = {**DENSE, "gpu": "H100", "step_ms": 500, "recompute": "full"}
    report = estimate(cep, *options_of(**settings))
    flops, speed = values(report, "flops"), values(report, "speed")
    forward = 2 * flops["active_parameters"] + 4 * 24 * 2048 * 1024
    assert flops["hardware_flops_per_token"] == pytest.approx(flops["flops_per_token"] + forward)
    assert speed["mfu"] == pytest.approx(flops["flops_per_token"] * 64 * 1024 / 0.5 / (16 * 989.4e12))
    assert speed["hfu"] / speed["mfu"] == pytest.approx(flops["hardware_flops_per_token"] / flops["flops_per_token"])


@pytest.mark.parametrize("option", [
    ("--params", "1e8"), ("--gated",), ("--batch", "8"), ("--recompute", "full"), ("--ranks", "4"), ("--zero", "1"),
    ("--sequence-parallel",), ("--gpu", "H100"), ("--peak-flops", "1e15"), ("--step-ms", "5"), ("--link-gb-per-s", "5")])
def test_a_job_takes_no_option_of_a_planned_training(cep, four_ranks, option):
    says = f"cep estimate: {option[0]}: of a training that is planned; leave out the job, or this option"
    assert says in cep("estimate", *option, "job", status=2).stderr.decode()


def test_a_planned_training_takes_no_option_of_a_job(cep):
    assert b"--world: of a job" in cep("estimate", "--params", "1e8", "--world", "8", status=2).stderr


def test_every_format_has_every_figure(cep):
    arguments = options_of(**{**DENSE, "gpu": "H100"})
    report = estimate(cep, *arguments)
    lines = list(csv.DictReader(io.StringIO(cep("estimate", "--csv", *arguments).stdout.decode())))
    sections = ("flops", "speed", "memory", "zero", "communication", "bubble")
    figures = {(section, key): value for section in sections for key, value in values(report, section).items()}
    assert {(line["section"], line["key"]): float(line["value"]) for line in lines} == pytest.approx(figures)
    markdown = cep("estimate", "--markdown", *arguments).stdout.decode()
    assert markdown.count("| :--- |") >= 5 and "activations" in markdown


@pytest.mark.parametrize("arguments, says", [
    ([], "no model: name --params, or --layers and --hidden"),
    (["--params", "x"], "--params: 'x' is no number from 1"),
    (["--params", "1e9", "--ranks", "6", "--tp", "4"], "--ranks: 6 ranks are no multiple of tp 4 times pp 1"),
    (["--params", "1e9", "--ranks", "8", "--seq", "8", "--batch", "12"], "--batch: 12 sequences are no"),
    (["--params", "1e9", "--ranks", "8", "--ep", "3"], "--ep: 3 does not divide"),
    (["--params", "1e9", "--experts", "2", "--top-k", "3"], "--top-k: 3 of 2 experts"),
    (["--params", "1e9", "--gpu", "Abacus"], "--gpu: no peak is known for 'Abacus'"),
])
def test_numbers_that_cannot_be_are_refused(cep, arguments, says):
    assert says.encode() in cep("estimate", *arguments, status=2).stderr


def test_an_mfu_over_1_is_no_figure_but_a_fault(cep):
    text = cep("estimate", *options_of(params=7e9, tokens=1e6, ranks=1, gpu="H100", step_ms=10)).stdout
    assert b"which cannot be" in text
