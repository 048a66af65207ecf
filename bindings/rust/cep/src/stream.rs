// SPDX-License-Identifier: Apache-2.0

use std::os::raw::c_void;

/// What a span is timed on: a CUDA stream, or the host clock.
///
/// Without a CUDA context on the calling thread, every stream means the host clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream(*mut c_void);

// SAFETY: a handle that is only passed on; CUDA accepts streams from any thread.
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
    /// The stream must exist in each call that this is passed to and when each span begun on it ends, and belong to the
    /// context that is then the calling thread's current one.
    pub const unsafe fn from_raw(stream: *mut c_void) -> Stream {
        Stream(stream)
    }

    /// The pointer that C takes.
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
