//! The operators, by family.
//!
//! A family has the kernels (`kernel.rs`, `kernel/`), the operators that are bound in Rust (`operator.rs`, `operator/`) and the
//! tests of its kernels (`tests.rs`) in one folder; its head, the file of the folder's name, lists ATen's names.
//!
//! A kernel is a function of a [`Launch`](crate::tensor::launch::Launch); [`table`] lists all kernels. An operator is a
//! function of a [`Call`](crate::call::Call): it checks the arguments, asks PyTorch's meta function for the outputs' sizes or
//! computes them itself, and launches kernels. [`bindings`] has the lists of all families.

pub mod attention;
#[forbid(unsafe_code)]
pub mod bindings;
#[cfg(test)]
pub(crate) mod check;
pub mod convolution;
pub mod copy;
pub mod embedding;
pub mod factories;
pub mod foreach;
pub mod fourier;
pub mod histogram;
pub mod indexing;
#[forbid(unsafe_code)]
mod launch_by_name;
pub mod linalg;
pub mod loss;
pub mod masked;
pub mod matmul;
pub mod movement;
pub mod normalization;
pub mod optimizer;
pub mod pointwise;
pub mod pooling;
pub mod quantized;
pub mod random;
pub mod reductions;
pub mod rnn;
pub mod scan;
pub mod softmax;
pub mod sorting;
pub mod table;
