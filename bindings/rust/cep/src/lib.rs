// SPDX-License-Identifier: Apache-2.0
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod attributes;
mod error;
mod options;
mod profiler;
mod region;
mod stats;
mod stream;
mod text;

pub use attributes::Attributes;
pub use error::{Code, Error};
pub use options::{Backend, Layout, Options};
pub use profiler::{Profiler, DEFAULT_TIMEOUT};
pub use region::{Kind, Region, Span};
pub use stats::Stats;
pub use stream::Stream;

/// The version of the loaded library, "MAJOR.MINOR.PATCH".
pub fn library_version() -> &'static str {
    // SAFETY: a static string, never NULL.
    let version = unsafe { std::ffi::CStr::from_ptr(cep_sys::cep_version()) };
    version.to_str().unwrap_or("")
}
