// SPDX-License-Identifier: Apache-2.0

use std::mem::size_of;
use std::ptr::null;

use crate::text::{long_text, AttributeText};

/// Attributes of a span besides its times. They are cheap to make in each step: nothing is checked or copied unless a
/// span is recorded.
///
/// ```
/// let all_reduce = cep::Attributes::new().collective("dp", 17).bytes(25 << 20).meta(r#"{"bucket":3}"#);
/// let failed = cep::Attributes::new().error("Timeout");
/// # let _ = (all_reduce, failed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[must_use]
pub struct Attributes<'a> {
    bytes: i64,
    flops: f64,
    group: Option<&'a str>,
    coll: Option<i64>,
    error: Option<&'a str>,
    meta: Option<&'a str>,
}

impl<'a> Attributes<'a> {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes that the operation moves.
    pub fn bytes(mut self, bytes: i64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Floating-point operations.
    pub fn flops(mut self, flops: f64) -> Self {
        self.flops = flops;
        self
    }

    /// Process group of an operation ("dp"), at most 63 bytes.
    pub fn group(mut self, group: &'a str) -> Self {
        self.group = Some(group);
        self
    }

    /// Process group of a collective, and the index of the collective within it, equal on all ranks of the group.
    pub fn collective(mut self, group: &'a str, index: i64) -> Self {
        self.group = Some(group);
        self.coll = Some(index);
        self
    }

    /// Why the phase failed, at most 63 bytes.
    pub fn error(mut self, error: &'a str) -> Self {
        self.error = Some(error);
        self
    }

    /// A JSON object, at most 16384 bytes.
    pub fn meta(mut self, json: &'a str) -> Self {
        self.meta = Some(json);
        self
    }

    /// Calls `call` with the C struct.
    #[inline]
    pub(crate) fn with_native<T>(&self, call: impl FnOnce(*const cep_sys::cep_attrs) -> T) -> T {
        let group = self.group.map(AttributeText::new);
        let error = self.error.map(AttributeText::new);
        let meta = self.meta.map(long_text);
        let native = cep_sys::cep_attrs {
            struct_size: size_of::<cep_sys::cep_attrs>() as u32,
            flags: 0,
            bytes: self.bytes,
            flops: self.flops,
            group: group.as_ref().map_or(null(), AttributeText::as_ptr),
            coll: self.coll.unwrap_or(-1),
            error: error.as_ref().map_or(null(), AttributeText::as_ptr),
            meta: meta.as_ref().map_or(null(), |text| text.as_ptr()),
        };
        call(&native)
    }
}
