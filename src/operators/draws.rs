//! Random operators that models do not call at every step, and the part that all random operators share. The kernels start from
//! the state of a generator; the checks are those of PyTorch's own templates.

use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, Value, broadcast, ensure};
use super::descriptor::{Format, Tensor, dims};
use super::names;
use super::number_text::{NumberText, type_name};
use super::options;
use crate::kernels::random as kernels;
use crate::tensor::dtype::{COMPLEX, DType, DTypeSet, FLOAT8, FLOATING, WIDE};
use crate::tensor::launch::Scalar;

/// Random numbers that every launch reserves, whatever its size: one Philox block of each subsequence.
pub const NUMBERS: u64 = 4;

/// Launches the kernel over a tensor, which must not overlap itself. `scalars` makes the kernel's scalars from the generator's
/// state.
pub fn draw<const N: usize>(
    call: &Call<'_>,
    out: Tensor<'_>,
    inputs: &[Tensor<'_>],
    generator: &Value<'_>,
    scalars: impl FnOnce([Scalar; 2]) -> [Scalar; N],
) -> Outcome {
    if out.numel() == 0 {
        return Ok(());
    }
    out.check_no_internal_overlap()?;
    let state = call.draw(generator, NUMBERS)?;
    call.launch(&[out], inputs, &scalars(state))
}

/// `log_normal_`.
pub fn log_normal(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, mean, std, generator] = arguments.all()?;
    let (mean, std) = (mean.double()?, std.double()?);
    ensure!(std > 0.0, "log_normal_ expects std > 0.0, but found std={}", NumberText(std));
    let out = this.tensor()?;
    draw(call, out, &[], generator, |[seed, offset]| {
        kernels::log_normal::Scalars { seed, offset, mean: Scalar::Double(mean), std: Scalar::Double(std) }.list()
    })
}

/// `geometric_`.
pub fn geometric(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, p, generator] = arguments.all()?;
    let p = p.double()?;
    ensure!(0.0 < p && p < 1.0, "geometric_ expects p to be in (0, 1), but got p={}", NumberText(p));
    let out = this.tensor()?;
    draw(call, out, &[], generator, |[seed, offset]| kernels::geometric::Scalars { seed, offset, p: Scalar::Double(p) }.list())
}

/// `cauchy_`.
pub fn cauchy(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, median, sigma, generator] = arguments.all()?;
    let (median, sigma) = (median.double()?, sigma.double()?);
    ensure!(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma={}", NumberText(sigma));
    let out = this.tensor()?;
    let text = "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified";
    ensure!(FLOATING.and(FLOAT8).contains(out.dtype()), "{text} {}", type_name(out.dtype()));
    draw(call, out, &[], generator, |[seed, offset]| {
        let (median, sigma) = (Scalar::Double(median), Scalar::Double(sigma));
        kernels::cauchy::Scalars { seed, offset, median, sigma }.list()
    })
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
pub fn whole_numbers(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, generator] = arguments.all()?;
    let out = this.tensor()?;
    if out.numel() == 0 {
        return Ok(());
    }
    let dtype = out.dtype();
    let count = values_of(dtype).ok_or_else(|| Refusal::Unsupported(format!("\"random_\" not implemented for '{dtype:?}'")))?;
    draw(call, out, &[], generator, |[seed, offset]| {
        kernels::random::Scalars { seed, offset, from: Scalar::Long(0), count: Scalar::Long(count as i64) }.list()
    })
}

/// The tensor, copied to the device of another one if necessary.
fn near<'a>(call: &Call<'a>, tensor: Tensor<'a>, other: Tensor<'_>) -> Result<Tensor<'a>, Refusal> {
    if tensor.device() == other.device() {
        return Ok(tensor);
    }
    let made = call.empty(tensor.sizes(), tensor.dtype())?;
    call.copy(made, tensor)?;
    Ok(made)
}

/// Draws a Bernoulli trial for each probability.
fn trials(call: &Call<'_>, out: Tensor<'_>, p: Tensor<'_>, generator: &Value<'_>) -> Outcome {
    if out.numel() == 0 {
        return Ok(());
    }
    out.check_no_internal_overlap()?;
    let dtype = p.dtype();
    if !FLOATING.contains(dtype) {
        return Err(Refusal::Unsupported(format!("bernoulli_ expects floating-point probabilities, got {dtype:?}")));
    }
    let p = near(call, p, out)?;
    let (own, common) = (out.sizes(), broadcast(out.sizes(), p.sizes())?);
    ensure!(own == &common[..], "output with shape {own:?} doesn't match the broadcast shape {common:?}");
    let each = p.expanded(own)?;
    out.check_no_partial_overlap(each)?;
    draw(call, out, &[each], generator, |[seed, offset]| kernels::bernoulli::Scalars { seed, offset }.list())
}

/// `bernoulli_` with a tensor of probabilities.
pub fn bernoulli(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [this, p, generator] = arguments.all()?;
    let out = this.tensor()?;
    trials(call, out, p.tensor()?, generator)
}

/// `bernoulli.out`, whose input holds the probabilities.
pub fn bernoulli_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [p, generator] = arguments.all()?;
    let (p, given) = (p.tensor()?, call.given(0));
    let dtype = given.map_or(p.dtype(), Tensor::dtype);
    // Like PyTorch, this resizes the output without a warning.
    if let Some(given) = given.filter(|given| given.sizes() != p.sizes()) {
        call.operator(&names::RESIZE, &[Value::Tensor(given), Value::Integers(p.sizes()), Value::None])?;
    }
    let out = call.contiguous(0, p.sizes(), dtype, Strides::Any)?;
    trials(call, out, p, generator)
}

/// An error for an unsupported dtype, even if the tensor is empty.
fn check_dtype(name: &str, dtypes: DTypeSet, dtype: DType) -> Outcome {
    if dtypes.contains(dtype) {
        return Ok(());
    }
    Err(Refusal::Unsupported(format!("{name} is not implemented for {dtype:?}")))
}

/// `poisson`.
pub fn poisson(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rate, generator] = arguments.all()?;
    let rate = rate.tensor()?;
    check_dtype("poisson", FLOATING, rate.dtype())?;
    let out = call.contiguous(0, rate.sizes(), rate.dtype(), Strides::Any)?;
    draw(call, out, &[rate], generator, |[seed, offset]| kernels::discrete::poisson::Scalars { seed, offset }.list())
}

/// `binomial`.
pub fn binomial(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [trials, p, generator] = arguments.all()?;
    let (trials, p) = (trials.tensor()?, p.tensor()?);
    let (dtype, other) = (trials.dtype(), p.dtype());
    if let Some(refused) = [dtype, other].into_iter().find(|&dtype| !FLOATING.and(FLOAT8).contains(dtype)) {
        return Err(Refusal::Value(format!("binomial only supports floating-point dtypes, got: {refused:?}")));
    }
    check_dtype("binomial", WIDE, dtype)?;
    ensure!(dtype == other, "Found dtype {other:?} but expected {dtype:?}");
    let sizes = broadcast(trials.sizes(), p.sizes())?;
    let out = call.contiguous(0, &sizes, dtype, Strides::Any)?;
    let (trials, p) = (trials.expanded(&sizes)?, p.expanded(&sizes)?);
    draw(call, out, &[trials, p], generator, |[seed, offset]| kernels::discrete::binomial::Scalars { seed, offset }.list())
}

/// An error if the dtype cannot represent all numbers below `count`.
fn check_count(call: &Call<'_>, count: i64, dtype: DType) -> Outcome {
    ensure!(count >= 0, "n must be non-negative, got{count}");
    let (digits, text) = match dtype {
        DType::Long => return Ok(()),
        DType::Half => (11, "2049"),
        DType::Float => (24, "2^24+1"),
        DType::Double => (53, "2^53+1"),
        _ => (63, ""),
    };
    // Like PyTorch: filling a tensor with the greatest number raises the error for a dtype that cannot represent it.
    let greatest = call.empty(&[], dtype)?;
    call.fill(greatest, Scalar::Long((count - 1).max(0)))?;
    ensure!(digits == 63 || count <= (1 << digits) + 1, "n cannot be greater than {text} for {dtype:?} type.");
    Ok(())
}

/// Writes a random permutation of the numbers below `count` to a contiguous tensor.
fn permute(call: &Call<'_>, out: Tensor<'_>, generator: &Value<'_>) -> Outcome {
    draw(call, out, &[], generator, |[seed, offset]| kernels::randperm::Scalars { seed, offset }.list())
}

/// `randperm.generator_out`.
pub fn permutation_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [count, generator] = arguments.all()?;
    let (count, given) = (count.integer()?, call.given(0));
    let given = given.ok_or_else(|| Refusal::Invalid("internal error: randperm without an output".into()))?;
    let dtype = given.dtype();
    check_count(call, count, dtype)?;
    let given = if given.sizes() == [count] {
        given
    } else {
        // Like PyTorch, this resizes the output without a warning.
        call.operator(&names::RESIZE, &[Value::Tensor(given), Value::Integers(&[count]), Value::None])?
    };
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

/// `randperm.generator`.
pub fn permutation_drawn(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [count, generator, dtype, layout, _device, pinned] = arguments.all()?;
    permutation(call, count, generator, [dtype, layout, pinned])
}

/// `randperm` with the device's default generator.
pub fn permutation_of_device(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [count, dtype, layout, _device, pinned] = arguments.all()?;
    permutation(call, count, &Value::None, [dtype, layout, pinned])
}

fn permutation(call: &Call<'_>, count: &Value<'_>, generator: &Value<'_>, options: [&Value<'_>; 3]) -> Outcome {
    let ([dtype, layout, pinned], count) = (options, count.integer()?);
    ensure!(count >= 0, "n must be non-negative, got{count}");
    options::check(layout, pinned)?;
    let dtype = options::dtype_of(dtype)?.unwrap_or(DType::Long);
    check_count(call, count, dtype)?;
    let out = call.contiguous(0, &[count], dtype, Strides::Any)?;
    permute(call, out, generator)
}

/// Waits for the standard deviations and returns an error if one is negative.
fn check_deviations(call: &Call<'_>, std: Tensor<'_>, other: Tensor<'_>) -> Outcome {
    ensure!(!COMPLEX.contains(std.dtype()), "normal expects standard deviation to be non-complex");
    if std.numel() == 0 {
        return Ok(());
    }
    let std = near(call, std, other)?;
    let least = call.operator(&names::MIN, &[Value::Tensor(std)])?;
    let is_valid = call.operator(&names::GE, &[Value::Tensor(least), Value::Number(Scalar::Long(0))])?;
    let reason = c"normal with a tensor of deviations (the least one is read on the host)";
    ensure!(call.read(is_valid, reason)? != 0, "normal expects all elements of std >= 0.0");
    Ok(())
}

/// `normal` with means and standard deviations, one of which may be a number.
pub fn normal(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [mean, std, generator] = arguments.all()?;
    let first = arguments.tensors().next().ok_or_else(|| Refusal::Invalid("internal error: normal of numbers".into()))?;
    let given = call.given(0);
    let width = if let Value::Tensor(std) = std {
        check_deviations(call, *std, first)?;
        1.0
    } else {
        let std = std.double()?;
        ensure!(std >= 0.0, "normal expects std >= 0.0, but found std {}", NumberText(std));
        std
    };
    let sizes = match (mean, std) {
        (Value::Tensor(mean), Value::Tensor(std)) => broadcast(mean.sizes(), std.sizes())?,
        (Value::Tensor(mean), _) => broadcast(mean.sizes(), given.unwrap_or(*mean).sizes())?,
        _ => dims(first.sizes(), |size| size),
    };
    let dtype = given.unwrap_or(first).dtype();
    let out = call.contiguous(0, &sizes, dtype, Strides::Any)?;
    let (target, number) = (Value::Tensor(out), |value: f64| Value::Number(Scalar::Double(value)));
    call.operator(&names::NORMAL, &[target, number(0.0), number(width), *generator])?;
    if let Value::Tensor(_) = std {
        call.operator(&names::MUL_IN_PLACE, &[target, *std])?;
    }
    let mean = if let Value::Tensor(mean) = mean {
        *mean
    } else {
        // A number is rounded to the dtype before it is added.
        let made = call.empty(&[], dtype)?;
        call.fill(made, mean.number()?)?;
        made
    };
    call.operator(&names::ADD_IN_PLACE, &[target, Value::Tensor(mean), Value::Number(Scalar::Long(1))]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::table::Op;
    use crate::tensor::dtype::UNSIGNED;

    #[test]
    fn numbers_without_limits_are_those_of_the_dtype() {
        assert_eq!((values_of(DType::Char), values_of(DType::Half)), (Some(128), Some(2049)));
        let dtypes = Op::find(b"random_").unwrap().dtypes();
        for dtype in dtypes.iter() {
            assert_eq!(values_of(dtype).is_none(), UNSIGNED.contains(dtype), "{dtype:?}");
        }
    }
}
