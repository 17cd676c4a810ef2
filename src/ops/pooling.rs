//! `max_pool2d_with_indices` and its gradient; all other pooling and resampling are tasks of PyTorch's kernels
//! (`operator/aten.rs`).

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
