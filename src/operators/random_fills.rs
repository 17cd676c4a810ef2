//! Random operators that models call at every step, in place. The checks are those of PyTorch's own templates.

use super::call::{Arguments, Call, Outcome, Refusal, Value, ensure};
use super::descriptor::Tensor;
use super::draws::draw;
use super::names;
use super::number_text::{NumberText, type_name};
use super::whole_numbers::{greatest_finite, range};
use crate::kernels::random as kernels;
use crate::tensor::dtype::{COMPLEX, DType, DTypeSet, FLOAT8, FLOATING};
use crate::tensor::launch::Scalar;

/// The distribution that a tensor is filled from.
#[derive(Clone, Copy)]
pub enum Numbers {
    /// Uniform from the first number to below the second.
    Uniform([f64; 2]),
    /// Normal with a mean and a standard deviation.
    Normal([f64; 2]),
    /// Integers from the first number to below the second, or to the dtype's limit.
    Whole(i64, Option<i64>),
}

impl Numbers {
    /// Fills a tensor with the operator's kernel.
    pub fn draw(self, call: &Call<'_>, out: Tensor<'_>, generator: &Value<'_>) -> Outcome {
        match self {
            Self::Uniform(limits) => draw_uniform(call, out, limits, generator),
            Self::Normal(parameters) => draw_normal(call, out, parameters, generator),
            Self::Whole(from, to) => draw_whole(call, out, (from, to), generator),
        }
    }

    /// Fills a tensor on any device by calling the in-place operator.
    pub fn draw_anywhere(self, call: &Call<'_>, out: Tensor<'_>) -> Outcome {
        let double = |value: f64| Value::Number(Scalar::Double(value));
        let integer = |value: i64| Value::Number(Scalar::Long(value));
        let (operator, [first, second]) = match self {
            Self::Uniform(limits) => (&names::UNIFORM, limits.map(double)),
            Self::Normal(parameters) => (&names::NORMAL, parameters.map(double)),
            Self::Whole(from, to) => (&names::RANDOM_FROM, [integer(from), to.map_or(Value::None, integer)]),
        };
        call.operator(operator, &[Value::Tensor(out), first, second, Value::None]).map(drop)
    }
}

/// Complex dtypes.
const OF_PARTS: DTypeSet = COMPLEX.and(DTypeSet::of(&[DType::ComplexBFloat16]));

/// Fills the real and imaginary parts of a complex tensor.
fn draw_parts(call: &Call<'_>, out: Tensor<'_>, numbers: Numbers, generator: &Value<'_>) -> Outcome {
    if out.numel() == 0 {
        return Ok(());
    }
    let parts = call.operator(&names::VIEW_AS_REAL, &[Value::Tensor(out)])?;
    numbers.draw(call, parts, generator)
}

/// An error if the dtype cannot represent the limits or their difference.
fn check_uniform([from, to]: [f64; 2], dtype: DType) -> Outcome {
    let unknown = || Refusal::Unsupported(format!("\"check_uniform_bounds\" not implemented for '{dtype:?}'"));
    let greatest = greatest_finite(dtype).ok_or_else(unknown)?;
    for (limit, name) in [(from, "from"), (to, "to")] {
        ensure!((-greatest..=greatest).contains(&limit), "{name} is out of bounds for {}", type_name(dtype));
    }
    let (first, end) = (NumberText(from), NumberText(to));
    ensure!(from <= to, "uniform_ expects to return a [from, to) range, but found from={first} > to={end}");
    let text = format_args!("uniform_ expects to-from <= std::numeric_limits<{dtype:?}>::max(), but found");
    ensure!(to - from <= greatest, "{text} to={end} and from={first} which result in to-from to exceed the limit");
    Ok(())
}

fn draw_uniform(call: &Call<'_>, out: Tensor<'_>, limits: [f64; 2], generator: &Value<'_>) -> Outcome {
    if OF_PARTS.contains(out.dtype()) {
        return draw_parts(call, out, Numbers::Uniform(limits), generator);
    }
    check_uniform(limits, out.dtype())?;
    let [from, to] = limits.map(Scalar::Double);
    draw(call, out, &[], generator, |[seed, offset]| kernels::uniform::Scalars { seed, offset, from, to }.list())
}

fn draw_normal(call: &Call<'_>, out: Tensor<'_>, [mean, std]: [f64; 2], generator: &Value<'_>) -> Outcome {
    ensure!(std >= 0.0, "normal expects std >= 0.0, but found std {}", NumberText(std));
    if OF_PARTS.contains(out.dtype()) {
        // Each part has half of the variance.
        return draw_parts(call, out, Numbers::Normal([mean, std / 2.0_f64.sqrt()]), generator);
    }
    let [mean, std] = [mean, std].map(Scalar::Double);
    draw(call, out, &[], generator, |[seed, offset]| kernels::normal::Scalars { seed, offset, mean, std }.list())
}

fn draw_whole(call: &Call<'_>, out: Tensor<'_>, (from, to): (i64, Option<i64>), generator: &Value<'_>) -> Outcome {
    let [from, count] = range(call, from, to, out.dtype())?.map(Scalar::Long);
    draw(call, out, &[], generator, |[seed, offset]| kernels::random::Scalars { seed, offset, from, count }.list())
}

/// `uniform_`.
pub fn uniform(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, from, to, generator] = arguments.all()?;
    draw_uniform(call, this.tensor()?, [from.double()?, to.double()?], generator)
}

/// `normal_`.
pub fn normal(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, mean, std, generator] = arguments.all()?;
    draw_normal(call, this.tensor()?, [mean.double()?, std.double()?], generator)
}

/// `exponential_`.
pub fn exponential(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, lambda, generator] = arguments.all()?;
    let (this, lambda) = (this.tensor()?, lambda.double()?);
    ensure!(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda={}", NumberText(lambda));
    if this.numel() == 0 {
        return Ok(());
    }
    let (dtype, text) = (this.dtype(), "exponential_ draws floating-point numbers, but the tensor has dtype");
    ensure!(FLOATING.and(FLOAT8).contains(dtype), "{text} {dtype:?}");
    let lambda = Scalar::Double(lambda);
    draw(call, this, &[], generator, |[seed, offset]| kernels::exponential::Scalars { seed, offset, lambda }.list())
}

/// `bernoulli_` with one probability.
pub fn trials(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, p, generator] = arguments.all()?;
    let (this, p) = (this.tensor()?, p.double()?);
    ensure!((0.0..=1.0).contains(&p), "bernoulli_ expects p to be in [0, 1], but got p={}", NumberText(p));
    let p = Scalar::Double(p);
    draw(call, this, &[], generator, |[seed, offset]| kernels::bernoulli_scalar::Scalars { seed, offset, p }.list())
}

/// `random_` between two limits, or without an upper one.
pub fn whole_between(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, from, to, generator] = arguments.all()?;
    let to = if let Value::None = to { None } else { Some(to.integer()?) };
    draw_whole(call, this.tensor()?, (from.integer()?, to), generator)
}

/// `random_` with an upper limit.
pub fn whole_below(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, to, generator] = arguments.all()?;
    draw_whole(call, this.tensor()?, (0, Some(to.integer()?)), generator)
}
