//! `nll_loss*` (`kernel.rs`), `mse_loss`, `huber_loss`, `smooth_l1_loss`, `binary_cross_entropy` (`kernel/elementwise.rs`),
//! `log_sigmoid`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
