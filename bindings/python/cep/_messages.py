# SPDX-License-Identifier: Apache-2.0
"""Messages to a user. None raises, whatever has become of standard error."""

from __future__ import annotations

import contextlib
import sys
import warnings

_told: set[str] = set()


def say(message: str, who: str = "cep run") -> None:
    """Writes a line to standard error, which is no part of a script's output."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # there is no stderr any more
        print(f"{who}: {message}", file=sys.stderr, flush=True)


def warn(message: str) -> None:
    """Failures are warnings: a profiler must not end a job that does its work."""
    with contextlib.suppress(RuntimeWarning):  # raised where warnings are errors
        warnings.warn(f"cep: {message}", RuntimeWarning, stacklevel=3)


def tell_mistake(rank: int, kind: str, message: str) -> None:
    """Tells a user of a mistake, and how to mend it, once for each kind in a process, and on rank 0 alone: all ranks make the
    same mistake."""
    if rank == 0 and kind not in _told:
        _told.add(kind)
        say(message, "cep")
