# SPDX-License-Identifier: Apache-2.0
"""The blocks of commands in the guide's pages, with what the comments above them say.

    <!-- not run: REASON -->     cannot run in a test
    <!-- needs: WHAT, WHAT -->   skipped where one of these is missing
    <!-- says: TEXT | TEXT -->   the output has each of these
    <!-- status: N -->           the exit status, 0 without it
    <!-- exact -->               the output is what the block shows; a line with … alone stands for any lines
    <!-- file: NAME -->          the block is not run but saved under that name
    <!-- file: NAME from PAGE LANGUAGE -->   the first such block of another file is saved under that name
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

SHELL = ("sh", "console")
MARKERS = ("not run", "needs", "says", "status", "exact", "file")


@dataclass
class Block:
    page: str
    line: int
    language: str
    text: str
    markers: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    def words(self, marker: str, separator: str) -> list[str]:
        return [word.strip() for word in self.markers.get(marker, "").split(separator) if word.strip()]

    def commands(self) -> list[tuple[str, list[str]]]:
        """Each command with the output that the block shows for it. In a block of sh, all is one command."""
        if self.language == "sh":
            return [(self.text, [])]
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> ") and found and not found[-1][1]:
                found[-1] = (found[-1][0] + "\n" + line[2:], [])
            else:
                found[-1][1].append(line)
        return found


def marker_of(line: str, place: str) -> tuple[str, str]:
    name, _, value = line.removeprefix("<!--").removesuffix("-->").strip().partition(":")
    if name not in MARKERS:
        raise ValueError(f"{place}: no such marker: {name}")
    return name, value.strip()


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in their order, those of other languages too."""
    found, markers, current = [], {}, None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"^```(?:\{code-block\} )?(\S*)", line)
        if current is not None:
            if line == "```":
                found.append(current)
                current, markers = None, {}
            elif not current.text and re.match(r"^:\w+:", line):
                current.line = number  # an option of the block
            else:
                current.text += line + "\n"
        elif fence:
            current = Block(page.name, number, fence[1], "", markers)
        elif line.startswith("<!--"):
            name, value = marker_of(line, f"{page.name}:{number}")
            markers[name] = value
        elif line:
            if markers:
                raise ValueError(f"{page.name}:{number}: {', '.join(markers)}: no block follows")
    return found


def shown_as(expected: list[str], output: str) -> bool:
    """Whether the output is what a block shows, where a line … stands for any lines."""
    pattern = "".join("(?:.*\n)*?" if line == "…" else re.escape(line.rstrip()) + "\n" for line in expected)
    lines = "".join(line.rstrip() + "\n" for line in output.splitlines())
    return re.fullmatch(pattern, lines) is not None
