// SPDX-License-Identifier: Apache-2.0
//! Rust's texts as C's: NUL-terminated. What cannot be one is passed in a form that the library refuses by name, so
//! that there is one place that says what a valid name is.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::raw::c_char;

/// Space for the longest name (255 bytes) and one byte too many.
pub(crate) type Name = ShortText<257>;
/// Space for the longest attribute (63 bytes) and one byte too many.
pub(crate) type AttributeText = ShortText<65>;

const REFUSED: u8 = 1; // a control character

/// A copy on the stack: hot calls do not allocate. Longer text is cut off where it is too long already.
pub(crate) struct ShortText<const CAPACITY: usize> {
    bytes: [MaybeUninit<u8>; CAPACITY],
}

impl<const CAPACITY: usize> ShortText<CAPACITY> {
    #[inline]
    pub(crate) fn new(text: &str) -> Self {
        let text = &text.as_bytes()[..text.len().min(CAPACITY - 1)];
        let mut bytes = [MaybeUninit::<u8>::uninit(); CAPACITY];
        // SAFETY: text is shorter than bytes, and another object.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), bytes.as_mut_ptr().cast(), text.len()) };
        bytes[text.len()].write(0);
        if let Some(place) = text.iter().position(|&byte| byte == 0) {
            bytes[place].write(REFUSED);
        }
        ShortText { bytes }
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

/// Text of any length, for calls outside the step loop. One with a NUL is no JSON and no path.
pub(crate) fn long_text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new([REFUSED]).unwrap_or_default())
}
