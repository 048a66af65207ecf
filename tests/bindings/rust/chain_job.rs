// SPDX-License-Identifier: Apache-2.0
//! The job of chain_test.py in Rust: chain_job CONTEXT DIRECTORY

use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_void};

use cep::{Error, Kind, Options, Profiler, Stream, DEFAULT_TIMEOUT};

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
}
const RTLD_NOW: c_int = 2;

fn main() -> Result<(), Error> {
    let context = CString::new(std::env::args().nth(1).expect("a library")).expect("a path");
    // SAFETY: the path is a C string.
    assert!(!unsafe { dlopen(context.as_ptr(), RTLD_NOW) }.is_null());
    let directory = std::env::args_os().nth(2).expect("a directory");
    let profiler = Options::new().directory(directory).rank(0).world_size(1).record_every_n_steps(1).open()?;
    let data = profiler.region("data", Kind::Auto)?;
    let forward = profiler.region("forward", Kind::Auto)?;
    for step in 0..3 {
        profiler.step(step)?;
        profiler.phase(data, Stream::HOST)?;
        profiler.phase(forward, Stream::DEFAULT)?;
    }
    profiler.end_phase(Stream::HOST);
    let span = profiler.region("last", Kind::Auto)?.begin(Stream::DEFAULT);
    let none = Profiler::off().region("none", Kind::Auto)?;
    assert!(!span.switch_to(none).recorded()); // only ends the span
    profiler.close(DEFAULT_TIMEOUT)
}
