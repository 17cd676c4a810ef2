//! Factories of random tensors: `rand`, `randn`, `randint` and their `_like` variants.

use super::call::{Arguments, Call, CallError, Outcome, Strides, Value};
use super::callees;
use super::random::Distribution;
use super::tensor_options;

fn wrong(arguments: &[Value<'_>]) -> CallError {
    CallError::Invalid(format!("internal error: {} arguments of a factory", arguments.len()))
}

/// The distribution of an operator's kernel; `limits` are the arguments of `randint`.
fn distribution(call: &Call<'_>, limits: &[Value<'_>]) -> Result<Distribution, CallError> {
    match (call.kernel_name(), limits) {
        ("uniform_", []) => Ok(Distribution::Uniform([0.0, 1.0])),
        ("normal_", []) => Ok(Distribution::Normal([0.0, 1.0])),
        ("random_", [high]) => Ok(Distribution::Integers(0, Some(high.integer()?))),
        ("random_", [low, high]) => Ok(Distribution::Integers(low.integer()?, Some(high.integer()?))),
        _ => Err(wrong(limits)),
    }
}

/// `rand`, `randn` and `randint`: limits, the size, the generator in overloads that have one, and the options.
pub fn make(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let place = arguments.iter().position(|argument| matches!(argument, Value::Integers(_)));
    let (limits, rest) = arguments.split_at(place.unwrap_or_default());
    let (size, generator, [dtype, layout, pinned]) = match rest {
        [size, dtype, layout, _, pinned] => (size, &Value::None, [dtype, layout, pinned]),
        [size, generator, dtype, layout, _, pinned] => (size, generator, [dtype, layout, pinned]),
        _ => return Err(wrong(arguments)),
    };
    tensor_options::check(layout, pinned)?;
    let dtype = tensor_options::dtype_of(dtype)?.unwrap_or_else(|| call.default_dtype());
    let out = call.contiguous(0, size.integers()?, dtype, Strides::Any)?;
    distribution(call, limits)?.draw(call, out, generator)
}

/// `rand_like`, `randn_like` and `randint_like`. If PyTorch's own `empty_like` must make the tensor, it is filled afterwards.
pub fn make_like(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, limits @ .., dtype, layout, device, pinned, format] = &**arguments else { return Err(wrong(arguments)) };
    let distribution = distribution(call, limits)?;
    if let Some(shape) = tensor_options::shape_like(this.tensor()?, [dtype, layout, device, pinned, format])? {
        let out = call.output(0, &shape, Strides::Any)?;
        return distribution.draw(call, out, &Value::None);
    }
    let made = call.operator(&callees::EMPTY_LIKE, &[*this, *dtype, *layout, *device, *pinned, *format])?;
    distribution.draw_anywhere(call, made)?;
    call.give(0, made)
}
