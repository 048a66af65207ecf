// SPDX-License-Identifier: Apache-2.0

/// Counts of a profiler since it was opened. Every span of a recorded step is in the end written, lost and counted by
/// cause, or still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Threads that have recorded.
    pub threads: u32,
    /// Spans begun, spans of [`Region::record`](crate::Region::record), counters and marks.
    pub recorded: u64,
    /// Those of them whose rows are in the file.
    pub written: u64,
    /// Lost: the thread's ring was full.
    pub dropped_ring: u64,
    /// Lost: too many spans open at once on a thread, or too many threads.
    pub dropped_slots: u64,
    /// Lost: no CUDA event was left.
    pub dropped_pool: u64,
    /// Lost: the file's limit was reached.
    pub dropped_file: u64,
    /// Lost: the file could not be written.
    pub dropped_io: u64,
    /// Not lost: recorded without their metadata or attributes, which were invalid or did not fit.
    pub dropped_meta: u64,
    /// Spans not timed because their stream was capturing a graph.
    pub capture_skipped: u64,
    /// CUDA calls that failed.
    pub cuda_errors: u64,
    /// Spans whose device work did not finish before close, or whose CUDA calls failed.
    pub abandoned: u64,
    /// Spans that have begun and not ended.
    pub open_spans: u64,
    /// Bytes appended to the file.
    pub bytes_written: u64,
    /// CPU time of the library's threads in nanoseconds.
    pub self_ns: u64,
    /// In rings, waiting for the device, or waiting for the disk. 0 once the profiler is closed.
    pub pending: u64,
    /// Estimate of the time that the trainer's threads spent in calls that recorded, in nanoseconds.
    pub trainer_ns: u64,
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
            trainer_ns: native.trainer_ns,
        }
    }
}
