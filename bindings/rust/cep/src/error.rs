// SPDX-License-Identifier: Apache-2.0

use std::ffi::CStr;
use std::fmt;

/// The kind of an error: one of the constants here, or another code of a newer library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(i32);

impl Code {
    /// An argument is invalid.
    pub const EINVAL: Code = Code(cep_sys::CEP_EINVAL);
    /// An option, its JSON key or its environment variable is invalid.
    pub const EOPTION: Code = Code(cep_sys::CEP_EOPTION);
    /// A JSON text does not parse, or has the wrong type of value.
    pub const EJSON: Code = Code(cep_sys::CEP_EJSON);
    /// A directory or file cannot be created, read or written.
    pub const EIO: Code = Code(cep_sys::CEP_EIO);
    /// Memory ran out.
    pub const ENOMEM: Code = Code(cep_sys::CEP_ENOMEM);
    /// The timeout passed first; unwritten records are counted.
    pub const ETIMEDOUT: Code = Code(cep_sys::CEP_ETIMEDOUT);
    /// A limit is reached: regions, names, metadata, or a per-process limit.
    pub const ELIMIT: Code = Code(cep_sys::CEP_ELIMIT);
    /// A defect in cep.
    pub const EINTERNAL: Code = Code(cep_sys::CEP_EINTERNAL);

    /// The number of the C code.
    pub const fn value(self) -> i32 {
        self.0
    }

    /// The library's description of the code; "unknown code" if the library does not have it.
    pub fn description(self) -> &'static str {
        // SAFETY: the function accepts any number and returns a static string, never NULL.
        let text = unsafe { CStr::from_ptr(cep_sys::cep_strerror(self.0)) };
        text.to_str().unwrap_or("")
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Code::EINVAL => "EINVAL",
            Code::EOPTION => "EOPTION",
            Code::EJSON => "EJSON",
            Code::EIO => "EIO",
            Code::ENOMEM => "ENOMEM",
            Code::ETIMEDOUT => "ETIMEDOUT",
            Code::ELIMIT => "ELIMIT",
            Code::EINTERNAL => "EINTERNAL",
            _ => return None,
        })
    }
}

impl From<i32> for Code {
    fn from(value: i32) -> Code {
        Code(value)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "Code({})", self.0),
        }
    }
}

/// A call of libcep failed.
///
/// ```
/// let error = cep::Options::new().record_every_n_steps(0).open().unwrap_err();
/// assert_eq!(error.code, cep::Code::EOPTION);
/// assert!(error.message.contains("record_every_n_steps"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The kind of the error.
    pub code: Code,
    /// One line that names the argument, option, path or CUDA error.
    pub message: String,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    /// The error of this thread's last failed call.
    #[cold]
    pub(crate) fn last(code: Code) -> Error {
        // SAFETY: never NULL, and valid until this thread's next failing call; it is copied before that.
        let text = unsafe { CStr::from_ptr(cep_sys::cep_last_error()) };
        let message = if text.to_bytes().is_empty() { code.description().into() } else { text.to_string_lossy() };
        Error::new(code, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Turns a C code into a result.
#[inline]
pub(crate) fn check(code: i32) -> Result<(), Error> {
    if code == cep_sys::CEP_OK {
        Ok(())
    } else {
        Err(Error::last(Code(code)))
    }
}
