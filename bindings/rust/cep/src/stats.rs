// SPDX-License-Identifier: Apache-2.0

/// Counts of a profiler since it was opened. Every span begun on a recorded step is in the end written, counted in one
/// of the causes here, or still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Threads that have recorded.
    pub threads: u32,
    /// Spans begun, times of [`Region::record`](crate::Region::record), counters and marks accepted.
    pub recorded: u64,
    /// Rows of these that are in the file.
    pub written: u64,
    /// Lost: the thread's ring was full.
    pub dropped_ring: u64,
    /// Lost: too many spans open at once on a thread, or too many threads.
    pub dropped_slots: u64,
    /// Lost: no CUDA event to be had.
    pub dropped_pool: u64,
    /// Lost: the file's limit was reached.
    pub dropped_file: u64,
    /// Lost: the file could not be written.
    pub dropped_io: u64,
    /// Spans written without their metadata or attributes: invalid, or no room. Not lost.
    pub dropped_meta: u64,
    /// Spans not timed because their stream was capturing a graph.
    pub capture_skipped: u64,
    /// CUDA calls that failed.
    pub cuda_errors: u64,
    /// Spans whose device work never finished before close.
    pub abandoned: u64,
    /// Spans begun and not ended now.
    pub open_spans: u64,
    /// Bytes appended to the file.
    pub bytes_written: u64,
    /// CPU time of the library's threads in nanoseconds.
    pub self_ns: u64,
    /// On the way to the file: in rings, at the device, or waiting for the disk. 0 once closed.
    pub pending: u64,
}

impl From<cep_sys::cep_stats> for Stats {
    fn from(native: cep_sys::cep_stats) -> Stats {
        Stats {
            threads: native.threads,
            recorded: native.recorded,
            written: native.written,
            dropped_ring: native.dropped_ring,
            dropped_slots: native.dropped_slots,
            dropped_pool: native.dropped_pool,
            dropped_file: native.dropped_file,
            dropped_io: native.dropped_io,
            dropped_meta: native.dropped_meta,
            capture_skipped: native.capture_skipped,
            cuda_errors: native.cuda_errors,
            abandoned: native.abandoned,
            open_spans: native.open_spans,
            bytes_written: native.bytes_written,
            self_ns: native.self_ns,
            pending: native.pending,
        }
    }
}
