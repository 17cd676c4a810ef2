//! The names that most kernels use. What a kernel uses beside them, it imports by name.

#![forbid(unsafe_code)]

pub(crate) use super::loops::failure::Failure;
pub(crate) use super::loops::lines::{Values, ValuesMut};
pub(crate) use super::loops::row::{Row, RowMut};
pub(crate) use super::loops::{Memory, parallel, rows, strided};
pub(crate) use super::{
    Bool, Complex32, Complex64, DType, DTypeSet, Element, Elementary, Error, FLOATING, Field, HALVES, Hub, INTEGRAL, Launch,
    Number, Operand, Ordered, Output, Real, Scalar, View, dispatch, signature,
};
pub(crate) use crate::simd::{self, Aligned, Isa, Leaf, across, leaf, vectorize};
