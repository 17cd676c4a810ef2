//! `index`, `index_put_` (`operator.rs`); `gather`, `index_select`, `take`, `put_`, `scatter*`, `index_add`, `index_copy`,
//! `index_reduce` (`operator/gather_scatter.rs`).

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
