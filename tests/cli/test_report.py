# SPDX-License-Identifier: Apache-2.0
"""cep report: one page that needs no network and no script, and the data in it."""

import base64
import hashlib
import json
import os
import re
import threading
import xml.etree.ElementTree as ElementTree
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
from conftest import START_NS, run_row, span_row
from simulation import FAULT

SECTIONS = ["verdict", "breakdown", "heat", "waits", "bands", "whatif", "timeline", "comm", "memory", "phases", "inputs"]
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """A page: its elements, its texts, and what is in each section."""

    def __init__(self, data):
        super().__init__(convert_charrefs=True)
        self.data = data
        self.text = data.decode()
        self.elements, self.open, self.contents, self.scripts = [], [], {}, []
        self.feed(self.text)
        self.close()
        assert self.open == [], "elements that are never closed"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "script":
            self.scripts.append((self.open[-1][1], data))
            return
        for _, attributes in self.open:
            if "id" in attributes:
                self.contents[attributes["id"]] = self.contents.get(attributes["id"], "") + data

    def sections(self):
        return [attributes["id"] for tag, attributes in self.elements if tag == "section"]

    def empty_sections(self):
        return {name: text for name, text in re.findall(r'<section id="(\w+)">\n<h2>[^<]*</h2>\n<p class="empty">([^<]*)', self.text)}

    def svgs(self):
        return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", self.text, re.DOTALL)]

    def model(self):
        found, = (text for attributes, text in self.scripts if attributes.get("id") == "cep-data")
        return json.loads(found)


@pytest.fixture
def report(cep, tmp_path):
    def run(*arguments, **more):
        cep("report", "-o", "report.html", *arguments, **more)
        return Page((tmp_path / "report.html").read_bytes())
    return run


def decode(block):
    """Values row by row; None where there is none."""
    data = base64.b64decode(block["data"], validate=True)
    assert block["encoding"] == "deflate"
    data = zlib.decompress(data)
    cells = block["rows"] * block["columns"]
    assert len(data) == cells * block["bits"] // 8
    codes = list(data) if block["bits"] == 8 else [high << 8 | low for high, low in zip(data[:cells], data[cells:])]
    most = 2 ** block["bits"] - 1
    ratio = block["high"] / block["low"]
    values = [block["low"] * ratio ** ((code - 1) / (most - 1)) if code else None for code in codes]
    return [values[row * block["columns"]:(row + 1) * block["columns"]] for row in range(block["rows"])]


def layer_of(model, name, measure):
    phase = [one["name"] for one in model["phases"]].index(name)
    found = [one for one in model["layers"] if one["phase"] == phase and one["measure"] == measure]
    return found[0] if found else None


@pytest.fixture
def slow_job(simulate):
    """Eight ranks, of which one is slow."""
    return simulate("sim", "--ranks", 8, "--steps", 60, faults=[FAULT])


# The page

def test_a_page_has_all_sections(report, slow_job):
    page = report("sim")
    assert page.sections() == SECTIONS
    assert page.empty_sections() == {}
    assert "rank 3" in page.contents["verdict"].lower()
    for name in SECTIONS[1:-2]:
        assert f'<section id="{name}">' in page.text and "<figure" in page.text.split(f'<section id="{name}">')[1].split("</section>")[0]


def test_nothing_refers_to_a_network(report, slow_job):
    page = report("sim")
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style"
            if name in ("src", "href", "action", "srcset", "data"):
                assert value.startswith(("#", "data:image/png;base64,")), (tag, value[:50])
    assert "url(" not in page.text.replace("url(#hatch)", "")
    assert "@import" not in page.text
    outside = page.text.replace("http://www.w3.org/2000/svg", "")
    outside = outside if not any(not attributes for attributes, _ in page.scripts) else re.sub(r"<script>.*</script>", "", outside, flags=re.DOTALL)
    assert not re.search(r"https?:", outside)


def test_the_policy_forbids_all_but_what_the_page_has(report, slow_job):
    page = report("sim")
    policy, = (attributes["content"] for tag, attributes in page.elements
               if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    style, = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert rules["style-src"] == f"'sha256-{digest}'"
    bundles = [text for attributes, text in page.scripts if not attributes]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in bundles]
    assert rules.get("script-src", "").split() == hashes


def test_pictures_are_well_formed_and_described(report, slow_job):
    space = "{http://www.w3.org/2000/svg}"
    pictures = [svg for svg in report("sim").svgs() if svg.get("role") == "img"]
    assert len(pictures) >= 9
    for svg in pictures:
        title, description = svg.find(f"{space}title"), svg.find(f"{space}desc")
        assert title.text and description.text
        assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        for image in svg.iter(f"{space}image"):
            png = base64.b64decode(image.get("href").removeprefix("data:image/png;base64,"), validate=True)
            assert png.startswith(b"\x89PNG\r\n\x1a\n") and png.endswith(b"IEND\xaeB`\x82")


def pixels_of(svg):
    """Rows of palette indices of the heat map in a picture, and the palette."""
    images = [image.get("href") for image in svg.iter("{http://www.w3.org/2000/svg}image")]
    png = base64.b64decode(images[-1].split(",")[1])
    chunks, at = {}, 8
    while at < len(png):
        size = int.from_bytes(png[at:at + 4], "big")
        kind, content = png[at + 4:at + 8], png[at + 8:at + 8 + size]
        assert zlib.crc32(kind + content) == int.from_bytes(png[at + 8 + size:at + 12 + size], "big")
        chunks[kind] = content
        at += 12 + size
    width, height = (int.from_bytes(chunks[b"IHDR"][i:i + 4], "big") for i in (0, 4))
    data = zlib.decompress(chunks[b"IDAT"])
    assert len(data) == height * (width + 1)
    return [list(data[row * (width + 1) + 1:(row + 1) * (width + 1)]) for row in range(height)], chunks[b"PLTE"]


def test_the_static_heat_map_has_a_bright_row_and_hatched_gaps(report, slow_job):
    path = slow_job.folder / "cuda_events_rank_6.jsonl"
    rows = [row for row in path.read_text().splitlines() if json.loads(row).get("step", 0) < 50]
    path.write_text("\n".join(rows) + "\n")
    pictures = {svg.find("{http://www.w3.org/2000/svg}title").get("id"): svg for svg in report("sim").svgs() if svg.get("role") == "img"}
    pixels, palette = pixels_of(pictures["heat-0-own-t"])
    assert (len(pixels), len(pixels[0])) == (8, 60)
    means = [sum(row) / len(row) for row in pixels]
    assert means.index(max(means)) == 3
    assert [index == 0 for index in pixels[6]] == [step >= 50 for step in range(60)]
    light = [sum(palette[3 * i:3 * i + 3]) for i in range(1, 256)]
    assert light[-1] > light[127] > light[0]


def test_ids_are_unique(report, slow_job):
    ids = [attributes["id"] for _, attributes in report("sim").elements if "id" in attributes]
    assert len(ids) == len(set(ids))


# What it says is what the other commands say.

def test_the_tables_are_those_of_summarize(cep, report, slow_job):
    page, summary = report("sim"), cep.summary("sim")
    lines = cep("summarize", "sim").stdout.decode()
    assert page.contents["verdict"].split("\n")[1] == lines.split("\n")[0]
    table, = (table for table in re.findall(r"<table>.*?</table>", page.text.split('<section id="phases">')[1], re.DOTALL)
              if re.search(r"<th[^>]*>([^<]*)</th>", table)[1] == "phase")
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
    rows = {row[0]: row for row in rows if row}
    assert sorted(rows) == sorted(phase["name"] for phase in summary["phases"])
    shown = {line.split()[0]: line.split() for line in lines.split("\n") if line.strip()}
    for phase in summary["phases"]:
        assert " ".join(rows[phase["name"]]).split() == shown[phase["name"]]
        assert int(rows[phase["name"]][3].replace(",", "")) == phase["count"]


def test_every_value_of_the_heat_map_is_that_of_the_rows(report, slow_job):
    model = report("sim").model()
    for name in ("forward", "training_step", "all_reduce"):
        layer = layer_of(model, name, "duration")
        level = layer["levels"][0]
        assert model["rank_bins"][level["ranks"]]["first"] == list(range(8))
        assert model["step_bins"][level["steps"]]["first"] == list(range(60))
        for values, truth in zip(decode(level["block"]), slow_job.durations(name)):
            assert values == pytest.approx(list(truth), rel=1e-3)
        means = [row[0] for row in decode(layer["by_rank"])]
        assert means == pytest.approx(list(slow_job.durations(name).mean(axis=1)), rel=1e-3)


def test_the_slow_rank_works_longest_and_waits_least(report, slow_job):
    model = report("sim").model()
    own, wait = ([row[0] for row in decode(layer_of(model, "training_step", measure)["by_rank"])] for measure in ("own", "wait"))
    assert own.index(max(own)) == wait.index(min(wait)) == 3
    assert model["blamed"] == [{"rank": 3, "phase": "forward", "first_step": 0, "last_step": 59}]
    slowness = model["ranks"]["slowness"]
    assert slowness.index(max(slowness)) == 3


def test_relative_work_is_a_multiple_of_the_median(report, slow_job):
    model = report("sim").model()
    values = decode(layer_of(model, "forward", "relative")["levels"][0]["block"])
    forward = slow_job.durations("forward")
    for rank in range(8):
        column = sorted(forward[:, 7])
        assert values[rank][7] == pytest.approx(forward[rank, 7] / ((column[3] + column[4]) / 2), rel=1e-3)


def elapsed_ms(simulation, rank):
    """From the first row to the last."""
    spans = [span for span in simulation.spans if span["rank"] == rank]
    first_ns = min([simulation.runs[rank]["start_unix_ns"]] + [span["start_ns"] for span in spans])
    return max((span["start_ns"] - first_ns) * 1e-6 + span["duration_ms"] for span in spans)


def test_parts_of_a_step_sum_to_it(report, slow_job):
    model = report("sim").model()
    names = [part["name"] for part in model["breakdown"]["parts"]]
    assert names[0] == "compute" and "waiting for other ranks" in names and names[-1] == "all the rest"
    assert len(model["breakdown"]["bars"]) == 3
    for bar in model["breakdown"]["bars"]:
        assert sum(bar["ms"]) == pytest.approx(bar["step_ms"], rel=1e-5)
        assert bar["step_ms"] == pytest.approx(elapsed_ms(slow_job, bar["rank"]) / 60, rel=1e-5)
    assert model["breakdown"]["bars"][0]["rank"] == 3


def test_the_waterfall_is_that_of_the_verdict(cep, report, slow_job):
    found, replay = report("sim").model()["whatif"], cep.summary("sim")["verdict"]["replay"]
    assert found["observed_ms"] == replay["observed_ms"] and found["ideal_ms"] == replay["ideal_ms"]
    left = found["replayed_ms"] - sum(loss["ms"] for loss in found["losses"])
    assert left == pytest.approx(found["ideal_ms"], rel=1e-9)


def test_bands_are_quantiles_over_ranks(report, slow_job):
    model = report("sim").model()
    band, = (one for one in model["bands"]["phases"] if model["phases"][one["phase"]]["name"] == "forward")
    forward = slow_job.durations("forward")
    for key, q in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("max", 1)):
        assert band[key] == pytest.approx(list(np.quantile(forward, q, axis=0)), rel=1e-4)
    assert band["max_rank"] == [int(rank) for rank in forward.argmax(axis=0)]


def test_fits_are_those_of_comm(cep, report, slow_job):
    model, = report("sim").model()["comm"]["models"]
    truth, = json.loads(cep("comm", "--json", "sim").stdout)["models"]
    assert (model["name"], model["alpha_us"], model["beta_gb_per_s"]) == (truth["name"], truth["fit"]["alpha_us"], truth["fit"]["beta_gb_per_s"])


def test_a_timeline_has_the_rows_of_its_ranks_and_joins_collectives(report, slow_job):
    line = report("sim").model()["timeline"]
    assert line["ranks"][0]["rank"] == 3
    step = line["steps"][0]
    spans = {key: line["spans"][key] for key in line["spans"]}
    phases = [phase["name"] for phase in report("sim").model()["phases"]]
    for span in (span for span in slow_job.spans if span["rank"] == 3 and span["step"] == step["step"]):
        start_ms = (span["start_ns"] - int(step["start_ns"])) * 1e-6
        found = [i for i, lane in enumerate(spans["lane"]) if line["lanes"][lane]["rank"] == 3 and spans["step"][i] == 0 and
                 phases[spans["phase"][i]] == span["name"] and abs(spans["start_ms"][i] - start_ms) < 1e-5]
        assert len(found) == 1
        assert spans["duration_ms"][found[0]] == pytest.approx(span["duration_ms"], rel=1e-8)
        joined = [i for i, join in enumerate(spans["join"]) if join == spans["join"][found[0]] and spans["step"][i] == 0]
        assert (len(joined) == len(line["ranks"])) if span["kind"] == "comm" else spans["join"][found[0]] == 0


def test_ranks_and_steps_of_the_timeline_can_be_chosen(report, cep, slow_job):
    line = report("--timeline-ranks", "6,1", "--timeline-steps", "10,12", "sim").model()["timeline"]
    assert [one["rank"] for one in line["ranks"]] == [6, 1]
    assert [one["step"] for one in line["steps"]] == [10, 12]
    none = report("--timeline-steps", "1000", "sim")
    assert "chosen" in none.empty_sections()["timeline"]
    assert b"--timeline-steps" in cep("report", "--timeline-steps", "a", "sim", status=2).stderr


def test_the_timeline_sets_the_clocks_of_hosts_right(report, simulate):
    simulate("sim", "--ranks", 8, "--ranks-per-host", 2, "--clock-skew-ms", 30)
    page = report("--timeline-ranks", "0,3,5,7", "sim")
    line = page.model()["timeline"]
    assert line["clocks_apart_ms"] > 5 and 0 < line["clock_error_ms"] < 0.05 and not line["each_from_zero"]
    spans = line["spans"]
    ends = {}
    for step, join, start, duration in zip(*(spans[key] for key in ("step", "join", "start_ms", "duration_ms"))):
        if join:
            ends.setdefault((step, join), []).append(start + duration)
    joined = [of_one for of_one in ends.values() if len(of_one) > 1]
    assert joined and max(max(of_one) - min(of_one) for of_one in joined) < 0.05
    assert "The clocks of the hosts are up to" in page.text and "by the clock of its host" in page.text


def test_two_jobs_are_compared(cep, report, simulate):
    simulate("before", "--ranks", 4, "--steps", 300)
    simulate("after", "--ranks", 4, "--steps", 300, "--event", '{"type":"slowdown_all","step":0,"slowdown":1.15}',
             "--seed", 5)
    page = report("--compare", "before", "after")
    assert page.sections() == SECTIONS[:1] + ["compare"] + SECTIONS[1:]
    truth = json.loads(cep("compare", "--json", "before", "after").stdout)
    rows = page.model()["compare"]["rows"]
    assert [row["name"] for row in rows] == [truth["step"]["name"]] + [phase["name"] for phase in truth["phases"]]
    for row, change in zip(rows, [truth["step"], *truth["phases"]]):
        assert (row["change"], row["outcome"], row["a_ms"]) == (change["change"], change["finding"], change["a"]["mean_ms"])
    assert "more time in B" in page.contents["compare"]
    assert "compare" not in report("after").model()


# Names from files

HOSTILE = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", '"onload="alert(1)', "'><b>", "&lt;&amp;", "]]>",
           "a\u202eb\u2066c", "\u0007\u001b[31m", "--><!--", "\ufffe\uffff"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(report, cep, job, name):
    for rank in range(3):
        rows = [run_row(rank, world_size=3, host=name)]
        for step in range(12):
            start_ns = START_NS + step * 10**9
            rows += [span_row(rank, step, name, 5.0 + rank, start_ns),
                     span_row(rank, step, "x" + name, 2.0, start_ns + 6_000_000, kind="comm", group=name, coll=step, bytes=100 + step),
                     span_row(rank, step, "training_step", 9.0, start_ns, kind="step", depth=0),
                     {"type": "mark", "name": name, "step": step, "rank": rank, "start_ns": start_ns},
                     {"type": "counter", "name": f"memory.{name}_bytes", "step": step, "rank": rank, "value": 5, "start_ns": start_ns}]
        job.write(rank, rows)
    page = report("--compare", "job", "job")
    plain = report("--compare", "job", "job")
    assert page.data == plain.data
    tags = {tag for tag, _ in page.elements}
    assert tags <= {"html", "head", "meta", "title", "style", "body", "svg", "defs", "pattern", "rect", "path", "header", "h1", "h2", "h3",
                    "p", "main", "section", "div", "ul", "li", "nav", "a", "figure", "figcaption", "desc", "text", "image", "circle",
                    "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "footer", "script"}
    assert {attribute for _, attributes in page.elements for attribute in attributes if attribute.startswith("on")} == set()
    assert all(attributes == {} or attributes == {"type": "application/json", "id": "cep-data"} for attributes, _ in page.scripts)
    page.svgs()
    for letter in "\u202e\u2066\u0007\u001b":
        assert letter not in page.text
    names = [phase["name"] for phase in page.model()["phases"]]
    if name.isprintable() and "\u202e" not in name:
        assert name in names
        assert name in page.contents["phases"]


# Large jobs

def test_a_file_is_no_larger_than_asked(report, cep, simulate, tmp_path):
    simulate("sim", "--ranks", 48, "--steps", 80)
    whole = report("sim")
    for limit in (len(whole.data) // 2, len(whole.data) * 4 // 5):
        done = cep("report", "-o", "small.html", "--max-bytes", limit, "sim")
        small = Page((tmp_path / "small.html").read_bytes())
        assert len(small.data) <= limit
        assert small.sections() == SECTIONS
        assert b"heat" in done.stderr or b"left out" in done.stderr
    message = cep("report", "-o", "none.html", "--max-bytes", 1000, "sim", status=2).stderr
    assert b"--max-bytes" in message
    assert not (tmp_path / "none.html").exists()


def flat_job(job, ranks, steps, slow_cell):
    for rank in range(ranks):
        job.write(rank, [{"name": "training_step", "step": step, "rank": rank, "kind": "step",
                          "duration_ms": 500.0 if (rank, step) == slow_cell else 100.0 + (rank * 7 + step * 3) % 5}
                         for step in range(steps)])
    return job


@pytest.mark.parametrize("more", [[], ["--max-samples", "1000"]], ids=["kept", "read-again"])
def test_one_slow_cell_of_a_big_job_stays_visible(report, job, more):
    flat_job(job, 600, 20, (577, 13))
    model = report("--max-bytes", 200_000, *more, "job").model()
    layer = layer_of(model, "training_step", "duration")
    level = layer["levels"][0]
    rows, columns = model["rank_bins"][level["ranks"]], model["step_bins"][level["steps"]]
    assert len(rows["first"]) < 600
    values = decode(level["block"])
    large = [(row, column) for row, line in enumerate(values) for column, value in enumerate(line) if value > 400]
    (row, column), = large
    assert rows["first"][row] <= 577 <= rows["last"][row]
    assert columns["first"][column] <= 13 <= columns["last"][column]
    assert model["left_out"]


def test_more_durations_than_are_kept_still_make_a_heat_map(report, simulate):
    sim = simulate("sim", "--ranks", 8, "--steps", 40)
    page = report("--max-samples", 100, "sim")
    forward = decode(layer_of(page.model(), "forward", "duration")["levels"][0]["block"])
    for values, truth in zip(forward, sim.durations("forward")):
        assert values == pytest.approx(list(truth), rel=1e-3)
    assert "breakdown" not in page.empty_sections(), "it is of the steps that were kept"


def test_a_merged_file_gives_the_same_heat_map(cep, report, simulate):
    simulate("sim", "--ranks", 4, "--steps", 20, "--micro-batches", 4)
    cep("merge", "-o", "merged.jsonl", "sim")
    for more in ([], ["--max-samples", "50"]):
        apart, merged = (report(*more, path).model() for path in ("sim", "merged.jsonl"))
        assert apart["layers"] == merged["layers"]


# What is missing is said.

def test_a_job_of_one_rank_and_one_step(report, job):
    job.write(0, [span_row(0, 1, "forward", 5.0, START_NS)])
    page = report("job")
    assert page.sections() == SECTIONS
    assert {"waits", "whatif", "comm", "memory"} <= set(page.empty_sections())


def test_rows_without_start_times_steps_and_collectives(report, job):
    for rank in range(4):
        job.write(rank, [{"name": "forward", "step": step, "rank": rank, "duration_ms": 5.0} for step in range(30)])
    empty = report("job").empty_sections()
    assert "start times" in empty["timeline"]
    assert empty["comm"] == "No communication is timed."
    assert "counter" in empty["memory"]


@pytest.mark.parametrize("durations", [[0.0], [1e-300, 1e300], [0.0, 1e308], [1e-6, 3.0, 1e9]])
def test_extreme_times_make_a_page(report, job, durations):
    for rank in range(3):
        rows = []
        for step in range(12):
            duration_ms = durations[(rank + step) % len(durations)]
            start_ns = [-2**63 + 1, 0, 2**62][rank] + step
            rows += [span_row(rank, step, "forward", duration_ms, start_ns),
                     span_row(rank, step, "all_reduce", duration_ms, start_ns, kind="comm", coll=step, group="dp", bytes=2**62),
                     span_row(rank, step, "training_step", duration_ms, start_ns, kind="step", depth=0)]
        job.write(rank, rows)
    page = report("job")
    assert page.sections() == SECTIONS
    page.svgs()
    page.model()
    for what in ("nan", "inf"):
        assert f'="{what}' not in page.text and f" {what}" not in "".join(re.findall(r' d="[^"]*"', page.text))


def test_missing_ranks_are_named(report, simulate):
    simulate("sim", "--ranks", 6, "--steps", 20, "--missing-ranks", "2,4")
    page = report("sim")
    assert "4 of 6 ranks" in page.text
    assert "No rows of ranks 2, 4." in page.contents["heat"]


def test_only_some_phases(report, slow_job):
    page = report("--phases", "forward", "sim")
    assert "breakdown" not in page.empty_sections()
    assert "heat" not in page.empty_sections()


def test_a_job_without_spans(report, job):
    job.write(0, [run_row(0)])
    page = report("job")
    assert {"heat", "bands", "waits", "breakdown", "timeline"} <= set(page.empty_sections())


def test_damaged_files_make_a_page(report, four_ranks):
    four_ranks.write(0, [], tail=b'{"name":"forw')
    four_ranks.write(1, [], tail=b"nonsense\n")
    page = report("job")
    assert "rank" in page.contents["verdict"].lower()
    assert "1 file cut off" in page.text and "1 row skipped" in page.text


def test_steps_that_a_rank_did_not_record_have_no_own_work(report, simulate):
    sim = simulate("sim", "--ranks", 6, "--steps", 40)
    path = sim.folder / "cuda_events_rank_2.jsonl"
    rows = [row for row in path.read_text().splitlines() if '"step":' not in row or json.loads(row).get("step", 0) < 25]
    path.write_text("\n".join(rows) + "\n")
    model = report("sim").model()
    for measure in ("own", "wait", "duration", "relative"):
        values = decode(layer_of(model, "training_step", measure)["levels"][0]["block"])
        assert [value is None for value in values[2]] == [step >= 25 for step in range(40)]
        assert None not in values[3]


def test_standard_input_is_read_once(cep, slow_job, tmp_path):
    merged = cep.merged("sim")
    page = Page(cep("report", "-", stdin=merged).stdout)
    assert not {"comm", "heat"} & set(page.empty_sections())


def test_a_named_pipe_is_read_once(cep, slow_job, tmp_path):
    """Who opens it again waits for a writer that does not come."""
    pipe = tmp_path / "job.jsonl"
    merged = cep.merged("sim")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(merged,), daemon=True)
    writer.start()
    page = Page(cep("report", pipe.name).stdout)
    writer.join()
    assert not {"comm", "heat"} & set(page.empty_sections())


# The command

def test_it_says_what_it_wrote(cep, slow_job, tmp_path):
    done = cep("report", "-o", "report.html", "sim")
    assert done.stdout == b""
    assert b"wrote report.html" in done.stderr and b"at most 8.4 MB" in done.stderr
    assert (tmp_path / "report.html").read_bytes() == cep("report", "sim").stdout


def test_the_same_input_gives_the_same_page(cep, slow_job):
    assert cep("report", "-j", 1, "sim").stdout == cep("report", "-j", 4, "sim").stdout


def test_outputs_that_are_inputs_are_refused(cep, four_ranks):
    before = four_ranks.path(0).read_bytes()
    cep("report", "-o", four_ranks.path(0), "job", status=2)
    cep("report", "-o", "cuda_events_rank_9.jsonl", "job", status=2)
    cep("report", "-o", four_ranks.path(0), "--compare", "job", four_ranks.path(1), status=2)
    assert four_ranks.path(0).read_bytes() == before


def test_exit_statuses(cep, job, four_ranks, tmp_path):
    (tmp_path / "empty").mkdir()
    assert b"no rows" in cep("report", "-o", "r.html", "empty", status=3).stderr
    assert not (tmp_path / "r.html").exists()
    cep("report", "-o", "r.html", status=2)
    assert b"in A" in cep("report", "-o", "r.html", "--compare", "empty", "job", status=3).stderr
    cep("report", "-o", "r.html", "--compare", "-", "-", status=2)
    assert not (tmp_path / "r.html").exists()
    cep("report", "-o", "no/such/folder/r.html", "job", status=5)
    four_ranks.write(0, [], tail=b'{"name":"forw')
    cep("report", "-o", "r.html", "--strict", "job", status=4)
    assert (tmp_path / "r.html").exists()
