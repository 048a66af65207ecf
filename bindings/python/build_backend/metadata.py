# SPDX-License-Identifier: Apache-2.0
"""The files of a wheel's .dist-info folder, from pyproject.toml."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Project:
    """The [project] table of pyproject.toml."""

    table: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.table["name"])

    @property
    def version(self) -> str:
        return str(self.table["version"])

    @property
    def dist_info(self) -> str:
        return f"{self.name}-{self.version}.dist-info"

    @property
    def data(self) -> str:
        return f"{self.name}-{self.version}.data"

    def wheel_text(self, tag: str) -> str:
        """The file WHEEL."""
        return f"Wheel-Version: 1.0\nGenerator: cep {self.version}\nRoot-Is-Purelib: false\nTag: {tag}\n"

    def files(self, source: Path) -> dict[str, str]:
        """The texts of all files except WHEEL and RECORD, by name."""
        return {
            "METADATA": self._core_metadata(source),
            "entry_points.txt": self._entry_points(),
            "LICENSE": (source / "LICENSE").read_text(encoding="utf-8"),
        }

    def _core_metadata(self, source: Path) -> str:
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {self.name}",
            f"Version: {self.version}",
            f"Summary: {self.table['description']}",
            f"License: {self.table['license']['text']}",
            f"Requires-Python: {self.table['requires-python']}",
            f"Keywords: {','.join(self.table['keywords'])}",
            *(f"Classifier: {classifier}" for classifier in self.table["classifiers"]),
            "Description-Content-Type: text/markdown",
        ]
        return "\n".join(lines) + "\n\n" + (source / str(self.table["readme"])).read_text(encoding="utf-8")

    def _entry_points(self) -> str:
        scripts = "".join(f"{name} = {target}\n" for name, target in self.table["scripts"].items())
        return f"[console_scripts]\n{scripts}"


def read(path: Path) -> Project:
    """The project that a pyproject.toml describes."""
    return Project(tomllib.loads(path.read_text(encoding="utf-8"))["project"])
