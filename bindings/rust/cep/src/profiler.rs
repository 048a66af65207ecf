// SPDX-License-Identifier: Apache-2.0

use std::mem::{size_of, MaybeUninit};
use std::ptr::{null, null_mut};
use std::time::Duration;

use crate::error::{check, Code, Error};
use crate::region::{Kind, Region};
use crate::text::{long_text, Name};
use crate::{Options, Stats, Stream};

/// Timeout of a profiler that is dropped. It also suits most calls of [`close`](Profiler::close) and
/// [`flush`](Profiler::flush).
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// The profiler of one process of a job.
///
/// Any number of threads may call its methods at once. Dropping it closes it with [`DEFAULT_TIMEOUT`] and reports no
/// error; call [`close`](Profiler::close) to see errors. Regions and spans may outlive it; they then do nothing.
#[derive(Debug)]
pub struct Profiler {
    native: *mut cep_sys::cep_profiler,
}

// SAFETY: any number of threads may call every function of libcep on one profiler at once.
unsafe impl Send for Profiler {}
// SAFETY: as above.
unsafe impl Sync for Profiler {}

impl Profiler {
    pub(crate) fn from_native(native: *mut cep_sys::cep_profiler) -> Profiler {
        Profiler { native }
    }

    /// A profiler that is off: every call does nothing. With it a job can train on if opening failed:
    ///
    /// ```
    /// # let options = cep::Options::new().record_every_n_steps(0);
    /// let profiler = options.open().unwrap_or_else(|error| {
    ///     eprintln!("not profiled: {error}");
    ///     cep::Profiler::off()
    /// });
    /// # assert!(profiler.step(0).is_ok() && !profiler.recording());
    /// ```
    pub const fn off() -> Profiler {
        Profiler { native: null_mut() }
    }

    /// A profiler with the options from the environment: off unless that enables it.
    pub fn from_env() -> Result<Profiler, Error> {
        Options::from_env()?.open()
    }

    /// Ends recording, writes all finished spans, and closes the file. A second call does nothing.
    ///
    /// # Errors
    ///
    /// [`Code::ETIMEDOUT`] if that did not finish within the timeout; [`Profiler::stats`] counts what is lost.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        if self.native.is_null() {
            return Ok(());
        }
        // SAFETY: the handle is valid for the life of the process.
        check(unsafe { cep_sys::cep_close(self.native, milliseconds(timeout)) })
    }

    /// Writes out everything finished before the call. It is needed only if another program reads the file now.
    ///
    /// # Errors
    ///
    /// [`Code::ETIMEDOUT`] if that did not finish within the timeout.
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        if self.native.is_null() {
            return Ok(());
        }
        // SAFETY: the handle is valid for the life of the process.
        check(unsafe { cep_sys::cep_flush(self.native, milliseconds(timeout)) })
    }

    /// Whether this process is profiled: on, its rank listed, not closed, not a forked child.
    pub fn enabled(&self) -> bool {
        // SAFETY: NULL, or valid for the life of the process.
        unsafe { cep_sys::cep_enabled(self.native) != 0 }
    }

    /// This process's rank, from the options or the launcher; 0 for [`Profiler::off`].
    pub fn rank(&self) -> i32 {
        // SAFETY: as for enabled(). NULL gives a negative code.
        unsafe { cep_sys::cep_rank(self.native) }.max(0)
    }

    /// Adds facts about this rank to its `run` row, as a JSON object. cep_set_meta(3) lists the known keys.
    pub fn set_meta(&self, json: &str) -> Result<(), Error> {
        if self.native.is_null() {
            return Ok(());
        }
        // SAFETY: the handle is valid for the life of the process; the text is copied.
        check(unsafe { cep_sys::cep_set_meta(self.native, long_text(json).as_ptr()) })
    }

    /// The counts so far; all 0 if the profiler is off.
    pub fn stats(&self) -> Result<Stats, Error> {
        if self.native.is_null() {
            return Ok(Stats::default());
        }
        // SAFETY: zero is a valid value of every field; the size tells the library how much it may write.
        let native = unsafe {
            let mut native = MaybeUninit::<cep_sys::cep_stats>::zeroed().assume_init();
            native.struct_size = size_of::<cep_sys::cep_stats>() as u32;
            check(cep_sys::cep_get_stats(self.native, &mut native))?;
            native
        };
        Ok(native.into())
    }

    /// The phase of that name, created the first time. Call it once per phase, outside the step loop. The first call
    /// sets the kind.
    pub fn region(&self, name: &str, kind: Kind) -> Result<Region, Error> {
        if self.native.is_null() {
            return Ok(Region::OFF);
        }
        // SAFETY: the handle is valid for the life of the process; the name is copied.
        let native = unsafe { cep_sys::cep_region_get(self.native, Name::new(name).as_ptr(), kind as i32) };
        if native.is_null() {
            return Err(Error::last(Code::EINVAL));
        }
        Ok(Region::from_native(self.native, native))
    }

    /// Sets the current step. Steps may jump, repeat and go back.
    #[inline]
    pub fn step(&self, step: i64) -> Result<(), Error> {
        // SAFETY: NULL, or valid for the life of the process.
        check(unsafe { cep_sys::cep_step(self.native, step) })
    }

    /// Whether spans begun now are recorded.
    #[inline]
    pub fn recording(&self) -> bool {
        // SAFETY: NULL, or valid for the life of the process.
        unsafe { cep_sys::cep_recording(self.native) != 0 }
    }

    /// Sets the calling thread's current phase: ends the phase before it, if there is one, and begins the next with the
    /// same event. libcep keeps the phase, so phases chain across steps: N phases a step cost N records. A step that is
    /// not recorded ends the phase and begins none.
    ///
    /// # Errors
    ///
    /// [`Code::EINVAL`] if the region belongs to another profiler.
    #[inline]
    pub fn phase(&self, region: Region, stream: Stream) -> Result<(), Error> {
        // SAFETY: NULL, or valid for the life of the process; Stream::from_raw() demands a valid stream.
        check(unsafe { cep_sys::cep_phase(self.native, region.as_raw(), stream.as_raw()) })
    }

    /// Ends the calling thread's current phase, if it has one, in that stream.
    #[inline]
    pub fn end_phase(&self, stream: Stream) {
        // SAFETY: as for phase(); without a region the call cannot fail.
        unsafe { cep_sys::cep_phase(self.native, null_mut(), stream.as_raw()) };
    }

    /// Records a value (memory allocated, loss, queue length) in the current step, if that step is recorded. By
    /// convention names have their unit: "memory.allocated_bytes".
    pub fn counter(&self, name: &str, value: f64) -> Result<(), Error> {
        // SAFETY: NULL, or valid for the life of the process; the name is copied.
        check(unsafe { cep_sys::cep_counter(self.native, Name::new(name).as_ptr(), value) })
    }

    /// Records an event in the current step (checkpoint, evaluation, restart), sampled or not.
    pub fn mark(&self, name: &str) -> Result<(), Error> {
        // SAFETY: as for counter().
        check(unsafe { cep_sys::cep_mark(self.native, Name::new(name).as_ptr(), null()) })
    }

    /// [`Profiler::mark`] with a JSON object.
    pub fn mark_with(&self, name: &str, json: &str) -> Result<(), Error> {
        // SAFETY: as for counter(); the JSON is copied, too.
        check(unsafe { cep_sys::cep_mark(self.native, Name::new(name).as_ptr(), long_text(json).as_ptr()) })
    }

    /// The C handle, for calls of `cep-sys`; NULL if the profiler is off.
    pub fn as_raw(&self) -> *mut cep_sys::cep_profiler {
        self.native
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        let _ = self.close(DEFAULT_TIMEOUT);
    }
}

fn milliseconds(timeout: Duration) -> i64 {
    i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX)
}
