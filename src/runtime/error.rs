//! Errors of the runtime, as callers see them.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt;

/// A failure, with a text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A wrong argument: an index out of range, an unknown stream, a call in a forked child.
    InvalidArgument(String),
    /// A value outside what is accepted, of an environment variable above all.
    InvalidValue(String),
    /// The device's budget or the machine's memory is used up.
    OutOfMemory(String),
    /// Nothing here can do that.
    Unsupported(String),
    /// An asynchronous task failed earlier.
    TaskFailed(String),
    /// The program uses memory without the order that it needs: see [`super::sanitizer`].
    Race(String),
    /// A broken invariant of ours.
    Internal(String),
}

impl Error {
    /// The text for the user.
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidArgument(text)
            | Self::InvalidValue(text)
            | Self::OutOfMemory(text)
            | Self::Unsupported(text)
            | Self::TaskFailed(text)
            | Self::Race(text)
            | Self::Internal(text) => text,
        }
    }
}

/// The text of a panic's payload.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic without a text")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}
