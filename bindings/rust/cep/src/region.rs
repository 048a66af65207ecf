// SPDX-License-Identifier: Apache-2.0

use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut};

use crate::error::{check, Error};
use crate::{Attributes, Stream};

/// The kind of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Infer it from the words of the name ("all_reduce": comm).
    Auto = cep_sys::CEP_KIND_AUTO as isize,
    /// A whole training step.
    Step = cep_sys::CEP_KIND_STEP as isize,
    /// Work on the device: forward, backward, optimizer.
    Compute = cep_sys::CEP_KIND_COMPUTE as isize,
    /// A collective or point-to-point transfer between ranks.
    Comm = cep_sys::CEP_KIND_COMM as isize,
    /// Input: data loading, host to device copies.
    Data = cep_sys::CEP_KIND_DATA as isize,
    /// Device memory traffic: copies, fills, offloading.
    Memory = cep_sys::CEP_KIND_MEMORY as isize,
    /// Host work: logging, metrics, checkpointing.
    Host = cep_sys::CEP_KIND_HOST as isize,
    /// None of these.
    Other = cep_sys::CEP_KIND_OTHER as isize,
}

/// A named phase of a profiler. A handle, cheap to copy; any number of threads may use it at once.
///
/// ```
/// # fn forward_pass() {}
/// # let profiler = cep::Profiler::off();
/// let forward = profiler.region("forward", cep::Kind::Auto)?;
/// let span = forward.begin(cep::Stream::DEFAULT);
/// forward_pass();
/// span.end();
/// # Ok::<(), cep::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Region {
    profiler: *mut cep_sys::cep_profiler,
    native: *mut cep_sys::cep_region,
}

// SAFETY: regions are valid for the life of the process, and every function accepts them from any thread.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) const OFF: Region = Region { profiler: null_mut(), native: null_mut() };

    pub(crate) fn from_native(profiler: *mut cep_sys::cep_profiler, native: *mut cep_sys::cep_region) -> Region {
        Region { profiler, native }
    }

    /// Begins a span, which ends when it is dropped. Records nothing if the step is not recorded.
    #[inline]
    pub fn begin(self, stream: Stream) -> Span {
        // SAFETY: NULL or valid for the life of the process; Stream::from_raw() demands a valid stream.
        Span::new(self, unsafe { cep_sys::cep_begin(self.native, stream.as_raw()) }, stream)
    }

    /// [`Region::begin`] with attributes. If they are invalid the span has none, and is counted in
    /// [`Stats::dropped_meta`](crate::Stats::dropped_meta).
    #[inline]
    pub fn begin_with(self, stream: Stream, attributes: &Attributes<'_>) -> Span {
        // SAFETY: as for begin().
        if unsafe { cep_sys::cep_recording(self.profiler) } == 0 {
            return Span::new(self, cep_sys::CEP_SPAN_NONE, stream);
        }
        let native = attributes.with_native(|attributes| {
            // SAFETY: as for begin(); the attributes are copied.
            unsafe { cep_sys::cep_begin_with(self.native, stream.as_raw(), attributes) }
        });
        Span::new(self, native, stream)
    }

    /// Calls a function and times it as a span on the default stream. If it panics, the row gets the error "panic".
    ///
    /// ```
    /// # let profiler = cep::Profiler::off();
    /// let loaded = profiler.region("data_load", cep::Kind::Auto)?.time_on(cep::Stream::HOST, || vec![1, 2, 3]);
    /// let sum: i32 = profiler.region("forward", cep::Kind::Auto)?.time(|| loaded.iter().sum());
    /// # assert_eq!(sum, 6);
    /// # Ok::<(), cep::Error>(())
    /// ```
    #[inline]
    pub fn time<Output>(self, body: impl FnOnce() -> Output) -> Output {
        self.time_on(Stream::DEFAULT, body)
    }

    /// [`Region::time`] on another stream.
    #[inline]
    pub fn time_on<Output>(self, stream: Stream, body: impl FnOnce() -> Output) -> Output {
        let _span = self.begin(stream);
        body()
    }

    /// Adds a span to the current step that was timed elsewhere, if that step is recorded. Its start is a UNIX time in
    /// nanoseconds; 0: now minus the duration.
    pub fn record(self, start_ns: i64, duration_ns: i64) -> Result<(), Error> {
        // SAFETY: NULL or valid for the life of the process.
        check(unsafe { cep_sys::cep_record(self.native, start_ns, duration_ns, null()) })
    }

    /// [`Region::record`] with attributes.
    pub fn record_with(self, start_ns: i64, duration_ns: i64, attributes: &Attributes<'_>) -> Result<(), Error> {
        check(attributes.with_native(|attributes| {
            // SAFETY: NULL or valid for the life of the process; the attributes are copied.
            unsafe { cep_sys::cep_record(self.native, start_ns, duration_ns, attributes) }
        }))
    }

    /// The C handle, for calls of `cep-sys`; NULL if the profiler is off.
    pub fn as_raw(self) -> *mut cep_sys::cep_region {
        self.native
    }
}

/// A span, from [`Region::begin`] until it is ended or dropped, on any thread. If a panic drops it, its row gets the
/// error "panic".
///
/// A span ends on the stream that it began on, unless [`Span::end_on`] names another.
///
/// ```
/// # let profiler = cep::Profiler::off();
/// # let forward = profiler.region("forward", cep::Kind::Auto)?;
/// # let backward = profiler.region("backward", cep::Kind::Auto)?;
/// let span = forward.begin(cep::Stream::DEFAULT);
/// let span = span.switch_to(backward); // one event ends forward and begins backward
/// std::thread::spawn(move || span.end()).join().unwrap();
/// # Ok::<(), cep::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a span that is not stored in a variable ends at once"]
pub struct Span {
    region: Region,
    native: cep_sys::cep_span,
    stream: Stream,
    begun_in_panic: bool,
}

impl Span {
    #[inline]
    fn new(region: Region, native: cep_sys::cep_span, stream: Stream) -> Span {
        // The end of an unrecorded span does not use the flag.
        let begun_in_panic = native != cep_sys::CEP_SPAN_NONE && std::thread::panicking();
        Span { region, native, stream, begun_in_panic }
    }

    /// Ends the span now.
    #[inline]
    pub fn end(self) {
        let stream = self.stream;
        self.end_on(stream);
    }

    /// Ends the span on another stream.
    #[inline]
    pub fn end_on(self, stream: Stream) {
        let span = ManuallyDrop::new(self);
        // SAFETY: the region is NULL or valid for the life of the process; Stream::from_raw() demands a valid stream.
        unsafe { cep_sys::cep_end(span.region.native, span.native, stream.as_raw()) }
    }

    /// Ends the span with attributes. Each replaces the same attribute from the begin. If they are invalid, the span
    /// still ends, without them.
    pub fn end_with(self, attributes: &Attributes<'_>) -> Result<(), Error> {
        let span = ManuallyDrop::new(self);
        if span.native == cep_sys::CEP_SPAN_NONE {
            return Ok(());
        }
        check(span.end_native_with(attributes))
    }

    /// Ends the span and begins one of another region on the same stream with one event: N back-to-back phases cost
    /// N + 1 records instead of 2 N. None, or a region of [`crate::Profiler::off`], only ends the span.
    #[inline]
    pub fn switch_to(self, region: impl Into<Option<Region>>) -> Span {
        let region = region.into().unwrap_or(Region::OFF);
        let span = ManuallyDrop::new(self);
        // SAFETY: as for end_on().
        let native = unsafe { cep_sys::cep_switch(span.native, region.native, span.stream.as_raw()) };
        Span::new(region, native, span.stream)
    }

    /// Whether the span is recorded.
    #[inline]
    pub fn recorded(&self) -> bool {
        self.native != cep_sys::CEP_SPAN_NONE
    }

    fn end_native_with(&self, attributes: &Attributes<'_>) -> i32 {
        attributes.with_native(|attributes| {
            // SAFETY: as for end_on(); the attributes are copied.
            unsafe { cep_sys::cep_end_with(self.region.native, self.native, self.stream.as_raw(), attributes) }
        })
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.native == cep_sys::CEP_SPAN_NONE {
            return;
        }
        if std::thread::panicking() && !self.begun_in_panic {
            self.end_native_with(&Attributes::new().error("panic"));
        } else {
            // SAFETY: as for end_on().
            unsafe { cep_sys::cep_end(self.region.native, self.native, self.stream.as_raw()) }
        }
    }
}
