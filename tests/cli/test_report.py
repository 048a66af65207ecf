# SPDX-License-Identifier: Apache-2.0
"""cep report: one page that needs no network and no script, and the data in it."""

import base64
import hashlib
import json
import re
import zlib

import numpy as np
import pytest
from conftest import START_NS, run_row, span_row
from report_pages import SECTIONS, SVG, by_rank, decode, is_near, layer_of, report, slow_job


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
    simulate("sim", "--ranks", 16, "--pp", 4, "--steps", 60, stage_weights=[1, 1, 1.35, 1])
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
    """The milliseconds of a text."""
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
    picture, forward = report("sim").pictures()["bands-map"], slow_job.durations("forward")
    band, = (group for group in picture.iter(f"{SVG}g")
             if any((text.text or "").startswith("forward: ") for text in group.iter(f"{SVG}text")))
    said = [re.split(r": median |, 10th to 90th percentile | to |, slowest: | with ", title.text) for title in band.iter(f"{SVG}title")]
    for place, q in ((1, 0.5), (2, 0.1), (3, 0.9), (5, 1)):
        values = [number_in(words[place]) for words in said]
        assert values == pytest.approx(list(np.quantile(forward, q, axis=0, method="inverted_cdf")), rel=1e-3)
    assert [int(words[4].split()[1]) for words in said] == [int(rank) for rank in forward.argmax(axis=0)]


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
    simulate("sim", "--ranks", 8, "--ranks-per-host", 2, clock_skew_ms=30)
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
