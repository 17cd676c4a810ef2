//! `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
