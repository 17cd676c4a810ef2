//! `multinomial`: draws categories by weights. The checks are those of PyTorch's own function.

use super::call::{Call, CallError, Outcome, Shape, Strides, Value, ensure};
use super::callees;
use super::dtypes::is_floating;
use super::random;
use super::tensors::{Dims, Format, Tensor};
use crate::kernels::random as kernels;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// A float32 counts exactly up to this number.
const MOST_CATEGORIES: i64 = 1 << 24;

const NO_WEIGHT: &str = "invalid multinomial distribution (sum of probabilities <= 0)";

/// `multinomial`. A kernel draws several samples with replacement; other cases are composed of other operators.
pub fn multinomial(call: &Call<'_>, weights: Tensor<'_>, samples: i64, with_replacement: bool, generator: Value<'_>) -> Outcome {
    check(weights, samples, with_replacement, call.given(0))?;
    let out = output(call, weights, samples)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if with_replacement && samples > 1 {
        return draw_with_replacement(call, out, weights, generator);
    }
    check_distribution(call, weights)?;
    draw_greatest(call, out, weights, generator)
}

fn check(weights: Tensor<'_>, samples: i64, with_replacement: bool, given: Option<Tensor<'_>>) -> Outcome {
    let is_there = given.is_none_or(|given| given.device() == weights.device());
    ensure!(is_there, "multinomial arguments must have the same device");
    ensure!((1..=2).contains(&weights.ndim()) && is_floating(weights.dtype()));
    ensure!(given.is_none_or(|given| given.dtype() == DType::Long));
    let categories = weights.size_from_end(0);
    ensure!(samples > 0 && categories <= MOST_CATEGORIES && (with_replacement || samples <= categories));
    Ok(())
}

/// The output for the samples of each distribution.
fn output<'a>(call: &Call<'a>, weights: Tensor<'_>, samples: i64) -> Result<Tensor<'a>, CallError> {
    let mut sizes = Dims::from(weights.sizes());
    sizes[weights.ndim() - 1] = samples;
    if let Some(given) = call.given(0).filter(|given| given.sizes() != &sizes[..]) {
        call.resize(given, &sizes)?;
    }
    call.contiguous(0, &sizes, DType::Long, Strides::Shared)
}

/// Launches the kernel over the rows of weights.
fn draw_with_replacement(call: &Call<'_>, out: Tensor<'_>, weights: Tensor<'_>, generator: Value<'_>) -> Outcome {
    out.check_no_internal_overlap()?;
    let (samples, categories) = (out.size_from_end(0), weights.size_from_end(0));
    ensure!(categories > 0, "{NO_WEIGHT}");
    let rows = out.numel() / samples;
    let dense = call.dense(weights, Format::Contiguous)?.view(&[rows, categories]);
    let is_dense = out.is_dense(Format::Contiguous);
    let drawn = if is_dense { out } else { call.empty(out.sizes(), DType::Long)? };
    let [seed, offset] = call.reserve(generator, random::NUMBERS)?;
    let scalars = kernels::discrete::multinomial::Scalars { seed, offset }.list();
    call.launch_in(weights.dtype(), &[drawn.view(&[rows, samples])], &[dense], &scalars)?;
    if is_dense { Ok(()) } else { call.copy(out, drawn) }
}

/// Queues the check that the weights are a distribution.
fn check_distribution(call: &Call<'_>, weights: Tensor<'_>) -> Outcome {
    let (no, zero) = (false.into(), 0.into());
    let ends = call.operators(&callees::AMINMAX, &[Value::Tensor(weights), Value::None, no], 2)?;
    let [least, greatest] = [ends[0], ends[1]].map(Value::Tensor);
    let is_positive = call.operator(&callees::GE, &[least, zero])?;
    let is_finite = call.operator(&callees::LT, &[greatest, f64::INFINITY.into()])?;
    let is_valid = call.operator(&callees::BITWISE_AND, &[Value::Tensor(is_finite), Value::Tensor(is_positive)])?;
    check_all(call, is_valid, "probability tensor contains either `inf`, `nan` or element < 0")?;
    let total = call.operator(&callees::SUM, &[Value::Tensor(weights), Value::Integers(&[-1]), no, Value::None])?;
    let is_some = call.operator(&callees::NE, &[Value::Tensor(total), zero])?;
    check_all(call, call.operator(&callees::ALL, &[Value::Tensor(is_some)])?, NO_WEIGHT)
}

/// Raises an error by `_assert_async` if the tensor is false.
fn check_all(call: &Call<'_>, value: Tensor<'_>, text: &str) -> Outcome {
    call.operators(&callees::ASSERT, &[Value::Tensor(value), Value::Text(text)], 0).map(drop)
}

/// Divides each weight by an exponentially distributed number. The categories of the greatest quotients are a sample without
/// replacement.
fn draw_greatest(call: &Call<'_>, out: Tensor<'_>, weights: Tensor<'_>, generator: Value<'_>) -> Outcome {
    let quotients = Value::Tensor(call.empty_as(&Shape::like(weights, weights.dtype()))?);
    call.operator(&callees::EXPONENTIAL, &[quotients, Scalar::Double(1.0).into(), generator])?;
    call.operator(&callees::DIV_OUT, &[Value::Tensor(weights), quotients, quotients])?;
    let (samples, dim, yes) = (out.size_from_end(0), (-1).into(), true.into());
    if samples == 1 {
        return call.operator(&callees::ARGMAX_OUT, &[quotients, dim, yes, Value::Tensor(out)]).map(drop);
    }
    let values = call.empty(out.sizes(), weights.dtype())?;
    let arguments = [quotients, samples.into(), dim, yes, yes, Value::Tensor(values), Value::Tensor(out)];
    call.operators(&callees::TOPK_OUT, &arguments, 2).map(drop)
}
