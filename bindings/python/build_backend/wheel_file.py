# SPDX-License-Identifier: Apache-2.0
"""Writing a wheel: a zip archive with a list of its files and their hashes."""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Optional

# The oldest time that zip has. A fixed time makes the same wheel of the same sources.
OLDEST_TIME = (1980, 1, 1, 0, 0, 0)
REGULAR_FILE = 0o100000


class WheelFile:
    """A wheel being written; its RECORD is added at the end of the `with` block."""

    def __init__(self, path: Path, dist_info: str) -> None:
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self._record_name = f"{dist_info}/RECORD"
        self._record: list[str] = []

    def __enter__(self) -> WheelFile:
        return self

    def __exit__(
        self,
        error: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._write(self._record_name, "\n".join([*self._record, f"{self._record_name},,", ""]).encode(), 0o644)
        self._archive.close()

    def add(self, path: Path, name: str) -> None:
        """Adds a file, and keeps whether it is executable."""
        self._add(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)

    def add_text(self, name: str, text: str) -> None:
        self._add(name, text.encode(), 0o644)

    def _add(self, name: str, content: bytes, mode: int) -> None:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={digest},{len(content)}")
        self._write(name, content, mode)

    def _write(self, name: str, content: bytes, mode: int) -> None:
        entry = zipfile.ZipInfo(name, OLDEST_TIME)
        entry.external_attr = (REGULAR_FILE | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self._archive.writestr(entry, content)
