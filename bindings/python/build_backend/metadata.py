# SPDX-License-Identifier: Apache-2.0
"""What a wheel is made of: the files of its .dist-info folder, from pyproject.toml, and its archive."""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The oldest time that zip has. A fixed time makes the same wheel of the same sources.
OLDEST_TIME = (1980, 1, 1, 0, 0, 0)
REGULAR_FILE = 0o100000


class Project:
    """The [project] table of the pyproject.toml in a folder."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._table = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        self.version = self._table["version"]
        self.name = f"{self._table['name']}-{self.version}"
        self.dist_info = f"{self.name}.dist-info"

    def wheel_text(self, tag: str) -> str:
        """The file WHEEL."""
        return f"Wheel-Version: 1.0\nGenerator: cep {self.version}\nRoot-Is-Purelib: false\nTag: {tag}\n"

    def files(self) -> dict[str, str]:
        """The texts of all files except WHEEL and RECORD, by name."""
        scripts = "".join(f"{name} = {target}\n" for name, target in self._table["scripts"].items())
        license_text = (self._source / "LICENSE").read_text(encoding="utf-8")
        return {
            "METADATA": self._core_metadata(),
            "entry_points.txt": f"[console_scripts]\n{scripts}",
            "LICENSE": license_text,
        }

    def _core_metadata(self) -> str:
        table = self._table
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {table['name']}",
            f"Version: {self.version}",
            f"Summary: {table['description']}",
            f"License: {table['license']['text']}",
            f"Requires-Python: {table['requires-python']}",
            f"Keywords: {','.join(table['keywords'])}",
            *(f"Classifier: {classifier}" for classifier in table["classifiers"]),
            "Description-Content-Type: text/markdown",
        ]
        return "\n".join(lines) + "\n\n" + (self._source / table["readme"]).read_text(encoding="utf-8")


class WheelFile(zipfile.ZipFile):
    """A wheel being written: a zip archive with a list of its files and their hashes, which goes into it last."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self._record = ""

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        entry = zipfile.ZipInfo(name, OLDEST_TIME)
        entry.external_attr = (REGULAR_FILE | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record += f"{name},sha256={digest},{len(content)}\n"

    def add_record(self, name: str) -> None:
        self.add(name, f"{self._record}{name},,\n".encode())
