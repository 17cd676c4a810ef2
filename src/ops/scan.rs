//! `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
#[cfg(test)]
mod tests;
