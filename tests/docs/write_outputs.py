#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes into the pages of the guide what their commands print now: in the blocks of console that are marked as exact.

    CEP_COMMAND=build/tools/cep GUIDE_BUILD_DIRECTORY=build python3 tests/docs/write_outputs.py docs/guide/verdict.md
"""

import sys
import tempfile
from pathlib import Path

from blocks import Block, blocks_of
from scene import Scene


def printed(block: Block, scene: Scene) -> list[str]:
    lines = []
    for command, _ in block.commands():
        first, *others = command.splitlines()
        lines += [f"$ {first}", *(f"> {line}" for line in others)]
        lines += [line.rstrip() for line in scene.shell(command).stdout.splitlines()]
    return lines


def main() -> None:
    for page in map(Path, sys.argv[1:]):
        lines = page.read_text(encoding="utf-8").splitlines()
        with tempfile.TemporaryDirectory() as folder:
            scene = Scene(Path(folder))
            new = [(block, printed(block, scene)) for block in blocks_of(page) if "exact" in block.markers]
        for block, output in reversed(new):
            lines[block.line : block.line + len(block.text.splitlines())] = output
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
