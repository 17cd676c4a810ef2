//! `embedding_dense_backward`, `_embedding_bag` and its backward, `embedding_renorm_`. `embedding` itself is `index_select`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
