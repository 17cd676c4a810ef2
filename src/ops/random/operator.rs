//! Random numbers: tensors that are filled from a distribution, operators that draw for each element of a tensor, dropout, and
//! `multinomial`. The kernels start from the state of a generator.

mod integers;

use super::kernel as kernels;
use crate::call::dtypes::greatest_finite;
use crate::call::prelude::*;
use crate::call::tensors::{Dims, Format, Tensor, dims, joint_strides};
use integers::range;

operators! {
    // random numbers, which check dtypes first: a refused call must not reserve random numbers
    c"log_normal_": any_dtype(plain(log_normal)) => c"log_normal_";
    c"geometric_": any_dtype(plain(geometric)) => c"geometric_";
    c"cauchy_": any_dtype(plain(cauchy)) => c"cauchy_";
    c"random_": any_dtype(plain(typed!(random))) => c"random_";
    c"bernoulli_": any_dtype(plain(typed!(bernoulli))) => c"bernoulli_.Tensor";
    c"bernoulli_": any_dtype(plain(typed!(bernoulli_out))) => c"bernoulli.out";
    c"poisson": any_dtype(plain(typed!(poisson))) => c"poisson";
    c"randperm": any_dtype(plain(typed!(permutation))) => c"randperm.generator_out";
    c"binomial": any_dtype(plain(typed!(binomial))) => c"binomial";
    c"multinomial": any_device(plain(typed!(multinomial))) => c"multinomial", c"multinomial.out";
    c"uniform_": any_dtype(plain(typed!(uniform))) => c"uniform_";
    c"normal_": any_dtype(plain(typed!(normal))) => c"normal_";
    c"exponential_": any_dtype(plain(exponential)) => c"exponential_";
    c"bernoulli_.float": any_dtype(plain(bernoulli_scalar)) => c"bernoulli_.float";
    c"random_": any_dtype(plain(typed!(random_from))) => c"random_.from";
    c"random_": any_dtype(plain(typed!(random_to))) => c"random_.to";
    c"native_dropout": any_dtype(plain(typed!(dropout))) => c"native_dropout";
    c"native_dropout_backward": any_dtype(plain(typed!(dropout_backward))) => c"native_dropout_backward";
    _: plain(normal_of_tensors) =>
        c"normal.Tensor_float", c"normal.Tensor_float_out" | c"normal.float_Tensor", c"normal.float_Tensor_out" |
        c"normal.Tensor_Tensor", c"normal.Tensor_Tensor_out";
}

/// Random numbers that every launch reserves, whatever its size: one Philox block of each subsequence.
const NUMBERS: u64 = 4;

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

/// The real numbers of a tensor: a complex tensor's parts. `None` if that is empty.
fn reals<'a>(call: &Call<'a>, out: Tensor<'a>) -> Result<Option<Tensor<'a>>, CallError> {
    if !out.dtype().is_complex() || out.numel() == 0 {
        return Ok(Some(out).filter(|out| !out.dtype().is_complex()));
    }
    call.operator(&callees::VIEW_AS_REAL, &[Value::Tensor(out)]).map(Some)
}

pub fn uniform(call: &Call<'_>, out: Tensor<'_>, from: f64, to: f64, generator: Value<'_>) -> Outcome {
    let Some(out) = reals(call, out)? else { return Ok(()) };
    let greatest = greatest_finite(out.dtype()).unwrap_or(f64::NAN);
    ensure!(from.abs() <= greatest && to.abs() <= greatest && from <= to && to - from <= greatest);
    let [from, to] = [from, to].map(Scalar::Double);
    draw(call, out, &[], generator, |[seed, offset]| kernels::uniform::Scalars { seed, offset, from, to }.list())
}

/// `normal_`. Each part of a complex number has half of the variance.
pub fn normal(call: &Call<'_>, out: Tensor<'_>, mean: f64, std: f64, generator: Value<'_>) -> Outcome {
    ensure!(std >= 0.0);
    let std = if out.dtype().is_complex() { std / 2.0_f64.sqrt() } else { std };
    let Some(out) = reals(call, out)? else { return Ok(()) };
    let [mean, std] = [mean, std].map(Scalar::Double);
    draw(call, out, &[], generator, |[seed, offset]| kernels::normal::Scalars { seed, offset, mean, std }.list())
}

/// `random_` between two limits, or without an upper one.
pub fn random_from(call: &Call<'_>, out: Tensor<'_>, from: i64, to: Option<i64>, generator: Value<'_>) -> Outcome {
    let [from, count] = range(call, from, to, out.dtype())?.map(Scalar::Long);
    draw(call, out, &[], generator, |[seed, offset]| kernels::random::Scalars { seed, offset, from, count }.list())
}

/// `random_` with an upper limit.
pub fn random_to(call: &Call<'_>, out: Tensor<'_>, to: i64, generator: Value<'_>) -> Outcome {
    random_from(call, out, 0, Some(to), generator)
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

/// `bernoulli_` with a tensor of probabilities.
pub fn bernoulli(call: &Call<'_>, out: Tensor<'_>, p: Tensor<'_>, generator: Value<'_>) -> Outcome {
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

/// `bernoulli.out`, whose input holds the probabilities.
pub fn bernoulli_out(call: &Call<'_>, p: Tensor<'_>, generator: Value<'_>) -> Outcome {
    let given = call.given(0);
    let dtype = given.map_or(p.dtype(), Tensor::dtype);
    if let Some(given) = given.filter(|given| given.sizes() != p.sizes()) {
        call.resize(given, p.sizes())?;
    }
    let out = call.contiguous(0, p.sizes(), dtype, Strides::Any)?;
    bernoulli(call, out, p, generator)
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

/// `randperm.generator_out`.
pub fn permutation(call: &Call<'_>, count: i64, generator: Value<'_>) -> Outcome {
    let given = call.given(0);
    let given = given.ok_or_else(|| CallError::Invalid("internal error: randperm without an output".into()))?;
    let dtype = given.dtype();
    // The dtype must represent all of the numbers.
    let is_limited = [DType::Half, DType::Float, DType::Double].contains(&dtype);
    let greatest = values_of(dtype).filter(|_| is_limited).map_or(i64::MAX, |count| count as i64);
    ensure!((0..=greatest).contains(&count));
    call.check_number(Scalar::Long((count - 1).max(0)), dtype)?;
    let given = if given.sizes() == [count] { given } else { call.resize(given, &[count])? };
    let permute = |out| draw(call, out, &[], generator, |[seed, offset]| kernels::randperm::Scalars { seed, offset }.list());
    if given.check_no_internal_overlap().is_err() {
        let dense = call.empty(&[count], dtype)?;
        permute(dense)?;
        // The single element of an expanded output gets any of the numbers.
        return call.copy(given.row(0), dense.row(0));
    }
    permute(call.contiguous(0, &[count], dtype, Strides::Copied)?)
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
    ensure!(call.read(is_valid, reason, 1)? != 0, "normal expects all elements of std >= 0.0");
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

// ---- dropout ----

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

pub fn dropout(call: &Call<'_>, input: Tensor<'_>, p: f64, train: Option<bool>) -> Outcome {
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
    let [seed, offset] = call.reserve(Value::None, NUMBERS)?;
    let [p, scale] = [kept, scale].map(Scalar::Double);
    call.launch(&[out, mask], &[input], &kernels::native_dropout::Scalars { seed, offset, p, scale }.list())
}

/// The gradient by other operators.
fn backward_by_others(call: &Call<'_>, grad: Tensor<'_>, mask: Tensor<'_>, scale: f64) -> Outcome {
    let scaled = call.operator(&callees::MUL_NUMBER, &[Value::Tensor(call.cast(mask, grad.dtype())?), scale.into()])?;
    let product = call.operator(&callees::MUL, &[Value::Tensor(grad), Value::Tensor(scaled)])?;
    call.give(0, product)
}

pub fn dropout_backward(call: &Call<'_>, grad: Tensor<'_>, mask: Tensor<'_>, scale: f64) -> Outcome {
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

// ---- multinomial, with the checks of PyTorch's own function ----

/// A float32 counts exactly up to this number.
const MOST_CATEGORIES: i64 = 1 << 24;

const NO_WEIGHT: &str = "invalid multinomial distribution (sum of probabilities <= 0)";

/// `multinomial`. A kernel draws several samples with replacement; other cases are composed of other operators.
pub fn multinomial(call: &Call<'_>, weights: Tensor<'_>, samples: i64, with_replacement: bool, generator: Value<'_>) -> Outcome {
    let given = call.given(0);
    let is_there = given.is_none_or(|given| given.device() == weights.device());
    ensure!(is_there, "multinomial arguments must have the same device");
    ensure!((1..=2).contains(&weights.ndim()) && is_floating(weights.dtype()) && call.has_dtype(0, DType::Long));
    let categories = weights.size_from_end(0);
    ensure!(samples > 0 && categories <= MOST_CATEGORIES && (with_replacement || samples <= categories));
    let mut sizes = Dims::from(weights.sizes());
    sizes[weights.ndim() - 1] = samples;
    if let Some(given) = given.filter(|given| given.sizes() != &sizes[..]) {
        call.resize(given, &sizes)?;
    }
    let out = call.contiguous(0, &sizes, DType::Long, Strides::Shared)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if with_replacement && samples > 1 {
        return draw_with_replacement(call, out, weights, generator);
    }
    check_distribution(call, weights)?;
    draw_greatest(call, out, weights, generator)
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
    let [seed, offset] = call.reserve(generator, NUMBERS)?;
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
    // An error is raised when the stream gets there.
    let check = |value: Tensor<'_>, text| call.operators(&callees::ASSERT, &[Value::Tensor(value), Value::Text(text)], 0);
    check(is_valid, "probability tensor contains either `inf`, `nan` or element < 0")?;
    let total = call.operator(&callees::SUM, &[Value::Tensor(weights), Value::Integers(&[-1]), no, Value::None])?;
    let is_some = call.operator(&callees::NE, &[Value::Tensor(total), zero])?;
    check(call.operator(&callees::ALL, &[Value::Tensor(is_some)])?, NO_WEIGHT).map(drop)
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
