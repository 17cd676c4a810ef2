//! Operators that are bound here: what a call of PyTorch's becomes, from its arguments to outputs and launches.
//!
//! The shim hands over the arguments of a call as its schema has them (`src/abi/rd_operator.rs`). A [`Prepare`](call::Prepare) checks them,
//! asks PyTorch's meta or computes the outputs' sizes itself, and launches kernels of the operator table. [`bindings`] names the operators.
//! It is the way for operators that are more than a meta and a kernel, and are not called so often that a microsecond counts.

#![forbid(unsafe_code)]

mod addressing;
pub mod bindings;
mod bins;
pub mod call;
mod descriptor;
mod draws;
mod embedding_tables;
mod flash_attention;
pub mod guards;
mod log_likelihood;
mod masks;
mod number_text;
mod options;
mod padding;
mod pooling;
mod put;
mod ranges;
mod selection;
mod task_table;
mod tasks;
mod windows;

pub use descriptor::{Dims, Format, Tensor};
