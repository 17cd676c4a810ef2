//! `where`, `masked_fill_`, `masked_select`, `masked_scatter_`, `nonzero`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
