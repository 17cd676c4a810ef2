//! `arange`, `linspace`, `logspace`, `range`, `eye`, `tril_indices`, `triu_indices`, `trace`, `repeat_interleave`. The kernels of
//! triangles are in `movement/kernel/triangle.rs`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
