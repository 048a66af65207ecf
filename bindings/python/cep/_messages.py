# SPDX-License-Identifier: Apache-2.0
"""Messages on standard error that tell a user of a mistake, and how to mend it: once in a process, by rank 0 only."""

from __future__ import annotations

import sys

_told: set[str] = set()


def tell_mistake(rank: int, kind: str, message: str) -> None:
    """Writes a message, unless one of its kind has been written.

    Args:
        rank: This process's rank. All ranks make the same mistake, and only rank 0 tells of it.
        kind: What the mistake is, in a word.
        message: What is wrong, and what to do.
    """
    if rank != 0 or kind in _told:
        return
    _told.add(kind)
    try:
        print(f"cep: {message}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):  # there is no stderr any more
        pass
