//! Dropout and its gradient.

use super::call::{Call, Outcome, Shape, Strides, Tensors, Value, broadcast, ensure};
use super::callees;
use super::random;
use super::tensors::{Dims, Tensor, joint_strides};
use crate::kernels::random as kernels;
use crate::tensor::dtype::{DType, FLOATING};
use crate::tensor::launch::Scalar;

/// Dropout that keeps all elements: a copy and a mask of ones.
fn keep_all(call: &Call<'_>, input: Tensor<'_>) -> Outcome {
    let copy = call.operator(&callees::CLONE, &[Value::Tensor(input), Value::None])?;
    call.give(0, copy)?;
    let mask = call.output(1, &Shape::like(input, DType::Bool), Strides::Any)?;
    call.fill(mask, Scalar::Long(1))
}

/// Dropout by other operators, for tensors whose dtype the kernel lacks. These are complex numbers, and dtypes that the
/// operators refuse.
fn drop_by_others(call: &Call<'_>, input: Tensor<'_>, [kept, scale]: [f64; 2]) -> Outcome {
    let mask = call.output(1, &Shape::like(input, DType::Bool), Strides::Any)?;
    call.operator(&callees::BERNOULLI_NUMBER, &[Value::Tensor(mask), kept.into(), Value::None])?;
    let product = call.operator(&callees::MUL, &[Value::Tensor(input), Value::Tensor(mask)])?;
    call.operator(&callees::MUL_NUMBER_IN_PLACE, &[Value::Tensor(product), scale.into()])?;
    call.give(0, product)
}

pub fn forward(call: &Call<'_>, input: Tensor<'_>, p: f64, train: Option<bool>) -> Outcome {
    let kept = 1.0 - p;
    if input.numel() == 0 {
        call.give(0, input)?;
        return call.output(1, &Shape::like(input, input.dtype()), Strides::Any).map(drop);
    }
    if train == Some(false) {
        return keep_all(call, input);
    }
    let scale = if kept == 0.0 { 0.0 } else { 1.0 / kept };
    if !FLOATING.contains(input.dtype()) {
        return drop_by_others(call, input, [kept, scale]);
    }
    ensure!((0.0..=1.0).contains(&kept));
    let shape = Shape::like(input, input.dtype());
    let out = call.output(0, &shape, Strides::Any)?;
    let mask = call.output(1, &Shape { dtype: DType::Bool, ..shape }, Strides::Any)?;
    let [seed, offset] = call.reserve(Value::None, random::NUMBERS)?;
    let [p, scale] = [kept, scale].map(Scalar::Double);
    call.launch(&[out, mask], &[input], &kernels::native_dropout::Scalars { seed, offset, p, scale }.list())
}

/// The gradient by other operators.
fn backward_by_others(call: &Call<'_>, grad: Tensor<'_>, mask: Tensor<'_>, scale: f64) -> Outcome {
    let scaled = call.operator(&callees::MUL_NUMBER, &[Value::Tensor(call.cast(mask, grad.dtype())?), scale.into()])?;
    let product = call.operator(&callees::MUL, &[Value::Tensor(grad), Value::Tensor(scaled)])?;
    call.give(0, product)
}

pub fn backward(call: &Call<'_>, grad: Tensor<'_>, mask: Tensor<'_>, scale: f64) -> Outcome {
    if !FLOATING.contains(grad.dtype()) {
        return backward_by_others(call, grad, mask, scale);
    }
    let operands = if grad.sizes() == mask.sizes() {
        Tensors::from_slice(&[grad, mask])
    } else {
        let sizes = broadcast(grad.sizes(), mask.sizes())?;
        Tensors::from_slice(&[grad.expanded(&sizes)?, mask.expanded(&sizes)?])
    };
    let strides = joint_strides(&operands);
    let shape = Shape { sizes: Dims::from(operands[0].sizes()), strides, dtype: grad.dtype() };
    let out = call.output(0, &shape, Strides::Any)?;
    call.launch(&[out], &operands, &kernels::native_dropout_backward::Scalars { scale: Scalar::Double(scale) }.list())
}
