# SPDX-License-Identifier: Apache-2.0
"""The counts of a profiler."""

from __future__ import annotations

from typing import NamedTuple


class Stats(NamedTuple):  # the fields of cep_stats in their order
    """Counts since the profiler was opened. Every span begun on a recorded step ends up as written, in one of the
    dropped counts, in capture_skipped, in abandoned, or still open."""

    threads: int
    """Threads that have recorded."""
    recorded: int
    """Spans begun; times (add_span()), counters and marks accepted."""
    written: int
    """Those of them that are rows in the file."""
    dropped_ring: int
    """Lost: the thread's ring was full."""
    dropped_slots: int
    """Lost: too many spans open on a thread, too many threads, or a call by a signal handler within another call."""
    dropped_pool: int
    """Lost: no free CUDA event (pool_limit)."""
    dropped_file: int
    """Lost: max_file_bytes reached."""
    dropped_io: int
    """Lost: the file could not be written (disk full)."""
    dropped_meta: int
    """Spans written without their metadata or attributes: invalid, or no room. Not lost."""
    capture_skipped: int
    """Spans not timed because their stream was capturing a graph."""
    cuda_errors: int
    """CUDA calls that failed."""
    abandoned: int
    """Spans whose device work never finished before close."""
    open_spans: int
    """Spans begun and not yet ended."""
    bytes_written: int
    """Bytes appended to the file."""
    self_ns: int
    """CPU time of the library's threads, in nanoseconds."""
    pending: int
    """Not yet in the file: in rings, at the device, or waiting for the disk. 0 once closed."""
    trainer_ns: int
    """Estimate of the time that the trainer's threads spent in libcep's calls that recorded, in nanoseconds."""

    @property
    def lost(self) -> int:
        """Spans that are not in the file and never will be."""
        dropped = self.dropped_ring + self.dropped_slots + self.dropped_pool + self.dropped_file + self.dropped_io
        return dropped + self.capture_skipped + self.abandoned
