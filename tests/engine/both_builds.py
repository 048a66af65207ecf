# SPDX-License-Identifier: Apache-2.0
"""Runs the command that CEP_COMMAND names and, where CEP_SECOND_COMMAND names another build of it, this too: the same
arguments give the same status, texts and files. So one run of the tests tries a build with sanitizers beside the one that
users have, and makes its inputs once."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path


def programs():
    return [*filter(None, (os.environ["CEP_COMMAND"], os.environ.get("CEP_SECOND_COMMAND")))]


def contents_of(path):
    files = [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]
    return {str(file.relative_to(path)): file.read_bytes() if file.is_file() else None for file in files if file.exists()}


def copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    elif source.exists():
        shutil.copy2(source, target)


class Output:
    """A file or folder that a command writes: put aside after the first run, so that the second finds what that found."""

    def __init__(self, path, folder):
        self.path, self.before, self.written = path, folder / "before", folder / "written"
        folder.mkdir()
        copy(path, self.before)

    def put_aside(self):
        if self.path.exists():
            shutil.move(self.path, self.written)
        copy(self.before, self.path)

    def compare(self):
        """Leaves what the first run wrote."""
        assert contents_of(self.path) == contents_of(self.written), f"two builds write different {self.path}"
        if self.path.is_dir():
            shutil.rmtree(self.path)
        elif self.path.exists():
            self.path.unlink()
        if self.written.exists():
            shutil.move(self.written, self.path)


def is_movable(path):
    """No device, and no file of two names."""
    if path.exists():
        return path.is_dir() or (path.is_file() and path.stat().st_nlink == 1)
    return path.parent.is_dir()


def outputs_of(arguments, cwd, folder):
    paths = [Path(cwd or ".", value).resolve() for option, value in zip(arguments, arguments[1:])
             if option in ("-o", "--output") and value != "-"]
    return [Output(path, folder / str(number)) for number, path in enumerate(paths) if is_movable(path)]


def said_of(done):
    """Without the lines that tell how far a slow run is."""
    return done.returncode, done.stdout, re.sub(rb"(?m)^cep: .* at [\d.]+ \w+/s\n", b"", done.stderr)


def run_command(arguments, *, cwd=None, **more):
    """What the first program says."""
    arguments = [*map(str, arguments)]

    def run(program):
        return subprocess.run([program, *arguments], capture_output=True, timeout=120, cwd=cwd, check=False, **more)

    first, *second = programs()
    if not second:
        return run(first)
    with tempfile.TemporaryDirectory() as folder:
        outputs = outputs_of(arguments, cwd, Path(folder))
        done = run(first)
        for output in outputs:
            output.put_aside()
        again = run(second[0])
        assert said_of(again) == said_of(done), "two builds differ"
        for output in outputs:
            output.compare()
    return done
