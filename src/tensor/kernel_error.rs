//! [`Error`]: the failure of a kernel, with its kind and a text for the user.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use super::DType;

/// Kinds of failures, for callers that distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Operands do not fit the kernel or each other in number, sizes, strides, alignment or overlap.
    Operands,
    /// The kernel does not support the operands' dtype.
    Dtype(DType),
    /// A parameter is missing or invalid.
    Parameter,
    /// An index is outside `-size..size`, or outside `0..size` for operators without negative indices.
    Index { index: i64, size: usize },
    /// The operator does not accept a value of an operand.
    Value,
    /// A division of integers by zero.
    DivisionByZero,
    /// PyTorch's library has failed.
    Library,
}

/// A failure of a kernel. It is one word, so that results of kernels stay small; only a failure allocates.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, PartialEq, Eq)]
struct Parts {
    kind: ErrorKind,
    text: Cow<'static, str>,
}

impl Error {
    #[cold]
    fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts { kind, text: text.into() }))
    }

    /// An error of [`ErrorKind::Operands`].
    #[cold]
    pub fn operands(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Operands, text)
    }

    /// An error of [`ErrorKind::Dtype`].
    #[cold]
    pub fn dtype(dtype: DType, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Dtype(dtype), text)
    }

    /// An error of [`ErrorKind::Parameter`].
    #[cold]
    pub fn parameter(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Parameter, text)
    }

    /// An error of [`ErrorKind::Index`].
    #[cold]
    pub fn index(index: i64, size: usize, text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Index { index, size }, text)
    }

    /// An error of [`ErrorKind::Value`].
    #[cold]
    pub fn value(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Value, text)
    }

    /// An error of [`ErrorKind::DivisionByZero`], with PyTorch's text.
    #[cold]
    pub fn division_by_zero() -> Self {
        Self::new(ErrorKind::DivisionByZero, "ZeroDivisionError")
    }

    /// An error of [`ErrorKind::Library`].
    #[cold]
    pub fn library(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Library, text)
    }

    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind(), self.text())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_one_word() {
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }

    #[test]
    fn an_error_has_a_kind_and_a_text() {
        let error = Error::index(7, 5, format!("index {} is out of bounds", 7));
        assert_eq!((error.kind(), error.text()), (ErrorKind::Index { index: 7, size: 5 }, "index 7 is out of bounds"));
        assert_eq!(Error::division_by_zero().to_string(), "ZeroDivisionError");
        assert_eq!(format!("{:?}", Error::dtype(DType::Bool, "no")), "Dtype(Bool): no");
    }
}
