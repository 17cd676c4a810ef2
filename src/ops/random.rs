//! `uniform_`, `normal_`, `random_`, `bernoulli`, `exponential_`, `poisson`, `binomial`, `multinomial`, `randperm`,
//! `native_dropout`.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
#[cfg(test)]
mod tests;
