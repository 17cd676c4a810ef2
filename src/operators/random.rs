//! Random numbers: tensors that are filled from a distribution, and operators that draw for each element of a tensor. The kernels
//! start from the state of a generator.

use super::call::{Arguments, Call, CallError, Outcome, Shape, Strides, Value, broadcast, ensure};
use super::callees;
use super::dtypes::{greatest_finite, is_floating};
use super::factories::{split, wrong};
use super::random_integers::range;
use super::tensors::{Format, Tensor, dims};
use crate::kernels::random as kernels;
use crate::tensor::dtype::{COMPLEX, DType, DTypeSet, FLOATING, WIDE};
use crate::tensor::launch::Scalar;

/// Random numbers that every launch reserves, whatever its size: one Philox block of each subsequence.
pub const NUMBERS: u64 = 4;

/// Launches the kernel over a tensor, which must not overlap itself. `scalars` makes the kernel's scalars from the generator's
/// state.
fn draw<const N: usize>(
    call: &Call<'_>,
    out: Tensor<'_>,
    inputs: &[Tensor<'_>],
    generator: Value<'_>,
    scalars: impl FnOnce([Scalar; 2]) -> [Scalar; N],
) -> Outcome {
    if out.numel() == 0 {
        return Ok(());
    }
    out.check_no_internal_overlap()?;
    let state = call.reserve(generator, NUMBERS)?;
    call.launch(&[out], inputs, &scalars(state))
}

/// In-place operators with parameters that a condition holds for.
macro_rules! fills {
    ($($name:ident($out:ident, $($parameter:ident),+) if $condition:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "_`.")]
        pub fn $name(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
            let [$out, $($parameter,)+ generator] = arguments.all()?;
            let ($out, $($parameter),+) = ($out.tensor()?, $($parameter.get::<f64>()?),+);
            ensure!($condition);
            draw(call, $out, &[], *generator, |[seed, offset]| {
                kernels::$name::Scalars { seed, offset, $($parameter: Scalar::Double($parameter)),+ }.list()
            })
        }
    )*};
}

fills! {
    bernoulli_scalar(out, p) if (0.0..=1.0).contains(&p);
    cauchy(out, median, sigma) if sigma > 0.0 && is_floating(out.dtype());
    exponential(out, lambda) if lambda > 0.0 && (out.numel() == 0 || is_floating(out.dtype()));
    geometric(out, p) if 0.0 < p && p < 1.0;
    log_normal(out, mean, std) if std > 0.0;
}

/// The distribution that a tensor is filled from.
#[derive(Clone, Copy)]
pub enum Distribution {
    /// Uniform from the first number to below the second.
    Uniform([f64; 2]),
    /// Normal with a mean and a standard deviation.
    Normal([f64; 2]),
    /// Integers from the first number to below the second, or to the dtype's limit.
    Integers(i64, Option<i64>),
}

/// Complex dtypes.
const OF_PARTS: DTypeSet = COMPLEX.and(DTypeSet::of(&[DType::ComplexBFloat16]));

impl Distribution {
    /// Fills a tensor with the operator's kernel.
    pub fn draw(self, call: &Call<'_>, out: Tensor<'_>, generator: Value<'_>) -> Outcome {
        match self {
            Self::Uniform(limits @ [from, to]) => {
                if OF_PARTS.contains(out.dtype()) {
                    return self.draw_parts(call, out, generator);
                }
                let greatest = greatest_finite(out.dtype()).unwrap_or(f64::NAN);
                ensure!(limits.iter().all(|limit| limit.abs() <= greatest) && from <= to && to - from <= greatest);
                let [from, to] = limits.map(Scalar::Double);
                draw(call, out, &[], generator, |[seed, offset]| kernels::uniform::Scalars { seed, offset, from, to }.list())
            }
            Self::Normal([mean, std]) => {
                ensure!(std >= 0.0);
                if OF_PARTS.contains(out.dtype()) {
                    // Each part has half of the variance.
                    return Self::Normal([mean, std / 2.0_f64.sqrt()]).draw_parts(call, out, generator);
                }
                let [mean, std] = [mean, std].map(Scalar::Double);
                draw(call, out, &[], generator, |[seed, offset]| kernels::normal::Scalars { seed, offset, mean, std }.list())
            }
            Self::Integers(from, to) => {
                let [from, count] = range(call, from, to, out.dtype())?.map(Scalar::Long);
                draw(call, out, &[], generator, |[seed, offset]| kernels::random::Scalars { seed, offset, from, count }.list())
            }
        }
    }

    /// Fills the real and imaginary parts of a complex tensor.
    fn draw_parts(self, call: &Call<'_>, out: Tensor<'_>, generator: Value<'_>) -> Outcome {
        if out.numel() == 0 {
            return Ok(());
        }
        self.draw(call, call.operator(&callees::VIEW_AS_REAL, &[Value::Tensor(out)])?, generator)
    }

    /// Fills a tensor on any device by calling the in-place operator.
    pub fn draw_anywhere(self, call: &Call<'_>, out: Tensor<'_>) -> Outcome {
        let (operator, [first, second]) = match self {
            Self::Uniform(limits) => (&callees::UNIFORM, limits.map(Value::from)),
            Self::Normal(parameters) => (&callees::NORMAL, parameters.map(Value::from)),
            Self::Integers(from, to) => (&callees::RANDOM_FROM, [from.into(), to.map_or(Value::None, Value::from)]),
        };
        call.operator(operator, &[Value::Tensor(out), first, second, Value::None]).map(drop)
    }
}

pub fn uniform(call: &Call<'_>, this: Tensor<'_>, from: f64, to: f64, generator: Value<'_>) -> Outcome {
    Distribution::Uniform([from, to]).draw(call, this, generator)
}

pub fn normal(call: &Call<'_>, this: Tensor<'_>, mean: f64, std: f64, generator: Value<'_>) -> Outcome {
    Distribution::Normal([mean, std]).draw(call, this, generator)
}

/// `random_` between two limits, or without an upper one.
pub fn random_from(call: &Call<'_>, this: Tensor<'_>, from: i64, to: Option<i64>, generator: Value<'_>) -> Outcome {
    Distribution::Integers(from, to).draw(call, this, generator)
}

/// `random_` with an upper limit.
pub fn random_to(call: &Call<'_>, this: Tensor<'_>, to: i64, generator: Value<'_>) -> Outcome {
    Distribution::Integers(0, Some(to)).draw(call, this, generator)
}

/// The number of values of `random_` without limits, modulo 2^64: the non-negative integers up to which the dtype is exact.
/// `None` for dtypes that PyTorch does not support.
fn values_of(dtype: DType) -> Option<u64> {
    use DType::{BFloat16, Bool, Byte, Char, Double, Float, Half, Int, Long, Short};
    Some(match dtype {
        Bool => 2,
        Byte => 1 << 8,
        Char => 1 << 7,
        Short => 1 << 15,
        Int => 1 << 31,
        Long => 1 << 63,
        BFloat16 => (1 << 8) + 1,
        Half => (1 << 11) + 1,
        Float => (1 << 24) + 1,
        Double => (1 << 53) + 1,
        _ => return None,
    })
}

/// `random_` without limits.
pub fn random(call: &Call<'_>, out: Tensor<'_>, generator: Value<'_>) -> Outcome {
    if out.numel() == 0 {
        return Ok(());
    }
    let count = values_of(out.dtype()).ok_or(CallError::CpuError)?;
    draw(call, out, &[], generator, |[seed, offset]| {
        kernels::random::Scalars { seed, offset, from: Scalar::Long(0), count: Scalar::Long(count as i64) }.list()
    })
}

/// Draws a Bernoulli trial for each probability.
fn trials(call: &Call<'_>, out: Tensor<'_>, p: Tensor<'_>, generator: Value<'_>) -> Outcome {
    if out.numel() == 0 {
        return Ok(());
    }
    out.check_no_internal_overlap()?;
    ensure!(FLOATING.contains(p.dtype()));
    let p = call.on_device(out.device(), p)?;
    let (own, common) = (out.sizes(), broadcast(out.sizes(), p.sizes())?);
    ensure!(own == &common[..], "output with shape {own:?} doesn't match the broadcast shape {common:?}");
    let each = p.expanded(own)?;
    out.check_no_partial_overlap(each)?;
    draw(call, out, &[each], generator, |[seed, offset]| kernels::bernoulli::Scalars { seed, offset }.list())
}

/// `bernoulli_` with a tensor of probabilities.
pub fn bernoulli(call: &Call<'_>, out: Tensor<'_>, p: Tensor<'_>, generator: Value<'_>) -> Outcome {
    trials(call, out, p, generator)
}

/// `bernoulli.out`, whose input holds the probabilities.
pub fn bernoulli_out(call: &Call<'_>, p: Tensor<'_>, generator: Value<'_>) -> Outcome {
    let given = call.given(0);
    let dtype = given.map_or(p.dtype(), Tensor::dtype);
    if let Some(given) = given.filter(|given| given.sizes() != p.sizes()) {
        call.resize(given, p.sizes())?;
    }
    let out = call.contiguous(0, p.sizes(), dtype, Strides::Any)?;
    trials(call, out, p, generator)
}

pub fn poisson(call: &Call<'_>, rate: Tensor<'_>, generator: Value<'_>) -> Outcome {
    ensure!(FLOATING.contains(rate.dtype()));
    let out = call.contiguous(0, rate.sizes(), rate.dtype(), Strides::Any)?;
    draw(call, out, &[rate], generator, |[seed, offset]| kernels::discrete::poisson::Scalars { seed, offset }.list())
}

pub fn binomial(call: &Call<'_>, trials: Tensor<'_>, p: Tensor<'_>, generator: Value<'_>) -> Outcome {
    let dtype = trials.dtype();
    ensure!(WIDE.contains(dtype) && p.dtype() == dtype);
    let sizes = broadcast(trials.sizes(), p.sizes())?;
    let out = call.contiguous(0, &sizes, dtype, Strides::Any)?;
    let (trials, p) = (trials.expanded(&sizes)?, p.expanded(&sizes)?);
    draw(call, out, &[trials, p], generator, |[seed, offset]| kernels::discrete::binomial::Scalars { seed, offset }.list())
}

/// An error if the dtype cannot represent all numbers below `count`.
fn check_count(call: &Call<'_>, count: i64, dtype: DType) -> Outcome {
    let is_limited = [DType::Half, DType::Float, DType::Double].contains(&dtype);
    let greatest = values_of(dtype).filter(|_| is_limited).map_or(i64::MAX, |count| count as i64);
    ensure!((0..=greatest).contains(&count));
    call.check_number(Scalar::Long((count - 1).max(0)), dtype)
}

/// Writes a random permutation of the numbers below `count` to a contiguous tensor.
fn permute(call: &Call<'_>, out: Tensor<'_>, generator: Value<'_>) -> Outcome {
    draw(call, out, &[], generator, |[seed, offset]| kernels::randperm::Scalars { seed, offset }.list())
}

pub fn permutation_out(call: &Call<'_>, count: i64, generator: Value<'_>) -> Outcome {
    let given = call.given(0);
    let given = given.ok_or_else(|| CallError::Invalid("internal error: randperm without an output".into()))?;
    let dtype = given.dtype();
    check_count(call, count, dtype)?;
    let given = if given.sizes() == [count] { given } else { call.resize(given, &[count])? };
    let shape = Shape::new(&[count], dtype, Format::Contiguous);
    if given.check_no_internal_overlap().is_err() {
        let dense = call.empty(&[count], dtype)?;
        permute(call, dense, generator)?;
        // The single element of an expanded output gets any of the numbers.
        return call.copy(given.row(0), dense.row(0));
    }
    let out = call.output(0, &shape, Strides::Copied)?;
    permute(call, out, generator)
}

/// `randperm`, in one overload with a generator.
pub fn permutation(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (numbers, options) = split(arguments)?;
    let (count, generator) = match numbers {
        [count] => (count.get()?, Value::None),
        [count, generator] => (count.get()?, *generator),
        _ => return Err(wrong(arguments)),
    };
    let dtype = options.dtype.unwrap_or(DType::Long);
    check_count(call, count, dtype)?;
    options.check()?;
    let out = call.contiguous(0, &[count], dtype, Strides::Any)?;
    permute(call, out, generator)
}

/// Waits for the standard deviations and returns an error if one is negative.
fn check_deviations(call: &Call<'_>, std: Tensor<'_>, other: Tensor<'_>) -> Outcome {
    ensure!(!COMPLEX.contains(std.dtype()));
    if std.numel() == 0 {
        return Ok(());
    }
    let std = call.on_device(other.device(), std)?;
    let least = call.operator(&callees::MIN, &[Value::Tensor(std)])?;
    let is_valid = call.operator(&callees::GE, &[Value::Tensor(least), 0.into()])?;
    let reason = c"normal with a tensor of deviations (the least one is read on the host)";
    ensure!(call.read(is_valid, reason)? != 0, "normal expects all elements of std >= 0.0");
    Ok(())
}

/// `normal` with means and standard deviations, one of which may be a number.
pub fn normal_of_tensors(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [mean, std, generator] = arguments.all()?;
    let first = arguments.tensors().next().ok_or_else(|| CallError::Invalid("internal error: normal of numbers".into()))?;
    let given = call.given(0);
    let width = if let Value::Tensor(std) = std {
        check_deviations(call, *std, first)?;
        1.0
    } else {
        let std = std.get()?;
        ensure!(std >= 0.0);
        std
    };
    let sizes = match (mean, std) {
        (Value::Tensor(mean), Value::Tensor(std)) => broadcast(mean.sizes(), std.sizes())?,
        (Value::Tensor(mean), _) => broadcast(mean.sizes(), given.unwrap_or(*mean).sizes())?,
        _ => dims(first.sizes(), |size| size),
    };
    let dtype = given.unwrap_or(first).dtype();
    let out = call.contiguous(0, &sizes, dtype, Strides::Any)?;
    let target = Value::Tensor(out);
    call.operator(&callees::NORMAL, &[target, 0.0.into(), width.into(), *generator])?;
    if let Value::Tensor(_) = std {
        call.operator(&callees::MUL_IN_PLACE, &[target, *std])?;
    }
    let mean = if let Value::Tensor(mean) = mean {
        *mean
    } else {
        // A number is rounded to the dtype before it is added.
        let made = call.empty(&[], dtype)?;
        call.fill(made, mean.get()?)?;
        made
    };
    call.operator(&callees::ADD_IN_PLACE, &[target, Value::Tensor(mean), 1.into()]).map(drop)
}
