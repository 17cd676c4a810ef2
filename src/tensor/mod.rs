//! Typed, checked views of operands and the loops over them.

pub mod brief;
pub mod dtype;
pub mod elementary;
pub mod float8;
pub mod launch;
pub mod loops;
pub mod number;
pub mod view;
