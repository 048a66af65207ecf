// SPDX-License-Identifier: Apache-2.0

use std::os::raw::c_void;

/// The clock of a span: a CUDA stream, or the host clock.
///
/// If the calling thread has no CUDA context, every stream means the host clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(*mut c_void);

// SAFETY: the handle is only passed on, and CUDA accepts streams from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// The legacy default stream, which is also PyTorch's.
    pub const DEFAULT: Stream = Stream(std::ptr::null_mut());
    /// The host clock only: data loading, checkpointing.
    pub const HOST: Stream = Stream(cep_sys::CEP_HOST);

    /// A `cudaStream_t` or `CUstream`.
    ///
    /// # Safety
    ///
    /// During each call that takes it, and at the end of each span that began on it, the stream must exist and belong to
    /// the calling thread's current context.
    pub const unsafe fn from_raw(stream: *mut c_void) -> Stream {
        Stream(stream)
    }

    /// The pointer for C calls.
    pub const fn as_raw(self) -> *mut c_void {
        self.0
    }
}

impl Default for Stream {
    /// [`Stream::DEFAULT`].
    fn default() -> Stream {
        Stream::DEFAULT
    }
}
