//! Typed, checked views of operands and the loops over them.

pub mod approximate;
pub mod bump_arena;
pub mod dtype;
pub mod float8;
pub mod flops;
pub mod inlined;
pub mod kernel_error;
pub mod launch;
mod lookup_table;
pub mod loops;
pub mod number;
pub mod op;
pub mod output;
pub mod part;
pub mod signature;
pub mod transcendental;
pub mod view;
