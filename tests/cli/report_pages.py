# SPDX-License-Identifier: Apache-2.0
"""Pages that `cep report` made, as their tests read them."""

import base64
import html
import json
import re
import xml.etree.ElementTree as ElementTree
import zlib
from html.parser import HTMLParser

import pytest
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
