//! `histogram`, `histc`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
