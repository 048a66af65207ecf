// SPDX-License-Identifier: Apache-2.0
//! The declarations of libcep, the CUDA Event Profiler: `<cep/cep.h>`, documented in cep(3).
//!
//! Nothing here is safe to call as such, and nothing is added; see the crate `cep` for the safe layer.
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]

#[cfg(not(feature = "bindgen"))]
mod bindings;
#[cfg(feature = "bindgen")]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

// Casts and limits, which bindgen does not evaluate.

/// What `cep_begin` returns where nothing is recorded.
pub const CEP_SPAN_NONE: cep_span = cep_span::MAX;
/// The innermost open span of a region on the calling thread.
pub const CEP_SPAN_INNERMOST: cep_span = 0;
/// As a stream: the host clock only.
pub const CEP_HOST: *mut std::os::raw::c_void = usize::MAX as *mut std::os::raw::c_void;
/// For `end_step`: record to the end of the job.
pub const CEP_NO_END_STEP: i64 = i64::MAX;
