//! `_foreach_*`: operators over lists of tensors.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
