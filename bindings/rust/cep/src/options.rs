// SPDX-License-Identifier: Apache-2.0

use std::ffi::CString;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::{check, Code, Error};
use crate::text::long_text;
use crate::Profiler;

/// The rows and keys to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// All of cep-jsonl(5).
    Full = cep_sys::CEP_LAYOUT_FULL as isize,
    /// Span rows with the four core keys only.
    Flat = cep_sys::CEP_LAYOUT_FLAT as isize,
    /// Span rows with all of their keys, and metadata at top level.
    Spans = cep_sys::CEP_LAYOUT_SPANS as isize,
}

/// The clock for spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// CUDA events if the calling thread has a CUDA context, else the host clock.
    Auto = cep_sys::CEP_BACKEND_AUTO as isize,
    /// The host clock only; the library does not search for CUDA.
    Host = cep_sys::CEP_BACKEND_HOST as isize,
}

/// What to record, and where. Each call overrides earlier ones. [`open`](Options::open) reports invalid values.
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("cep-options-{}", std::process::id()));
/// let profiler = cep::Options::new()
///     .directory(&directory)
///     .rank(3)
///     .world_size(8)
///     .start_step(1000)
///     .end_step(2000)
///     .meta(r#"{"dp":1,"tp":1}"#)
///     .open()?;
/// # drop(profiler);
/// # std::fs::remove_dir_all(&directory).unwrap();
/// # Ok::<(), cep::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Options {
    native: cep_sys::cep_options,
    // The memory that native points to.
    directory: CString,
    run_id: CString,
    capture_range: CString,
    meta: CString,
    ranks: Vec<i32>,
    problem: Option<Error>,
}

// SAFETY: the pointers are to memory that the struct owns, and only its own methods write to it.
unsafe impl Send for Options {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Options {}

impl Options {
    /// Enabled, with the defaults. Does not read the `CEP_` variables, as [`Options::default`] and [`Options::from_env`] do.
    pub fn new() -> Options {
        let mut native = MaybeUninit::<cep_sys::cep_options>::zeroed();
        // SAFETY: zero is a valid value of every field, and the size is that of the struct.
        let (native, code) = unsafe {
            let code = cep_sys::cep_options_init(native.as_mut_ptr(), size_of::<cep_sys::cep_options>() as u32);
            (native.assume_init(), code)
        };
        Options {
            native,
            directory: CString::default(),
            run_id: CString::default(),
            capture_range: CString::default(),
            meta: CString::default(),
            ranks: Vec::new(),
            problem: check_version().and_then(|()| check(code)).err(),
        }
    }

    /// The options from the environment: off unless `CEP_ENABLE` or `CEP_CONFIG` enables the profiler.
    pub fn from_env() -> Result<Options, Error> {
        Options::new().load_env()
    }

    /// Loads the `CEP_` variables. The first load sets `enable` to false unless the configuration says otherwise.
    pub fn load_env(mut self) -> Result<Options, Error> {
        // SAFETY: new() initialised it. Other threads may change the environment only as std::env allows.
        check(unsafe { cep_sys::cep_options_load_env(&mut self.native) })?;
        Ok(self)
    }

    /// Loads a JSON object, given as text or as the path of a file. For `enable`, see [`Options::load_env`].
    pub fn load_json(mut self, json: &str) -> Result<Options, Error> {
        // SAFETY: new() initialised it; the call copies the text.
        check(unsafe { cep_sys::cep_options_load_json(&mut self.native, long_text(json).as_ptr()) })?;
        Ok(self)
    }

    /// False turns the profiler off: it opens no file, starts no thread, and accepts every call.
    pub fn enable(mut self, enable: bool) -> Options {
        self.native.enable = i32::from(enable);
        self
    }

    /// Directory of the rank file; made if absent.
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Options {
        match CString::new(directory.as_ref().as_os_str().as_bytes()) {
            Ok(text) => self.native.directory = keep(&mut self.directory, text),
            Err(_) => self.problem = Some(Error::new(Code::EOPTION, "directory: contains a NUL")),
        }
        self
    }

    /// This process's rank. Default: from the launcher, else 0.
    pub fn rank(mut self, rank: i32) -> Options {
        self.native.rank = rank;
        self
    }

    /// Number of ranks in the job. Default: from the launcher, else 1.
    pub fn world_size(mut self, world_size: i32) -> Options {
        self.native.world_size = world_size;
        self
    }

    /// Rank within the host. Default: from the launcher, else 0.
    pub fn local_rank(mut self, local_rank: i32) -> Options {
        self.native.local_rank = local_rank;
        self
    }

    /// The rows and keys to write.
    pub fn layout(mut self, layout: Layout) -> Options {
        self.native.layout = layout as i32;
        self
    }

    /// First step of the window, inclusive. Default 0.
    pub fn start_step(mut self, start_step: i64) -> Options {
        self.native.start_step = start_step;
        self
    }

    /// Last step of the window, inclusive. Default: none.
    pub fn end_step(mut self, end_step: i64) -> Options {
        self.native.end_step = end_step;
        self
    }

    /// Stride within the window. Default 10.
    pub fn record_every_n_steps(mut self, stride: i64) -> Options {
        self.native.record_every_n_steps = stride;
        self
    }

    /// The writer writes rows at steps divisible by this. Default 10.
    pub fn flush_every_n_steps(mut self, cadence: i64) -> Options {
        self.native.flush_every_n_steps = cadence;
        self
    }

    /// The ranks to profile; on others the profiler is off. An empty list means all.
    pub fn ranks(mut self, ranks: impl IntoIterator<Item = i32>) -> Options {
        self.ranks = ranks.into_iter().collect();
        self.native.ranks = if self.ranks.is_empty() { std::ptr::null() } else { self.ranks.as_ptr() };
        self.native.ranks_count = self.ranks.len() as u64;
        self
    }

    /// Rows beyond this file size are dropped and counted. Default 0: no limit.
    pub fn max_file_bytes(mut self, max_file_bytes: i64) -> Options {
        self.native.max_file_bytes = max_file_bytes;
        self
    }

    /// Finished spans that a thread can hold for the writer. Default 4096.
    pub fn ring_capacity(mut self, ring_capacity: i64) -> Options {
        self.native.ring_capacity = ring_capacity;
        self
    }

    /// CUDA events in flight. Default 16384.
    pub fn pool_limit(mut self, pool_limit: i64) -> Options {
        self.native.pool_limit = pool_limit;
        self
    }

    /// The clock for spans.
    pub fn backend(mut self, backend: Backend) -> Options {
        self.native.backend = backend as i32;
        self
    }

    /// An id of the run, the same on all its ranks. Default: from the launcher, else generated.
    pub fn run_id(mut self, run_id: &str) -> Options {
        self.native.run_id = keep(&mut self.run_id, long_text(run_id));
        self
    }

    /// Facts about this rank, as for [`Profiler::set_meta`].
    pub fn meta(mut self, json: &str) -> Options {
        self.native.meta = keep(&mut self.meta, long_text(json));
        self
    }

    /// Records fewer steps rather than take more of the trainer's time, in percent: the stride is multiplied by a power
    /// of two. Default 0: no bound.
    pub fn max_overhead_percent(mut self, percent: f64) -> Options {
        self.native.max_overhead_percent = percent;
        self
    }

    /// Steps for `nsys profile --capture-range=cudaProfilerApi`, such as `100-104`, or `100-104@0,8` on some ranks.
    pub fn capture_range(mut self, range: &str) -> Options {
        self.native.capture_range = keep(&mut self.capture_range, long_text(range));
        self
    }

    /// Opens the profiler. An error leaves nothing open.
    pub fn open(&self) -> Result<Profiler, Error> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let mut profiler = std::ptr::null_mut();
        // SAFETY: self owns the memory that native points to, and the call copies it.
        check(unsafe { cep_sys::cep_open(&self.native, &mut profiler) })?;
        Ok(Profiler::from_native(profiler))
    }
}

/// Enabled unless the environment says otherwise (`CEP_ENABLE=0`), with the options that it sets. An invalid variable is an
/// error of [`Options::open`].
impl Default for Options {
    fn default() -> Options {
        // The first load sets enable to false.
        let mut options = Options::new();
        // SAFETY: new() initialised it. Other threads may change the environment only as std::env allows.
        let loaded = unsafe {
            let emptied = cep_sys::cep_options_load_json(&mut options.native, b"{}\0".as_ptr().cast());
            options.native.enable = 1;
            check(emptied).and_then(|()| check(cep_sys::cep_options_load_env(&mut options.native)))
        };
        options.problem = options.problem.take().or_else(|| loaded.err());
        options
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: it frees the memory of the load calls only, not that of self.
        unsafe { cep_sys::cep_options_clear(&mut self.native) }
    }
}

/// Stores a text and returns its address, which stays the same when the owner moves.
fn keep(owner: &mut CString, text: CString) -> *const c_char {
    *owner = text;
    owner.as_ptr()
}

/// Until 1.0 a minor version may be incompatible without a new soname.
fn check_version() -> Result<(), Error> {
    let (major, minor) = (cep_sys::CEP_VERSION_MAJOR, cep_sys::CEP_VERSION_MINOR);
    let version = crate::library_version();
    let mut numbers = version.split('.').map(|number| number.parse::<i32>().ok());
    if numbers.next() == Some(Some(major)) && numbers.next() == Some(Some(minor)) {
        return Ok(());
    }
    let message = format!("this is libcep {version}; this program needs {major}.{minor}.x");
    Err(Error::new(Code::EINVAL, message))
}
