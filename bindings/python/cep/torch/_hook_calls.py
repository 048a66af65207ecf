# SPDX-License-Identifier: Apache-2.0
"""What hooks call on recorded steps: the extension module's classes, or the plain ones where that is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._binding import native

if TYPE_CHECKING or native is None:
    from ._plain_calls import (
        AsyncSpan,
        BackwardCalls,
        BucketFunction,
        BucketTimer,
        ForwardCalls,
        Indices,
        SideStream,
        connect_torch,
        end_done_spans,
        expected_callbacks,
    )
else:
    AsyncSpan, BackwardCalls, BucketFunction = native.AsyncSpan, native.BackwardCalls, native.BucketFunction
    BucketTimer, ForwardCalls, Indices = native.BucketTimer, native.ForwardCalls, native.Indices
    SideStream, connect_torch = native.SideStream, native.connect_torch
    end_done_spans, expected_callbacks = native.end_done_spans, native.expected_callbacks

times_buckets = native is not None
"""Whether there is a BucketTimer."""

__all__ = [
    "AsyncSpan",
    "BackwardCalls",
    "BucketFunction",
    "BucketTimer",
    "ForwardCalls",
    "Indices",
    "SideStream",
    "connect_torch",
    "end_done_spans",
    "expected_callbacks",
    "times_buckets",
]
