# SPDX-License-Identifier: Apache-2.0
"""cep report: one page that needs no network and no script, and the data in it."""

import base64
import hashlib
import html
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
SVG = "{http://www.w3.org/2000/svg}"
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

    def pictures(self):
        return {svg.find(f"{SVG}title").get("id").removesuffix("-t"): svg for svg in self.svgs() if svg.get("role") == "img"}

    def tracks(self, section):
        """The bars of a section: for each its label, its parts as {title: percent}, and the text behind it."""
        inside = self.text.split(f'<section id="{section}">')[1].split("</section>")[0]
        bars = re.findall(r'<span class="name">(.*?)<small>.*?</span><svg class="track"[^>]*>(.*?)</svg><span class="value">(.*?)</span>', inside)
        return [(html.unescape(label), {html.unescape(title): float(width) for width, title in
                                        re.findall(r'width="([\d.]+)%"[^>]*><title>(.*?)</title>', parts)}, html.unescape(value))
                for label, parts, value in bars]

    def model(self):
        found, = (text for attributes, text in self.scripts if attributes.get("id") == "cep-data")
        return json.loads(found)


@pytest.fixture
def report(cep, tmp_path):
    def run(*arguments, **more):
        cep("report", "-o", "report.html", *arguments, **more)
        return Page((tmp_path / "report.html").read_bytes())
    return run


def decode(model, layer):
    """Values by row and column; None where there is none. A code stands for a range of 1/254 of the logarithms."""
    codes = zlib.decompress(base64.b64decode(layer["data"], validate=True))
    columns = len(model["steps"]["first"])
    assert len(codes) == columns * len(model["rows"]["rank"])
    low, high = layer["range"]
    values = [low * (high / low) ** ((code - 1) / 254) if code else None for code in codes]
    return [values[row:row + columns] for row in range(0, len(values), columns)]


def layer_of(model, phase, measure="as recorded"):
    found, = (one for one in model["layers"] if (one["phase"], one["measure"]) == (phase, measure))
    return found


def by_rank(model, phase, measure="as recorded"):
    """The values of each rank, where each has a row of its own."""
    return dict(zip(model["rows"]["rank"], decode(model, layer_of(model, phase, measure))))


def is_near(values, truth, layer):
    """As near as 8 bits are."""
    low, high = layer["range"]
    return values == pytest.approx(list(truth), rel=(high / low) ** (1 / 254) - 1)


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
    assert page.text.count("<title>simulated-") == 1 and "<h1>simulated-" in page.text, "the name of the run"
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
    assert len(pictures) >= 6
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


def test_the_first_heat_map_has_one_row_that_stands_out_on_a_neutral_ground(report, slow_job):
    path = slow_job.folder / "cuda_events_rank_6.jsonl"
    rows = [row for row in path.read_text().splitlines() if json.loads(row).get("step", 0) < 50]
    path.write_text("\n".join(rows) + "\n")
    page = report("sim")
    pixels, palette = pixels_of(page.pictures()["heat-map"])
    assert (len(pixels), len(pixels[0])) == (8, 60)
    assert page.model()["rows"]["rank"] == [3, 0, 1, 2, 4, 5, 6, 7], "the slow rank comes first"
    assert page.model()["rows"]["blamed"][:2] == [1, 0]
    assert min(pixels[0]) > 128, "far beyond the median"
    assert sum(index > 1 for row in pixels[1:] for index in row) <= 2, "what the others differ is noise"
    assert [index == 0 for index in pixels[6]] == [step >= 50 for step in range(60)], "hatched gaps"
    light = [sum(palette[3 * i:3 * i + 3]) for i in range(1, 256)]
    assert light[0] > light[127] > light[-1]


def test_the_heat_map_of_a_healthy_job_is_neutral(report, simulate):
    simulate("sim", "--ranks", 16, "--steps", 100)
    page = report("sim")
    pixels, _ = pixels_of(page.pictures()["heat-map"])
    assert sum(index > 1 for row in pixels for index in row) <= 2
    assert page.model()["rows"]["rank"] == list(range(16))
    assert "none does" in page.contents["heat"]


def test_of_three_ranks_the_longer_one_has_a_colour(report, job):
    for rank in range(3):
        job.write(rank, [{"name": "forward", "step": step, "rank": rank, "duration_ms": 5.0 + 10 * rank} for step in range(20)])
    page = report("job")
    pixels, _ = pixels_of(page.pictures()["heat-map"])
    assert page.model()["rows"]["rank"] == [2, 0, 1] and min(pixels[0]) > 1 and {index for row in pixels[1:] for index in row} == {1}
    assert "none does" not in page.contents["heat"] and "0 hosts" not in page.text


def test_a_stage_with_more_work_stands_out(report, simulate):
    simulate("sim", "--ranks", 16, "--pp", 4, "--steps", 60, "--stage-weights", "1,1,1.35,1")
    page = report("sim")
    assert "How sure: replayed from its rows, a step takes as long as it did" in page.contents["verdict"]
    model = page.model()
    assert sorted(model["rows"]["rank"][:4]) == [rank for rank, blamed in sorted(zip(model["rows"]["rank"], model["rows"]["blamed"])) if blamed]
    assert all(value > model["layers"][0]["low"] for row in decode(model, model["layers"][0])[:4] for value in row)


def test_a_phase_has_the_same_colour_on_every_page(report, simulate):
    """In jobs with other phases too."""
    simulate("a", "--ranks", 4, "--steps", 30)
    simulate("b", "--ranks", 8, "--pp", 2, "--steps", 30)
    colors = [dict(re.findall(r'<rect class="part (k-\S+ v\d)"[^>]*><title>(\w+): ', report(job).text.split('id="spans-0"')[1])[::-1])
              for job in ("a", "b")]
    colors = [{name: color for color, name in one.items()} for one in colors]
    assert set(colors[0]) & set(colors[1]) >= {"forward", "backward", "optimizer"}
    for name in set(colors[0]) & set(colors[1]):
        assert colors[0][name] == colors[1][name]


def test_ids_are_unique(report, slow_job):
    ids = [attributes["id"] for _, attributes in report("sim").elements if "id" in attributes]
    assert len(ids) == len(set(ids))


# What it says is what the other commands say.

def test_the_tables_are_those_of_summarize(cep, report, slow_job):
    page, summary = report("sim"), cep.summary("sim")
    lines = cep("summarize", "sim").stdout.decode()
    assert page.contents["verdict"].replace("\u00a0", " ").split("\n")[1] == lines.split("\n")[0]
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
    assert model["steps"]["first"] == model["steps"]["last"] == list(range(60))
    for name in ("forward", "training_step", "all_reduce"):
        values = by_rank(model, name)
        assert sorted(values) == list(range(8))
        for rank, truth in enumerate(slow_job.durations(name)):
            assert is_near(values[rank], truth, layer_of(model, name))


def test_the_slow_rank_works_longest_and_waits_least(report, slow_job):
    model = report("sim").model()
    own, wait = (by_rank(model, "training_step", measure) for measure in ("own work", "waiting for other ranks"))
    assert max(own, key=lambda rank: sum(own[rank])) == min(wait, key=lambda rank: sum(wait[rank])) == 3


def test_the_first_view_is_own_work_beyond_the_median(report, slow_job):
    model = report("sim").model()
    assert (model["layers"][0]["phase"], model["layers"][0]["measure"]) == ("training_step", "own work beyond the median")
    forward = slow_job.durations("forward")
    beyond, layer = by_rank(model, "forward", "own work beyond the median"), layer_of(model, "forward", "own work beyond the median")
    assert is_near(beyond[3], forward[3] - np.median(forward, axis=0), layer)
    assert layer["high"] >= max(beyond[3]) * 0.99, "the scale does not end below the slow rank"
    assert sum(value > layer["low"] for rank in range(8) if rank != 3 for value in beyond[rank]) <= 2, "noise has no colour"


def test_how_sure_the_headline_is_stands_beside_it(report, simulate, slow_job):
    assert "How sure: almost certain" in report("sim").contents["verdict"]
    simulate("healthy", "--ranks", 8, "--steps", 60)
    assert "How sure" not in report("healthy").contents["verdict"]


def test_figures_that_the_headline_does_not_rest_on_stand_apart(report, slow_job):
    page = report("sim")
    minor, = re.findall(r'<p class="minor">(.*?)</p>', page.text)
    assert "MFU" in minor
    assert "MFU" not in page.text.split("<h3>Why</h3>")[1].split("</ul>")[0]


def test_numbers_and_units_stay_together(report, slow_job):
    text = re.sub(r"<(style|script).*?</\1>", "", report("sim").text, flags=re.DOTALL)
    assert not re.search(r"\d (ms|µs|s|%|GB|MB|GB/s)\b", re.sub(r"<[^>]*>", "", text))
    assert "\u00a0ms" in text


def elapsed_ms(simulation, rank):
    """From the first row to the last."""
    spans = [span for span in simulation.spans if span["rank"] == rank]
    first_ns = min([simulation.runs[rank]["start_unix_ns"]] + [span["start_ns"] for span in spans])
    return max((span["start_ns"] - first_ns) * 1e-6 + span["duration_ms"] for span in spans)


def number_in(text):
    """Of milliseconds."""
    value, unit = re.match(r"([\d.,]+)\u00a0(µs|ms|s)", text).groups()
    return float(value.replace(",", "")) * {"µs": 1e-3, "ms": 1, "s": 1e3}[unit]


def test_the_first_bar_is_where_the_time_of_the_job_went(cep, report, slow_job):
    bars = report("sim").tracks("breakdown")
    assert [label for label, _, _ in bars][:2] == ["the job", "rank 3 (node0)"] and len(bars) == 4
    for _, parts, value in bars:
        assert sum(parts.values()) == pytest.approx(100, abs=0.5)
        assert sum(number_in(title.split(": ")[1]) for title in parts) == pytest.approx(number_in(value), rel=1e-3)
    share, = (one["share"] for one in cep.summary("sim")["ledger"]["pieces"] if one["piece"] == "compute")
    compute, = (float(re.search(r"\(([\d.]+)", title)[1]) for title in bars[0][1] if title.startswith("compute: "))
    assert compute == pytest.approx(100 * share, abs=0.06)
    assert number_in(bars[1][2]) == pytest.approx(elapsed_ms(slow_job, 3) / 60, rel=1e-3)


def test_the_waterfall_is_that_of_the_verdict(cep, report, slow_job):
    bars, replay = report("sim").tracks("whatif"), cep.summary("sim")["verdict"]["replay"]
    values = {label: number_in(value) for label, _, value in bars if re.match(r"\d", value)}
    assert values["observed"] == pytest.approx(replay["observed_ms"], rel=1e-3)
    assert values["ideal: all ranks even"] == pytest.approx(replay["ideal_ms"], rel=1e-3)


def test_what_if_is_not_drawn_where_the_replay_does_not_hold(report, job, cep):
    for rank in range(4):
        job.write(rank, [span for step in range(30) for span in (
            span_row(rank, step, "forward", 5.0, START_NS + step * 10**9 + (step % 3) * 10**7),
            span_row(rank, step, "all_reduce", 2.0, START_NS + step * 10**9 + 6_000_000, kind="comm", coll=step, group="dp"))])
    page, replay = report("job"), cep.summary("job")["verdict"]["replay"]
    assert (replay is None or not replay["holds"]) == ("whatif" in page.empty_sections())


def test_bands_are_values_of_ranks(report, slow_job):
    """The nearest rank: 8 ranks have no value between two of them."""
    model = report("sim").model()
    band, = (one for one in model["bands"]["phases"] if one["phase"] == "forward")
    forward = slow_job.durations("forward")
    for key, q in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("max", 1)):
        assert band[key] == pytest.approx(list(np.quantile(forward, q, axis=0, method="inverted_cdf")), rel=1e-3)
    assert band["rank"] == [int(rank) for rank in forward.argmax(axis=0)]


def test_the_scale_of_a_phase_reaches_a_rank_that_is_slow_for_many_steps(report, simulate):
    simulate("sim", "--ranks", 8, "--steps", 100, faults=[
        {"rank": 5, "phase": "data_load", "excess_ms": 100, "first_step": 30, "last_step": 90}])
    page = report("sim")
    texts = [text.text for text in page.pictures()["bands-map"].iter(f"{SVG}text")]
    at = next(i for i, text in enumerate(texts) if text.startswith("data_load: "))
    assert "100\u00a0ms" in texts[at - 3:at], texts[at - 3:at]


def test_fits_are_those_of_comm(cep, report, slow_job):
    truth, = json.loads(cep("comm", "--json", "sim").stdout)["models"]
    assert f"{truth['fit']['alpha_us']:.1f}\u00a0µs" in report("sim").contents["comm"]


def test_one_size_of_messages_makes_no_chart(report, job):
    for rank in range(4):
        job.write(rank, [span_row(rank, step, "all_reduce", 2.0 + rank, START_NS + step * 10**9, kind="comm", coll=step, group="dp", bytes=1000)
                         for step in range(20)])
    page = report("job")
    assert "comm-fit" not in page.pictures() and "same size" in page.contents["comm"]


def spans_of(page, step=0):
    """The spans of a step in the order of the picture: (name, begins at, duration, height)."""
    picture = page.pictures()[f"timeline-{step}"]
    group, = (one for one in picture.iter(f"{SVG}g") if one.get("id") == f"spans-{step}")
    left, _, right, _ = map(float, group.get("data-box").split())
    ms_a_pixel = float(group.get("data-ms")) / (right - left)
    return [(rect.find(f"{SVG}title").text.split(": ")[0], (float(rect.get("x")) - left) * ms_a_pixel, float(rect.get("width")) * ms_a_pixel,
             float(rect.get("y"))) for rect in group.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]


def labels_of(page, step=0):
    return [text.text for text in page.pictures()[f"timeline-{step}"].iter(f"{SVG}text")]


def test_the_timeline_has_the_rows_of_the_slow_rank_and_of_those_that_wait_for_it(report, slow_job):
    page = report("sim")
    labels, spans = labels_of(page), spans_of(page)
    ranks = [int(label.split()[1]) for label in labels if re.fullmatch(r"rank \d+", label)]
    assert ranks[0] == 3 and "waits longest" in labels
    step = int(next(label for label in labels if label.startswith("Step ")).split()[1])
    rows = [span for span in slow_job.spans if span["step"] == step and span["rank"] in ranks and span["kind"] != "step"]
    origin_ns = min(span["start_ns"] for span in slow_job.spans if span["step"] == step and span["rank"] in ranks)
    assert len(spans) == len(rows)
    for span in rows:
        start_ms = (span["start_ns"] - origin_ns) * 1e-6
        assert any(name == span["name"] and begin == pytest.approx(start_ms, abs=0.02) and length == pytest.approx(max(span["duration_ms"], length if length < 0.2 else 0), abs=0.03)
                   for name, begin, length, _ in spans), span
    waits = {rank: sum(span["duration_ms"] for span in rows if span["rank"] == rank and span["kind"] == "comm") for rank in ranks}
    assert max(waits, key=waits.get) == ranks[1]


def test_ranks_and_steps_of_the_timeline_can_be_chosen(report, cep, slow_job):
    page = report("--timeline-ranks", "6,1", "--timeline-steps", "10,12", "sim")
    assert [label for label in labels_of(page, 1) if re.fullmatch(r"rank \d+", label)] == ["rank 6", "rank 1"]
    assert ["Step 10" in labels_of(page, 0), "Step 12" in labels_of(page, 1)] == [True, True]
    none = report("--timeline-steps", "1000", "sim")
    assert "chosen" in none.empty_sections()["timeline"]
    assert b"--timeline-steps" in cep("report", "--timeline-steps", "a", "sim", status=2).stderr


def test_memory_is_shown_as_difference_from_the_median(report, job):
    for rank in range(8):
        job.write(rank, [run_row(rank, world_size=8), *({"type": "counter", "name": name, "step": step, "rank": rank, "value": value, "start_ns": START_NS}
                         for step in range(4) for name, value in (("memory.peak_allocated_bytes", 60e9 + (rank == 5) * 6e9), ("memory.device_bytes", 68e9))),
                         *(span_row(rank, step, "forward", 5.0, START_NS + step * 10**9) for step in range(4))])
    page = report("job")
    tips = [rect.find(f"{SVG}title").text for rect in page.pictures()["memory-map"].iter(f"{SVG}rect")]
    assert [tip.split(": ")[0] for tip in tips if "+6.0\u00a0GB from the median" in tip] == ["rank 5 (node1)"]
    assert "capacity of the device: 8.0\u00a0GB above the median" in page.contents["memory"]


def test_the_timeline_sets_the_clocks_of_hosts_right(report, simulate):
    simulate("sim", "--ranks", 8, "--ranks-per-host", 2, "--clock-skew-ms", 30)
    page = report("--timeline-ranks", "0,3,5,7", "sim")
    apart, error = re.search(r"up to (.+?) apart.*to within (.+?) in 9", page.contents["timeline"]).groups()
    assert number_in(apart) > 5 and number_in(error) < 0.05
    ends = [[float(end) for end in re.findall(r"[ML]([\d.]+)", path.get("d"))] for path in page.pictures()["timeline-0"].iter(f"{SVG}path")
            if path.get("class") == "join"]
    assert ends and max(max(of_one) - min(of_one) for of_one in ends) <= 1, "the parts of a collective end together"
    assert "The clocks of the hosts are up to" in page.text and "by the clock of its host" in page.text


def test_two_jobs_are_compared(cep, report, simulate):
    simulate("before", "--ranks", 4, "--steps", 300)
    simulate("after", "--ranks", 4, "--steps", 300, "--event", '{"type":"slowdown_all","step":0,"slowdown":1.15}',
             "--seed", 5)
    page = report("--compare", "before", "after")
    assert page.sections() == SECTIONS[:1] + ["compare"] + SECTIONS[1:]
    truth = json.loads(cep("compare", "--json", "before", "after").stdout)
    labels = [text.text for text in page.pictures()["compare-map"].iter(f"{SVG}text")]
    for change in [truth["step"], *truth["phases"]]:
        at = labels.index(change["name"])
        assert labels[at + 1].startswith(f"{100 * change['change']:+.1f}\u00a0%")
    assert "more time in B" in page.contents["compare"]
    assert "compare" not in report("after").sections()


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
                    "g", "span", "small", "b", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "footer", "script"}
    assert {attribute for _, attributes in page.elements for attribute in attributes if attribute.startswith("on")} == set()
    assert all(attributes == {} or attributes == {"type": "application/json", "id": "cep-data"} for attributes, _ in page.scripts)
    page.svgs()
    for letter in "\u202e\u2066\u0007\u001b":
        assert letter not in page.text
    names = [layer["phase"] for layer in page.model()["layers"]]
    if name.isprintable() and "\u202e" not in name:
        assert name in names
        assert name in page.contents["phases"]


# Large jobs

def test_a_file_is_no_larger_than_asked(report, cep, simulate, tmp_path):
    simulate("sim", "--ranks", 48, "--steps", 80)
    whole = report("sim")
    for limit in (len(whole.data) * 2 // 3, len(whole.data) * 4 // 5):
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


def test_one_slow_cell_of_a_big_job_stays_visible(report, job):
    flat_job(job, 600, 20, (577, 13))
    model = report("job").model()
    values = decode(model, layer_of(model, "training_step"))
    assert len(values) == 512
    (row, column), = [(row, column) for row, line in enumerate(values) for column, value in enumerate(line) if value > 400]
    assert (model["rows"]["label"][row], column) == ("577", 13), "it is slow enough for a row of its own"
    assert sum("–" in label for label in model["rows"]["label"]) > 80, "others share rows"


def test_more_durations_than_are_kept_make_a_heat_map_of_some_steps(report, simulate):
    sim = simulate("sim", "--ranks", 8, "--steps", 400)
    page = report("--max-samples", 1000, "sim")
    model = page.model()
    steps = model["steps"]["first"]
    assert 10 < len(steps) < 100 and f"{len(steps)} of 400 steps, chosen by a hash" in page.text
    values, truth = by_rank(model, "forward"), sim.durations("forward")
    for rank in range(8):
        assert is_near(values[rank], [truth[rank][step] for step in steps], layer_of(model, "forward"))
    assert "breakdown" not in page.empty_sections()


def test_a_merged_file_gives_the_same_heat_map(cep, report, simulate):
    simulate("sim", "--ranks", 4, "--steps", 20, "--micro-batches", 4)
    cep("merge", "-o", "merged.jsonl", "sim")
    for more in ([], ["--max-samples", "200"]):
        apart, merged = (report(*more, path).model() for path in ("sim", "merged.jsonl"))
        assert apart["layers"] == merged["layers"]


# What is missing is said.

def test_a_job_of_one_rank_and_one_step(report, job):
    job.write(0, [span_row(0, 1, "forward", 5.0, START_NS)])
    page = report("job")
    assert page.sections() == SECTIONS
    assert {"heat", "waits", "whatif", "comm", "memory"} <= set(page.empty_sections())
    assert 'id="cep-data"' not in page.text, "a heat map of one rank says nothing"


def test_one_rank_is_compared_with_nobody(report, simulate):
    simulate("sim", "--ranks", 1, "--steps", 60)
    page = report("sim")
    empty = page.empty_sections()
    assert empty["heat"].startswith("One rank has no others") and empty["waits"] == "One rank has no others to wait for."
    for words in ("Line: median rank", "wide band", "What is joined", "others wait", "own work"):
        assert words not in page.contents["bands"] + page.contents["timeline"] + page.contents["breakdown"], words
    assert "To keep the file small" not in page.text


def test_a_step_span_beside_the_other_phases_is_a_phase(report, job):
    """As trainers time them: a copy, then the training step, then the metrics."""
    phases = [("host_to_device", "data", 1.2), ("training_step", "step", 3.6), ("training_metrics", "host", 10.2)]
    for rank in range(4):
        rows, now = [], START_NS
        for step in range(40):
            for name, kind, ms in phases:
                rows.append(span_row(rank, step, name, ms, now, kind=kind, depth=0))
                now += round(ms * 1e6)
        job.write(rank, rows)
    page = report("job")
    assert "training_step: median 3.600\u00a0ms" in page.contents["bands"]
    assert "whole step: median 15.00\u00a0ms" in page.contents["bands"]
    assert [name for name, *_ in phases[1:]] == [name for name in ("training_step", "training_metrics") if name in page.contents["timeline"]]
    assert page.empty_sections()["whatif"].startswith("No communication could be matched"), "not what 0 % of it would replay to"


def test_dots_that_lie_together_share_a_name(report, simulate):
    simulate("sim", "--ranks", 16, "--pp", 4, "--steps", 60, "--stage-weights", "1,1,1.35,1")
    names = [text for text in report("sim").pictures()["waits-map"].iter(f"{SVG}text") if "bad" in text.get("class")]
    assert 0 < len(names) < 4 and all(text.text.startswith("rank") for text in names)
    places = [(float(text.get("x")), float(text.get("y"))) for text in names]
    assert not any(abs(x - other_x) < 60 and abs(y - other_y) < 12
                   for at, (x, y) in enumerate(places) for other_x, other_y in places[:at]), places


def test_operations_in_one_picture_have_different_colours(report, simulate):
    simulate("sim", "--ranks", 16, "--pp", 4, "--steps", 60)
    picture = report("sim").pictures()["comm-fit"]
    colours = [rect.get("class") for rect in picture.iter(f"{SVG}rect") if rect.get("class").startswith("part")]
    assert len(colours) == 2 and len(set(colours)) == 2, colours


def test_what_gains_nothing_says_so(report, slow_job):
    values = {label: value for label, _, value in report("sim").tracks("whatif")}
    assert values["without uneven transfers"] == "no difference", values
    assert values["without uneven ranks"].startswith("-")


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
    for measure in ("own work", "waiting for other ranks", "as recorded", "own work beyond the median"):
        values = by_rank(model, "training_step", measure)
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
