# SPDX-License-Identifier: Apache-2.0
"""A phase of the trainer that hooks begin and end."""

from __future__ import annotations

from .._region import Region
from ._hook_calls import OpenSpans


class NotFinished(Exception):
    """The ``error`` of a row whose phase began and has no end that was seen, because the code in it raised."""


class Phase(OpenSpans):
    """The open spans of one region, at most one for each key (a thread, or None for the whole process)."""

    __slots__ = ()

    def __init__(self, region: Region) -> None:
        super().__init__(region, NotFinished)
