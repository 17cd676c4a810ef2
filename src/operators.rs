//! Operators that are bound in Rust: each turns a call's arguments into outputs and kernel launches.
//!
//! The shim passes the arguments of a call in the order of its schema (`src/abi/rd_operator.rs`). A
//! [`Prepare`](bindings::Prepare) checks them, asks PyTorch's meta function for the outputs' sizes or computes them itself, and
//! launches kernels of the operator table. [`bindings`] lists the operators, [`pointwise_table`] the pointwise ones.

#![forbid(unsafe_code)]

mod addressing;
mod advanced_indexing;
mod along_dimension;
mod batch_normalisation;
pub mod bindings;
mod bins;
pub mod call;
mod channel_shuffles;
mod clamps;
mod complex_numbers;
mod concatenation;
mod convolutions;
mod dropout;
mod dtypes;
mod embedding_tables;
mod flash_attention;
mod flips_and_rolls;
mod foreach_lists;
mod gated_linear_units;
mod gathers;
mod gradient_scaling;
mod group_normalisation;
pub mod guards;
mod layer_normalisation;
mod log_likelihood;
mod losses;
mod masks;
mod message_text;
mod mixed_data_type;
mod multinomial;
pub mod names;
mod optimizers;
mod outer_products;
mod padding;
mod pointwise_calls;
mod pointwise_table;
mod pooling;
mod powers;
mod products;
mod put;
mod random_distributions;
mod random_factories;
mod random_integers;
mod ranges;
mod recurrent_cells;
mod recurrent_layers;
mod recurrent_networks;
mod reductions;
mod scatters;
mod search;
mod selection;
mod task_table;
mod tasks;
mod tensor_iterator;
mod tensor_lists;
mod tensor_options;
mod tensors;
mod triangles;
mod unique_elements;
mod windows;

pub use tensors::{Dims, Format, Tensor, contiguous_strides, copied, dims};
