//! `max_pool2d_with_indices` and its gradient; all other pooling and resampling are tasks of PyTorch's kernels
//! (`operator/aten.rs`).

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
