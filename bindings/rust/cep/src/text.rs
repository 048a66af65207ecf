// SPDX-License-Identifier: Apache-2.0
//! Turns Rust's texts into NUL-terminated C texts. A text that contains a NUL is passed with a control character in its
//! place, which the library refuses with its usual message. So only the library defines valid names.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::raw::c_char;

/// Space for the longest name (255 bytes) and one byte too many.
pub(crate) type Name = ShortText<257>;
/// Space for the longest attribute (63 bytes) and one byte too many.
pub(crate) type AttributeText = ShortText<65>;

const REFUSED: u8 = 1; // a control character

/// A copy on the stack, because hot calls must not allocate. A longer text is cut to a length that is still too long.
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

/// Text of any length, for calls outside the step loop. A text with a NUL becomes one that is neither JSON nor a path.
pub(crate) fn long_text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new([REFUSED]).unwrap_or_default())
}
