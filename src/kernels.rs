//! Kernels and the operator table.
//!
//! A kernel is a function of a [`Launch`](crate::tensor::launch::Launch). Its [`signature`] names the operands (outputs first) and
//! the scalars in order. [`table`] lists every kernel.

pub mod attention;
pub mod channel_norm;
#[cfg(test)]
mod check;
pub mod convolution;
pub mod copy;
pub mod depthwise;
pub mod flops;
pub mod foreach;
pub mod histogram;
pub mod indexing;
pub mod layer_norm;
mod lookup_table;
pub mod matmul;
pub mod max_pool;
mod mean_variance;
pub mod movement;
pub mod nll_loss;
pub mod optimizer;
pub mod pointwise;
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod rnn;
pub mod scan;
pub mod signature;
pub mod softmax;
pub mod sorting;
pub mod table;
