//! `nll_loss*` (`kernel.rs`), `mse_loss`, `huber_loss`, `smooth_l1_loss`, `binary_cross_entropy` (`kernel/elementwise.rs`),
//! `log_sigmoid`.

#![forbid(unsafe_code)]

pub mod kernel;
pub(crate) mod operator;
