//! `uniform_`, `normal_`, `random_`, `bernoulli`, `exponential_`, `poisson`, `binomial`, `multinomial`, `randperm`,
//! `native_dropout`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
