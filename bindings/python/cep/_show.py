# SPDX-License-Identifier: Apache-2.0
"""show(): the summary and the report of a job in a notebook, made by the cep command."""

from __future__ import annotations

import copy
import html
import importlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from ._command import run_command

Input = Union[str, "os.PathLike[str]"]

_ERRORS: Mapping[int, type[Exception]] = {2: ValueError, 3: FileNotFoundError}  # by the command's status


def _check(done: subprocess.CompletedProcess[str]) -> None:
    """Raises what the command says."""
    if done.returncode != 0:
        message = done.stderr.strip() or f"cep ended with status {done.returncode}"
        raise _ERRORS.get(done.returncode, RuntimeError)(message)


class Shown:
    """What show() returns: the summary of a job. A notebook displays it as a page, a prompt as text.

    Attributes:
        messages: What the command said of the inputs, such as ranks that are missing; usually "".
    """

    def __init__(self, summary: Mapping[str, Any], by: str, inputs: Sequence[str], messages: str, height: int) -> None:
        self._summary = summary
        self._by, self._inputs = by, inputs
        self._height = height
        self._text: Optional[str] = None
        self._page: Optional[str] = None
        self.messages = messages

    def to_dict(self) -> dict[str, Any]:
        """All of it: what ``cep summarize --json`` prints (schema ``cep.summary/1``, see cep-summarize(1))."""
        return copy.deepcopy(dict(self._summary))

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The tables of the summary, each a list of rows: ``phases``, ``groups`` (with ``by``), ``stragglers``,
        ``causes``, ``runs``, ``marks``, ``counters`` and ``open_spans``."""
        verdict = self._summary.get("verdict") or {}
        found = {**self._summary, "stragglers": verdict.get("stragglers"), "causes": verdict.get("causes")}
        names = ("phases", "groups", "stragglers", "causes", "runs", "marks", "counters", "open_spans")
        return {name: copy.deepcopy(found.get(name) or []) for name in names}

    def to_pandas(self, table: Optional[str] = "phases") -> Any:
        """A table as a DataFrame. Imports pandas.

        Args:
            table: One of the names that tables() has. None: a dict of all.

        Raises:
            ImportError: There is no pandas.
            ValueError: There is no such table.
        """
        tables = self.tables()
        if table is not None and table not in tables:
            raise ValueError(f"no table {table!r}: it is one of {', '.join(tables)}")
        pandas = importlib.import_module("pandas")
        if table is not None:
            return pandas.DataFrame(tables[table])
        return {name: pandas.DataFrame(rows) for name, rows in tables.items()}

    @property
    def headline(self) -> str:
        """The verdict in a sentence or two; "" if there is none."""
        return str((self._summary.get("verdict") or {}).get("headline") or "")

    def __repr__(self) -> str:
        """What ``cep summarize`` prints; the headline where that has failed."""
        if self._text is None:
            done = run_command("summarize", "--color=never", f"--by={self._by}", *self._inputs)
            self._text = done.stdout if done.returncode == 0 else self.headline
        return "\n\n".join(part for part in (self._text.strip(), self.messages.strip()) if part)

    def _repr_html_(self) -> str:
        if self._page is None:
            self._page = self._report() or f"<pre>{html.escape(repr(self))}</pre>"
        return self._page

    def _report(self) -> Optional[str]:
        """The page of ``cep report`` in a frame of its own; None if the command has none, or has failed."""
        with tempfile.TemporaryDirectory(prefix="cep-") as folder:
            path = Path(folder) / "report.html"
            done = run_command("report", "-o", str(path), *self._inputs)
            if done.returncode != 0 or not path.exists():
                if "no command" not in done.stderr:
                    self.messages += done.stderr
                return None
            page = path.read_text(encoding="utf-8")
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="cep report" '
            f'style="width: 100%; height: {self._height}px; border: 0"></iframe>'
        )


def show(
    output: Union[Input, Sequence[Input]],
    *,
    steps: Optional[str] = None,
    ranks: Optional[str] = None,
    by: str = "phase",
    height: int = 800,
) -> Shown:
    """The summary of a job, for a notebook::

        cep.show("output")                       # the report, inline
        cep.show("output").to_pandas()           # the table of phases
        cep.show("output").to_dict()["verdict"]

    The cep command reads the files: the one in ``CEP_COMMAND``, else that of the package, else the first on PATH.

    Args:
        output: A directory, rank file, or quoted glob, or a sequence of these, as for cep(1).
        steps: Only steps ``"A:B"``.
        ranks: Only these ranks, such as ``"0,3-7"``.
        by: What the table ``groups`` has a line for: ``"rank"``, ``"host"`` or ``"step:N"``.
        height: Of the report in the notebook, in pixels.

    Returns:
        An object with ``to_dict()``, ``tables()``, ``to_pandas()``, ``headline`` and ``messages``.

    Raises:
        FileNotFoundError: There is no such input, or nothing readable in it; or there is no command.
        ValueError: An argument is invalid.
        RuntimeError: The command failed.
    """
    inputs = [output] if isinstance(output, (str, os.PathLike)) else list(output)
    if not inputs:
        raise ValueError("output: no input is named")
    filters = [f"--{name}={value}" for name, value in (("steps", steps), ("ranks", ranks)) if value is not None]
    # A name that begins with a hyphen is no option.
    names = [os.fspath(name) for name in inputs]
    paths = [os.path.join(".", name) if name.startswith("-") else name for name in names]
    done = run_command("summarize", "--json", f"--by={by}", *filters, *paths)
    _check(done)
    return Shown(json.loads(done.stdout), by, [*filters, *paths], done.stderr, height)
