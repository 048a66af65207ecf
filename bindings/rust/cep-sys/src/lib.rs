// SPDX-License-Identifier: Apache-2.0
//! Declarations of libcep, the CUDA Event Profiler, from `<cep/cep.h>`. cep(3) documents them.
//!
//! All functions are unsafe. The crate `cep` is the safe layer.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]

#[cfg(not(unix))]
compile_error!("libcep is a library for Linux and other Unix systems: leave the crate out elsewhere, with a [target.'cfg(unix)'.dependencies] in Cargo.toml");

#[cfg(not(feature = "bindgen"))]
mod bindings;
#[cfg(feature = "bindgen")]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

// Constants that bindgen does not evaluate: casts and limits.

/// `cep_begin` returns this if it records nothing.
pub const CEP_SPAN_NONE: cep_span = cep_span::MAX;
/// The innermost open span of a region on the calling thread.
pub const CEP_SPAN_INNERMOST: cep_span = 0;
/// A value for `stream`: the host clock only.
pub const CEP_HOST: *mut std::os::raw::c_void = usize::MAX as *mut std::os::raw::c_void;
/// For `end_step`: record to the end of the job.
pub const CEP_NO_END_STEP: i64 = i64::MAX;
