//! `embedding_dense_backward`, `_embedding_bag`, `embedding_renorm_`. PyTorch composes `embedding` of `index_select`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
