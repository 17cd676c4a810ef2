//! `mm`, `bmm`, `addmm`, `baddbmm`, `addmv`: matrix products.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
