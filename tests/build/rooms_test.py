# SPDX-License-Identifier: Apache-2.0
"""The rooms under tools/ use each other in one direction only, and only as their meson.build files say."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOMS = pathlib.Path(sys.argv[1])


def check(tools):
    result = subprocess.run([sys.executable, ROOMS, "--check", "--tools", tools], capture_output=True, text=True)
    return result.returncode, result.stdout


def copy_tools(folder):
    target = folder / "tools"
    shutil.copytree(ROOMS.parent, target, ignore=shutil.ignore_patterns("*.pyc", "__pycache__"))
    return target


def expect(condition, message):
    if not condition:
        sys.exit(f"rooms: {message}")


def expect_fault(what, words, change):
    """The check must fail, and name `words`, after change(tools)."""
    with tempfile.TemporaryDirectory() as folder:
        tools = copy_tools(pathlib.Path(folder))
        change(tools)
        status, output = check(tools)
        expect(status == 1 and words in output, f"{what} was not found:\n{output}")


def append(path, text):
    path.write_text(path.read_text() + text)


status, output = check(ROOMS.parent)
expect(status == 0, output)

expect_fault("an include that no arrow allows", "room 'read' uses 'model'",
             lambda tools: append(tools / "read" / "row.cpp", '#include "model/phase_series.hpp"\n'))
expect_fault("an include without its room", "'sample.hpp' is not ROOM/FILE",
             lambda tools: append(tools / "model" / "repeats.cpp", '#include "sample.hpp"\n'))
expect_fault("a circle", "in a circle",
             lambda tools: append(tools / "read" / "meson.build", "# model_dep\n"))
expect_fault("a room that is not entered", "tools/attic has sources",
             lambda tools: ((tools / "attic").mkdir(), (tools / "attic" / "old.cpp").write_text("")))
