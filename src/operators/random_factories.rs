//! Factories of random tensors: `rand`, `randn`, `randint` and their `_like` variants.

use super::call::{Arguments, Call, Outcome, Refusal, Strides, Value};
use super::names;
use super::options;
use super::random_fills::Numbers;

const UNIFORM: Numbers = Numbers::Uniform([0.0, 1.0]);
const NORMAL: Numbers = Numbers::Normal([0.0, 1.0]);

fn wrong(arguments: &[Value<'_>]) -> Refusal {
    Refusal::Invalid(format!("internal error: {} arguments of a factory", arguments.len()))
}

/// Makes a random tensor. `arguments`: the size, the generator in overloads that have one, and the options.
fn make(call: &Call<'_>, numbers: Numbers, arguments: &[Value<'_>]) -> Outcome {
    let (size, generator, [dtype, layout, pinned]) = match arguments {
        [size, dtype, layout, _, pinned] => (size, &Value::None, [dtype, layout, pinned]),
        [size, generator, dtype, layout, _, pinned] => (size, generator, [dtype, layout, pinned]),
        _ => return Err(wrong(arguments)),
    };
    options::check(layout, pinned)?;
    let dtype = options::dtype_of(dtype)?.unwrap_or_else(|| call.default_dtype());
    let out = call.contiguous(0, size.integers()?, dtype, Strides::Any)?;
    numbers.draw(call, out, generator)
}

/// `rand`.
pub fn uniform(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    make(call, UNIFORM, arguments)
}

/// `randn`.
pub fn normal(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    make(call, NORMAL, arguments)
}

/// `randint` from 0.
pub fn whole_below(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [high, rest @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make(call, Numbers::Whole(0, Some(high.integer()?)), rest)
}

/// `randint` between two numbers.
pub fn whole_between(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [low, high, rest @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make(call, Numbers::Whole(low.integer()?, Some(high.integer()?)), rest)
}

/// Makes a random tensor like another one; if PyTorch's own `empty_like` must make it, it is filled afterwards.
fn make_like(call: &Call<'_>, numbers: Numbers, this: &Value<'_>, asked: &[Value<'_>]) -> Outcome {
    let Ok([dtype, layout, device, pinned, format]) = <&[Value<'_>; 5]>::try_from(asked) else { return Err(wrong(asked)) };
    if let Some(shape) = options::shape_like(this.tensor()?, [dtype, layout, device, pinned, format])? {
        let out = call.output(0, &shape, Strides::Any)?;
        return numbers.draw(call, out, &Value::None);
    }
    let made = call.operator(&names::EMPTY_LIKE, &[*this, *dtype, *layout, *device, *pinned, *format])?;
    numbers.draw_anywhere(call, made)?;
    call.give(0, made)
}

/// `rand_like`.
pub fn uniform_like(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, asked @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make_like(call, UNIFORM, this, asked)
}

/// `randn_like`.
pub fn normal_like(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, asked @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make_like(call, NORMAL, this, asked)
}

/// `randint_like` from 0.
pub fn whole_below_like(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, high, asked @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make_like(call, Numbers::Whole(0, Some(high.integer()?)), this, asked)
}

/// `randint_like` between two numbers.
pub fn whole_between_like(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, low, high, asked @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make_like(call, Numbers::Whole(low.integer()?, Some(high.integer()?)), this, asked)
}
