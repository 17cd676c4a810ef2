//! Errors of the runtime, as callers see them.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt;

/// The cause of a task's failure. Its text is for the user; its concrete type tells the kind to code that knows the work.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure, with a text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A wrong argument: an index out of range, an unknown stream, a call in a forked child.
    InvalidArgument(String),
    /// An invalid value, mostly of an environment variable.
    InvalidValue(String),
    /// The device's budget or the machine's memory is used up.
    OutOfMemory(String),
    /// The operation is not supported.
    Unsupported(String),
    /// An asynchronous task failed earlier.
    TaskFailed(String),
    /// The program accesses memory without the necessary order: see [`super::sanitizer`].
    Race(String),
    /// A broken internal invariant.
    Internal(String),
}

impl Error {
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
