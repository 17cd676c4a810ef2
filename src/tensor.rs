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
pub(crate) mod prelude;
pub mod signature;
pub mod transcendental;
pub mod view;

pub use approximate::Approximate;
#[cfg(test)]
pub(crate) use dtype::FLOAT;
pub use dtype::{
    ANY, BOOL, BYTE, Bool, COMPLEX, COMPONENTS, Complex32, Complex64, ComplexHalf, DType, DTypeSet, Element, FIELD, FLOAT8,
    FLOATING, HALVES, HalfBits, INTEGRAL, LONG, ORDERED, REAL, UNSIGNED, WIDE, WIDE_COMPLEX,
};
pub(crate) use dtype::{dispatch, dispatch_size};
pub use float8::{Float8E4M3Fn, Float8E4M3FnUz, Float8E5M2, Float8E5M2FnUz, Float8E8M0FnU};
pub use kernel_error::Error;
pub use launch::{Cell, INLINE_OPERANDS, INLINE_SCALARS, Launch, Layout, Operands, Piece, Record, Scalar, of_views};
pub use number::{Bits, Field, Hub, Integer, Number, Ordered, Real};
pub use op::Op;
pub use output::Output;
pub use part::Part;
pub(crate) use signature::signature;
pub use signature::{Operand, Signature};
pub use transcendental::{Analytic, Elementary};
pub use view::{Flags, MAX_DIMS, View};
