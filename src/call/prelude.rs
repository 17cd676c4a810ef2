//! The names that most functions of calls use. What a family uses beside them, it imports by name.

#![forbid(unsafe_code)]

pub(crate) use super::callees::{self, kernel};
pub(crate) use super::dtypes::is_floating;
pub(crate) use super::operator::{any_device, any_dtype, operators, plain, structured};
pub(crate) use super::shim;
pub(crate) use super::{
    Arguments, Call, CallError, Dims, Format, Input, Outcome, Shape, Strides, Tensor, Tensors, Value, broadcast, check_same_device,
    ensure, take_if, typed, wrap_dim,
};
pub(crate) use crate::tensor::{
    BOOL, COMPLEX, DType, DTypeSet, FIELD, FLOAT8, FLOATING, HALVES, INTEGRAL, REAL, Scalar, UNSIGNED, WIDE, WIDE_COMPLEX,
};
