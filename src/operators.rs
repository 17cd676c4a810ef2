//! Operators that are bound in Rust: each turns a call's arguments into outputs and kernel launches.
//!
//! The shim passes the arguments of a call in the order of its schema (`src/abi/rd_operator.rs`). An
//! [`Implementation`](bindings::Implementation) checks them, asks PyTorch's meta function for the outputs' sizes or computes them
//! itself, and launches kernels of the operator table. [`bindings`] lists the operators, [`pointwise_table`] the pointwise ones.

#![forbid(unsafe_code)]

mod addressing;
mod advanced_indexing;
mod attention;
pub mod bindings;
pub mod call;
pub mod callees;
mod channel_norm;
mod convolution;
pub mod declared;
mod dtypes;
mod embedding;
mod factories;
mod foreach;
mod gather_and_scatter;
pub mod guards;
mod histogram;
mod launch_by_name;
mod layer_norm;
mod loss;
mod masked;
mod matmul;
mod movement;
mod optimizer;
mod pointwise_calls;
mod pointwise_functions;
mod pointwise_table;
mod quantized;
mod random;
mod random_integers;
mod reduce;
mod rnn_cell;
mod rnn_layer;
mod softmax_and_scan;
mod sort;
mod task_table;
mod tasks;
mod tensor_iterator;
mod tensor_lists;
mod tensors;
mod transformer;
mod unique;
mod windows;

pub use tensors::{Dims, Format, Tensor, contiguous_strides, copied, dims};
