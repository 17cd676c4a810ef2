//! `multinomial`: draws categories by weights. The checks are those of PyTorch's own function.

use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, Value, ensure};
use super::descriptor::{Dims, Format, Tensor};
use super::draws;
use super::names;
use super::promotion::is_floating;
use crate::kernels::random as kernels;
use crate::tensor::dtype::DType;
use crate::tensor::launch::Scalar;

/// A float32 counts exactly up to this number.
const MOST_CATEGORIES: i64 = 1 << 24;

const NO_WEIGHT: &str = "invalid multinomial distribution (sum of probabilities <= 0)";

/// `multinomial`. A kernel draws several samples with replacement; other cases are composed of other operators.
pub fn multinomial(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [weights, samples, with_replacement, generator] = arguments.all()?;
    let (weights, samples, with_replacement) = (weights.tensor()?, samples.integer()?, with_replacement.flag()?);
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
    ensure!((1..=2).contains(&weights.ndim()), "prob_dist must be 1 or 2 dim");
    let dtype = weights.dtype();
    ensure!(is_floating(dtype), "multinomial only supports floating-point dtypes for input, got: {dtype:?}");
    let dtype = given.map_or(DType::Long, Tensor::dtype);
    ensure!(dtype == DType::Long, "multinomial expects Long tensor out, got: {dtype:?}");
    ensure!(samples > 0, "cannot sample n_sample <= 0 samples");
    let categories = weights.size_from_end(0);
    let are_enough = with_replacement || samples <= categories;
    ensure!(are_enough, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    ensure!(categories <= MOST_CATEGORIES, "number of categories cannot exceed 2^24");
    Ok(())
}

/// The output for the samples of each distribution.
fn output<'a>(call: &Call<'a>, weights: Tensor<'_>, samples: i64) -> Result<Tensor<'a>, Refusal> {
    let mut sizes = Dims::from(weights.sizes());
    sizes[weights.ndim() - 1] = samples;
    // Like PyTorch, this resizes the output without a warning.
    if let Some(given) = call.given(0).filter(|given| given.sizes() != &sizes[..]) {
        call.operator(&names::RESIZE, &[Value::Tensor(given), Value::Integers(&sizes), Value::None])?;
    }
    call.contiguous(0, &sizes, DType::Long, Strides::Shared)
}

/// Launches the kernel over the rows of weights.
fn draw_with_replacement(call: &Call<'_>, out: Tensor<'_>, weights: Tensor<'_>, generator: &Value<'_>) -> Outcome {
    out.check_no_internal_overlap()?;
    let (samples, categories) = (out.size_from_end(0), weights.size_from_end(0));
    ensure!(categories > 0, "{NO_WEIGHT}");
    let rows = out.numel() / samples;
    let dense = call.dense(weights, Format::Contiguous)?.view(&[rows, categories]);
    let is_dense = out.is_dense(Format::Contiguous);
    let drawn = if is_dense { out } else { call.empty(out.sizes(), DType::Long)? };
    let [seed, offset] = call.draw(generator, draws::NUMBERS)?;
    let scalars = kernels::discrete::multinomial::Scalars { seed, offset }.list();
    call.launch_in(weights.dtype(), &[drawn.view(&[rows, samples])], &[dense], &scalars)?;
    if is_dense { Ok(()) } else { call.copy(out, drawn) }
}

/// Queues the check that the weights are a distribution.
fn check_distribution(call: &Call<'_>, weights: Tensor<'_>) -> Outcome {
    let (no, zero) = (Scalar::Bool(false).into(), Scalar::Long(0).into());
    let ends = call.operators(&names::AMINMAX, &[Value::Tensor(weights), Value::None, no], 2)?;
    let [least, greatest] = [ends[0], ends[1]].map(Value::Tensor);
    let is_positive = call.operator(&names::GE, &[least, zero])?;
    let is_finite = call.operator(&names::LT, &[greatest, Scalar::Double(f64::INFINITY).into()])?;
    let is_valid = call.operator(&names::BITWISE_AND, &[Value::Tensor(is_finite), Value::Tensor(is_positive)])?;
    check_all(call, is_valid, "probability tensor contains either `inf`, `nan` or element < 0")?;
    let total = call.operator(&names::SUM, &[Value::Tensor(weights), Value::Integers(&[-1]), no, Value::None])?;
    let is_some = call.operator(&names::NE, &[Value::Tensor(total), zero])?;
    check_all(call, call.operator(&names::ALL, &[Value::Tensor(is_some)])?, NO_WEIGHT)
}

/// Raises an error by `_assert_async` if the tensor is false.
fn check_all(call: &Call<'_>, value: Tensor<'_>, text: &str) -> Outcome {
    call.operators(&names::ASSERT, &[Value::Tensor(value), Value::Text(text)], 0).map(drop)
}

/// Divides each weight by an exponentially distributed number. The categories of the greatest quotients are a sample without
/// replacement.
fn draw_greatest(call: &Call<'_>, out: Tensor<'_>, weights: Tensor<'_>, generator: &Value<'_>) -> Outcome {
    let (sizes, dtype) = (weights.sizes(), weights.dtype());
    let shape = Shape { sizes: Dims::from(sizes), strides: weights.like_strides(), dtype };
    let quotients = Value::Tensor(call.empty_as(&shape)?);
    call.operator(&names::EXPONENTIAL, &[quotients, Scalar::Double(1.0).into(), *generator])?;
    call.operator(&names::DIV_OUT, &[Value::Tensor(weights), quotients, quotients])?;
    let (samples, dim, yes) = (out.size_from_end(0), Scalar::Long(-1).into(), Scalar::Bool(true).into());
    if samples == 1 {
        return call.operator(&names::ARGMAX_OUT, &[quotients, dim, yes, Value::Tensor(out)]).map(drop);
    }
    let values = call.empty(out.sizes(), dtype)?;
    let arguments = [quotients, Scalar::Long(samples).into(), dim, yes, yes, Value::Tensor(values), Value::Tensor(out)];
    call.operators(&names::TOPK_OUT, &arguments, 2).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(sizes: &[i64], dtype: DType) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, sizes, &Format::Contiguous.strides(sizes))
    }

    fn refusal(weights: Tensor<'_>, samples: i64, with_replacement: bool, given: Option<Tensor<'_>>) -> String {
        match check(weights, samples, with_replacement, given) {
            Err(Refusal::Invalid(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused_as_by_pytorch() {
        let weights = tensor(&[3, 5], DType::Float);
        assert_eq!(refusal(tensor(&[], DType::Float), 1, true, None), "prob_dist must be 1 or 2 dim");
        assert_eq!(refusal(tensor(&[2, 3, 4], DType::Float), 1, true, None), "prob_dist must be 1 or 2 dim");
        let text = "multinomial only supports floating-point dtypes for input, got: Long";
        assert_eq!(refusal(tensor(&[3], DType::Long), 1, true, None), text);
        assert_eq!(refusal(weights, 0, true, None), "cannot sample n_sample <= 0 samples");
        let text = "cannot sample n_sample > prob_dist.size(-1) samples without replacement";
        assert_eq!(refusal(weights, 6, false, None), text);
        let many = tensor(&[MOST_CATEGORIES + 1], DType::Float);
        assert_eq!(refusal(many, 1, true, None), "number of categories cannot exceed 2^24");
        assert!(check(weights, 6, true, None).is_ok() && check(weights, 5, false, None).is_ok());
    }

    #[test]
    fn an_output_is_of_indices_on_the_device() {
        let weights = tensor(&[3], DType::Half);
        let text = "multinomial expects Long tensor out, got: Float";
        assert_eq!(refusal(weights, 1, false, Some(tensor(&[0], DType::Float))), text);
        let elsewhere = Tensor::leaked(1, DType::Long, -1, &[0], &[1]);
        assert_eq!(refusal(weights, 1, false, Some(elsewhere)), "multinomial arguments must have the same device");
        assert!(check(weights, 1, false, Some(tensor(&[0], DType::Long))).is_ok());
    }
}
