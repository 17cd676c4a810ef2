//! `histogram`, `histc`.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
