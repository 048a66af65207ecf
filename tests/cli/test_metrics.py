# SPDX-License-Identifier: Apache-2.0
"""cep metrics: figures of a job in the text format of Prometheus, and the dashboard that shows them."""

import json
import math
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import START_NS, run_row, span_row, stats_row
from simulation import FAULT

DASHBOARD = pathlib.Path(__file__).parents[2] / "tools" / "metrics" / "grafana.json"
SAMPLE = re.compile(r'([a-z_0-9]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)+)\})? (\S+)', re.DOTALL)
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', re.DOTALL)


class Metrics:
    """An exposition as Prometheus reads it."""

    def __init__(self, data):
        self.text = data.decode()
        self.types, self.helps, self.samples = {}, {}, {}
        assert self.text.endswith("\n")
        for line in self.text[:-1].split("\n"):
            if line.startswith("# "):
                _, what, name, rest = line.split(" ", 3)
                known = {"HELP": self.helps, "TYPE": self.types}[what]
                assert name not in known
                known[name] = rest
                continue
            name, labels, value = SAMPLE.fullmatch(line).groups()
            unescape = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
            pairs = tuple((key, re.sub(r"\\.", lambda found: unescape[found[0]], text))
                          for key, text in LABEL.findall(labels or ""))
            assert (name, pairs) not in self.samples
            self.samples[name, pairs] = float(value)

    def __getitem__(self, name):
        return self.of(name)[()]

    def of(self, name):
        return {pairs: value for (found, pairs), value in self.samples.items() if found == name}

    def names(self):
        return {name for name, _ in self.samples}


@pytest.fixture
def metrics(cep):
    def run(*arguments, **more):
        return Metrics(cep("metrics", *arguments, **more).stdout)
    return run


def memory_rows(rank):
    return [{"type": "counter", "name": f"memory.{name}", "step": 1, "rank": rank, "value": 2**30 + rank, "start_ns": START_NS}
            for name in ("peak_allocated_bytes", "peak_reserved_bytes", "allocated_bytes", "reserved_bytes")]


@pytest.fixture
def slow_job(simulate):
    """Eight ranks, of which one is slow."""
    return simulate("sim", "--ranks", 8, "--steps", 100, faults=[FAULT])


# The figures are those of cep summarize.

def test_steps_and_phases(cep, metrics, slow_job):
    found, summary = metrics("sim"), cep.summary("sim")
    step, = (phase for phase in summary["phases"] if phase["kind"] == "step")
    for name in ("p50", "p99", "max"):
        assert found[f"cep_step_{name}_seconds"] == pytest.approx(step[f"{name}_ms"] / 1000, rel=1e-12)
    for phase in summary["phases"]:
        labels = (("phase", phase["name"]), ("kind", phase["kind"]))
        for quantile, key in (("0.5", "p50_ms"), ("0.9", "p90_ms"), ("0.99", "p99_ms")):
            value = found.of("cep_phase_seconds")[(*labels, ("quantile", quantile))]
            assert value == pytest.approx(phase[key] / 1000, rel=1e-12)
        assert found.of("cep_phase_seconds_sum")[labels] == pytest.approx(phase["total_ms"] / 1000, rel=1e-12)
        assert found.of("cep_phase_seconds_count")[labels] == phase["count"]
        assert found.of("cep_phase_share_ratio")[labels] == pytest.approx(phase["share"], rel=1e-12)
    assert found["cep_steps_recorded"] == 100 and found["cep_last_step"] == 99


def test_the_straggler_is_named(cep, metrics, slow_job):
    found, verdict = metrics("sim"), cep.summary("sim")["verdict"]
    straggler, = verdict["stragglers"]
    labels = (("rank", "3"), ("host", straggler["host"]), ("phase", "forward"), ("pattern", "persistent"))
    assert found["cep_stragglers"] == 1 and found["cep_verdict_abstained"] == 0
    assert found.of("cep_straggler_slowdown_ratio") == {labels: pytest.approx(straggler["slowdown"], rel=1e-12)}
    assert found.of("cep_straggler_excess_seconds") == {labels: pytest.approx(straggler["excess_ms"] / 1000, rel=1e-12)}
    assert found["cep_job_slowdown_ratio"] == pytest.approx(verdict["job_slowdown"], rel=1e-12)


def test_parts_of_a_step_are_a_whole(cep, metrics, slow_job):
    found = metrics("sim")
    parts = found.of("cep_step_part_ratio")
    assert {labels[0][1] for labels in parts} == {"compute", "comm_wait", "comm_transfer", "data", "host", "other"}
    assert sum(parts.values()) == pytest.approx(1, abs=0.02) and min(parts.values()) >= 0
    bounds = found.of("cep_bound")
    assert [labels[0][1] for labels, value in bounds.items() if value] == [cep.summary("sim")["verdict"]["bound"]]


def test_efficiency(cep, metrics, slow_job):
    found, efficiency = metrics("sim"), cep.summary("sim")["efficiency"]
    assert found["cep_exposed_comm_seconds"] == pytest.approx(efficiency["exposed_comm_ms"] / 1000, rel=1e-12)
    assert found["cep_mfu_ratio"] == pytest.approx(efficiency["mfu"], rel=1e-12)
    halved = metrics("--peak-flops", "1e12", "sim")["cep_mfu_ratio"] / metrics("--peak-flops", "2e12", "sim")["cep_mfu_ratio"]
    assert halved == pytest.approx(2)


def test_losses_and_overhead(metrics, job):
    dropped = {"ring": 1, "slots": 2, "pool": 3, "file": 4, "io": 5, "meta": 6}
    for rank in range(2):
        job.write(rank, [run_row(rank, world_size=3), span_row(rank, 1, "f", 1.0, START_NS),
                         stats_row(rank, 1, dropped=dropped, capture_skipped=7, cuda_errors=8, abandoned=9, self_ms=250)])
    found = metrics("job")
    assert {labels[0][1]: value for labels, value in found.of("cep_profiler_dropped_total").items()} == {
        "ring": 2, "slots": 4, "pool": 6, "file": 8, "io": 10}
    assert [found[f"cep_profiler_{name}_total"] for name in
            ("without_metadata", "capture_skipped", "cuda_errors", "abandoned", "cpu_seconds")] == [12, 14, 16, 18, 0.5]
    assert (found["cep_ranks"], found["cep_ranks_missing"]) == (2, 1)
    assert found["cep_profiler_recorded_total"] == found["cep_profiler_written_total"] == 200


def test_a_job_without_step_spans_has_no_step_quantiles(metrics, job):
    job.write(0, [span_row(0, step, "forward", 1.0, START_NS + step * 10**7) for step in range(20)])
    found = metrics("job")
    assert "cep_step_p50_seconds" not in found.names() and "cep_step_typical_seconds" in found.names()


# The format.

def test_each_metric_has_help_and_type(metrics, slow_job):
    found = metrics("sim")
    assert found.types.keys() == found.helps.keys()
    for name in found.names():
        family = re.sub("_(sum|count)$", "", name) if name.startswith("cep_phase_seconds") else name
        assert found.types[family] == ("counter" if family.endswith("_total") else
                                       "summary" if family == "cep_phase_seconds" else "gauge")
    assert not any(re.search("_(ms|us|ns|mb|gb|percent)(_|$)", name) for name in found.names())
    assert all(math.isfinite(value) for value in found.samples.values())


@pytest.mark.parametrize("name", ['a"} 1\ncep_last_step 7', "back\\slash", "\\n", "é\u202e\u2028", "", "{}", "\r\t\x7f"])
def test_hostile_names_stay_label_values(metrics, job, name):
    job.write(0, [run_row(0, run_id=name), *[span_row(0, step, name, 1.0, START_NS + step * 10**7) for step in range(4)]])
    found = metrics("job")
    assert {dict(labels)["phase"] for labels in found.of("cep_phase_seconds")} == {name}
    assert found.of("cep_run_info") == {(("run_id", name),): 1}
    assert found["cep_last_step"] == 3


def test_labels_have_few_values(metrics, job):
    for rank in range(8):
        job.write(rank, [span_row(rank, step, f"phase{i}", 1.0 + i, START_NS + step * 10**9 + i * 10**7)
                         for step in range(3) for i in range(100)])
    found = metrics("job")
    assert len(found.of("cep_phase_seconds_count")) == 32 and found["cep_phases_left_out"] == 68
    assert {dict(labels)["phase"] for labels in found.of("cep_phase_seconds_sum")} == {f"phase{i}" for i in range(68, 100)}
    assert len(found.samples) < 400
    assert len(metrics("--max-phases", "5", "job").of("cep_phase_seconds_count")) == 5
    assert len(metrics("--max-phases", "0", "job").of("cep_phase_seconds_count")) == 0


def test_promtool_finds_nothing(cep, slow_job, job):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing")
    rows = [span_row(0, 1, 'a"\\\n', 1.0, START_NS), *memory_rows(0), stats_row(0, 1)]
    job.write(0, [run_row(0, run_id="\\"), *rows])
    for inputs in ("sim", "job"):
        text = cep("metrics", inputs).stdout
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# Files.

def test_the_file_appears_whole(cep, four_ranks, tmp_path):
    (tmp_path / "cep.prom").write_text("before")
    cep("metrics", "-o", "cep.prom", "job")
    assert (tmp_path / "cep.prom").read_bytes() == cep("metrics", "job").stdout
    assert {path.name for path in tmp_path.iterdir()} == {"job", "cep.prom"}


def test_damage_is_counted(cep, four_ranks):
    with open(four_ranks.path(1), "ab") as file:
        file.write(b"bad\n{}\n")
    done = cep("metrics", "job")
    assert Metrics(done.stdout)["cep_input_skipped_rows"] == 2 and b"cuda_events_rank_1.jsonl" in done.stderr
    cep("metrics", "--strict", "job", status=4)


# The dashboard.

def expressions():
    dashboard = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_of_the_dashboard_is_written(cep, metrics, simulate, tmp_path):
    simulate("sim", "--ranks", 8, "--steps", 100, faults=[FAULT])
    with open(tmp_path / "sim" / "cuda_events_rank_0.jsonl", "a") as file:
        file.writelines(json.dumps(row) + "\n" for row in memory_rows(0))
    used = {name for text in expressions() for name in re.findall(r"\bcep_\w+", text)}
    assert len(used) > 20
    assert used - metrics("sim").names() == set()


def test_labels_of_the_dashboard_are_written(metrics, simulate):
    simulate("sim", "--ranks", 8, "--steps", 100, faults=[FAULT])
    found = metrics("sim")
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            name = re.search(r"\bcep_\w+", target["expr"])[0]
            labels = {key for pairs in found.of(name) for key, _ in pairs}
            if labels:
                assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, name


def test_panels_of_the_dashboard_do_not_overlap():
    cells = [(x, y) for panel in json.loads(DASHBOARD.read_text())["panels"] for place in [panel["gridPos"]]
             for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
