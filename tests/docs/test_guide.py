# SPDX-License-Identifier: Apache-2.0
"""The commands in the guide do what its pages say. Each page runs in a folder of its own, its blocks in their order."""

import pytest
from blocks import SHELL, Block, blocks_of, shown_as
from scene import REPOSITORY, Scene

GUIDE = REPOSITORY / "docs/guide"
PAGES = [page for page in sorted(GUIDE.glob("*.md")) if blocks_of(page)]


def save(block: Block, scene: Scene) -> None:
    name, _, source = block.markers["file"].partition(" from ")
    text = block.text
    if source:
        path, language = source.split()
        text = next(other.text for other in blocks_of(REPOSITORY / path) if other.language == language)
    (scene.folder / name).write_text(text, encoding="utf-8")


def check_output(block: Block, shown: list[str], output: str) -> None:
    for text in block.words("says", "|"):
        assert text in output, f"{block.place}: no “{text}” in:\n{output}"
    if "exact" in block.markers:
        assert shown_as(shown, output), f"{block.place}: shows another output than:\n{output}"


def run(block: Block, scene: Scene) -> None:
    for command, shown in block.commands():
        done = scene.shell(command)
        expected = int(block.markers.get("status", "0"))
        assert done.returncode == expected, f"{block.place}: status {done.returncode}:\n{command}\n{done.stdout}"
        check_output(block, shown, done.stdout)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_commands_of_page(page, tmp_path, note_not_run):
    with Scene(tmp_path) as scene:
        for block in blocks_of(page):
            is_saved = "file" in block.markers
            if is_saved:
                save(block, scene)
            if block.language not in SHELL or (is_saved and " from " not in block.markers["file"]):
                continue
            needs = block.words("needs", ",")
            missing = [what for what in needs if scene.lacks(what)]
            if "not run" in block.markers or missing:
                note_not_run(block.place, block.markers.get("not run", f"no {', '.join(missing)} here"))
                continue
            scene.provide(needs)
            run(block, scene)


def test_every_block_that_is_not_run_says_why():
    for page in PAGES:
        for block in blocks_of(page):
            assert block.markers.get("not run", "-"), f"{block.place}: not run, and no reason"


def test_every_block_of_a_shell_is_marked_as_one():
    """So that none is left out because of another name for the language."""
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language not in ("", "bash", "shell", "shell-session", "text"), f"{block.place}: which language?"
