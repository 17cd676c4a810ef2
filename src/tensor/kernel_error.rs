//! [`Error`]: the failure of a kernel, with a text for the user.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

/// A failure of a kernel. It is one word, so that results of kernels stay small; only a failure allocates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Cow<'static, str>>);

const _: () = assert!(size_of::<Result<(), Error>>() == size_of::<usize>());

impl Error {
    #[cold]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(text.into()))
    }

    /// A division of integers by zero, with PyTorch's text.
    #[cold]
    pub fn division_by_zero() -> Self {
        Self::new("ZeroDivisionError")
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}
