// SPDX-License-Identifier: Apache-2.0
//
// Generated from <cep/cep.h> by bindgen 0.60; see build.rs.

pub const CEP_VERSION_MAJOR: i32 = 0;
pub const CEP_VERSION_MINOR: i32 = 2;
pub const CEP_VERSION_PATCH: i32 = 0;
pub const CEP_OK: i32 = 0;
pub const CEP_EINVAL: i32 = -1;
pub const CEP_EOPTION: i32 = -2;
pub const CEP_EJSON: i32 = -3;
pub const CEP_EIO: i32 = -4;
pub const CEP_ENOMEM: i32 = -5;
pub const CEP_ETIMEDOUT: i32 = -6;
pub const CEP_ELIMIT: i32 = -7;
pub const CEP_EINTERNAL: i32 = -8;
pub const CEP_KIND_AUTO: i32 = 0;
pub const CEP_KIND_STEP: i32 = 1;
pub const CEP_KIND_COMPUTE: i32 = 2;
pub const CEP_KIND_COMM: i32 = 3;
pub const CEP_KIND_DATA: i32 = 4;
pub const CEP_KIND_MEMORY: i32 = 5;
pub const CEP_KIND_HOST: i32 = 6;
pub const CEP_KIND_OTHER: i32 = 7;
pub const CEP_FIND_IT: i32 = -1;
pub const CEP_LAYOUT_FULL: i32 = 0;
pub const CEP_LAYOUT_FLAT: i32 = 1;
pub const CEP_LAYOUT_SPANS: i32 = 2;
pub const CEP_BACKEND_AUTO: i32 = 0;
pub const CEP_BACKEND_HOST: i32 = 1;
pub const CEP_ATTRS_ASYNC: i32 = 1;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cep_profiler {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cep_region {
    _unused: [u8; 0],
}
pub type cep_span = u64;
extern "C" {
    pub fn cep_version() -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn cep_strerror(code: i32) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn cep_last_error() -> *const ::std::os::raw::c_char;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cep_options {
    pub struct_size: u32,
    pub enable: i32,
    pub directory: *const ::std::os::raw::c_char,
    pub rank: i32,
    pub world_size: i32,
    pub local_rank: i32,
    pub layout: i32,
    pub start_step: i64,
    pub end_step: i64,
    pub record_every_n_steps: i64,
    pub flush_every_n_steps: i64,
    pub ranks: *const i32,
    pub ranks_count: u64,
    pub max_file_bytes: i64,
    pub ring_capacity: i64,
    pub pool_limit: i64,
    pub backend: i32,
    pub reserved: i32,
    pub run_id: *const ::std::os::raw::c_char,
    pub meta: *const ::std::os::raw::c_char,
    pub storage: *mut ::std::os::raw::c_void,
    pub max_overhead_percent: f64,
    pub capture_range: *const ::std::os::raw::c_char,
}
extern "C" {
    pub fn cep_options_init(options: *mut cep_options, struct_size: u32) -> i32;
}
extern "C" {
    pub fn cep_options_load_json(options: *mut cep_options, json: *const ::std::os::raw::c_char) -> i32;
}
extern "C" {
    pub fn cep_options_load_env(options: *mut cep_options) -> i32;
}
extern "C" {
    pub fn cep_options_clear(options: *mut cep_options);
}
extern "C" {
    pub fn cep_open(options: *const cep_options, out: *mut *mut cep_profiler) -> i32;
}
extern "C" {
    pub fn cep_close(profiler: *mut cep_profiler, timeout_ms: i64) -> i32;
}
extern "C" {
    pub fn cep_flush(profiler: *mut cep_profiler, timeout_ms: i64) -> i32;
}
extern "C" {
    pub fn cep_enabled(profiler: *const cep_profiler) -> i32;
}
extern "C" {
    pub fn cep_rank(profiler: *const cep_profiler) -> i32;
}
extern "C" {
    pub fn cep_set_meta(profiler: *mut cep_profiler, json: *const ::std::os::raw::c_char) -> i32;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cep_stats {
    pub struct_size: u32,
    pub threads: u32,
    pub recorded: u64,
    pub written: u64,
    pub dropped_ring: u64,
    pub dropped_slots: u64,
    pub dropped_pool: u64,
    pub dropped_file: u64,
    pub dropped_io: u64,
    pub dropped_meta: u64,
    pub capture_skipped: u64,
    pub cuda_errors: u64,
    pub abandoned: u64,
    pub open_spans: u64,
    pub bytes_written: u64,
    pub self_ns: u64,
    pub pending: u64,
    pub trainer_ns: u64,
}
extern "C" {
    pub fn cep_get_stats(profiler: *mut cep_profiler, stats: *mut cep_stats) -> i32;
}
extern "C" {
    pub fn cep_step(profiler: *mut cep_profiler, step: i64) -> i32;
}
extern "C" {
    pub fn cep_recording(profiler: *const cep_profiler) -> i32;
}
extern "C" {
    pub fn cep_region_get(
        profiler: *mut cep_profiler,
        name: *const ::std::os::raw::c_char,
        kind: i32,
    ) -> *mut cep_region;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cep_attrs {
    pub struct_size: u32,
    pub flags: u32,
    pub bytes: i64,
    pub flops: f64,
    pub group: *const ::std::os::raw::c_char,
    pub coll: i64,
    pub error: *const ::std::os::raw::c_char,
    pub meta: *const ::std::os::raw::c_char,
}
extern "C" {
    pub fn cep_begin(region: *mut cep_region, stream: *mut ::std::os::raw::c_void) -> cep_span;
}
extern "C" {
    pub fn cep_begin_with(
        region: *mut cep_region,
        stream: *mut ::std::os::raw::c_void,
        attrs: *const cep_attrs,
    ) -> cep_span;
}
extern "C" {
    pub fn cep_end(region: *mut cep_region, span: cep_span, stream: *mut ::std::os::raw::c_void);
}
extern "C" {
    pub fn cep_end_with(
        region: *mut cep_region,
        span: cep_span,
        stream: *mut ::std::os::raw::c_void,
        attrs: *const cep_attrs,
    ) -> i32;
}
extern "C" {
    pub fn cep_switch(span: cep_span, region: *mut cep_region, stream: *mut ::std::os::raw::c_void) -> cep_span;
}
extern "C" {
    pub fn cep_phase(profiler: *mut cep_profiler, region: *mut cep_region, stream: *mut ::std::os::raw::c_void) -> i32;
}
extern "C" {
    pub fn cep_record(region: *mut cep_region, start_ns: i64, duration_ns: i64, attrs: *const cep_attrs) -> i32;
}
extern "C" {
    pub fn cep_counter(profiler: *mut cep_profiler, name: *const ::std::os::raw::c_char, value: f64) -> i32;
}
extern "C" {
    pub fn cep_mark(
        profiler: *mut cep_profiler,
        name: *const ::std::os::raw::c_char,
        meta: *const ::std::os::raw::c_char,
    ) -> i32;
}
