//! Reductions. The kernels get [outputs..., input] over the input's sizes; the outputs have stride 0 in reduced dimensions.
//!
//! Without `out=` tensors, sizes are computed here, at a third of the cost of PyTorch's meta functions. All other calls use the
//! meta function, which raises PyTorch's errors: dimensions out of range, dtypes, reductions of empty tensors.

use crate::call::prelude::*;
use crate::tensor::bump_arena::BumpArena;

operators! {
    c"sum": any_dtype(plain(typed!(sum_of_all))) => c"sum";
    c"mean": any_dtype(plain(typed!(mean_of_all))) => c"mean";
    c"sum": any_dtype(structured(typed!(sum))) => c"sum.dim_IntList", c"sum.IntList_out";
    c"mean": any_dtype(structured(typed!(mean))) => c"mean.dim", c"mean.out";
    c"prod": any_dtype(structured(typed!(sum))) => c"prod.dim_int", c"prod.int_out";
    c"prod": any_dtype(plain(typed!(sum_of_all))) => c"prod";
    c"amax": structured(typed!(amax)) => c"amax", c"amax.out";
    c"amin": structured(typed!(amax)) => c"amin", c"amin.out";
    c"all": any_dtype(structured(typed!(logical_of_all))) => c"all", c"all.all_out";
    c"all": any_dtype(structured(typed!(logical))) => c"all.dim", c"all.out" | c"all.dims", c"all.dims_out";
    c"any": any_dtype(structured(typed!(logical_of_all))) => c"any", c"any.all_out";
    c"any": any_dtype(structured(typed!(logical))) => c"any.dim", c"any.out" | c"any.dims", c"any.dims_out";
    c"linalg_vector_norm": any_dtype(structured(vector_norm)) => c"linalg_vector_norm", c"linalg_vector_norm.out";
    c"nansum": any_dtype(plain(typed!(nansum))) => c"nansum", c"nansum.out";
    c"count_nonzero": plain(typed!(count_nonzero)) => c"count_nonzero.dim_IntList" | c"count_nonzero";
    c"max.dim": structured(typed!(pair)) => c"max.dim", c"max.dim_max";
    c"min.dim": structured(typed!(pair)) => c"min.dim", c"min.dim_min";
    c"aminmax": structured(typed!(pair)) => c"aminmax", c"aminmax.out";
    c"amax": plain(typed!(max)) => c"max", c"max.unary_out";
    c"amin": plain(typed!(max)) => c"min", c"min.unary_out";
    c"argmax": structured(typed!(argmax)) => c"argmax", c"argmax.out";
    c"argmin": structured(typed!(argmax)) => c"argmin", c"argmin.out";
    c"var": any_dtype(plain(variance::<false>)) => c"var.correction", c"var.correction_out";
    c"std": any_dtype(plain(variance::<false>)) => c"std.correction", c"std.correction_out";
    c"var": any_dtype(plain(variance::<true>)) => c"var_mean.correction";
    c"std": any_dtype(plain(variance::<true>)) => c"std_mean.correction";
    _: plain(typed!(norm)) => c"norm.ScalarOpt_dim";
}

/// The input of a reduction, and the set of reduced dimensions as a bit mask.
struct Reduction<'a> {
    input: Tensor<'a>,
    reduced: u64,
    keepdim: bool,
}

impl<'a> Reduction<'a> {
    /// A reduction over all dimensions.
    fn of_all(input: Tensor<'a>) -> Self {
        Self { input, reduced: all_bits(input.ndim()), keepdim: false }
    }

    /// A reduction over one dimension, over a list of dimensions, or over all; an absent or empty list means all.
    fn along(input: Tensor<'a>, dims: Value<'_>, keepdim: bool) -> Result<Self, CallError> {
        let reduced = match dims {
            Value::Number(_) => bit_of(dims.get()?, input.ndim())?,
            Value::None => all_bits(input.ndim()),
            _ => {
                let dims: &[i64] = dims.get()?;
                let mut found = if dims.is_empty() { all_bits(input.ndim()) } else { 0 };
                for &dim in dims {
                    let bit = bit_of(dim, input.ndim())?;
                    ensure!(found & bit == 0, "dim {} appears multiple times in the list of dims", bit.trailing_zeros());
                    found |= bit;
                }
                found
            }
        };
        Ok(Self { input, reduced, keepdim })
    }

    fn is_reduced(&self, dim: usize) -> bool {
        self.reduced >> dim & 1 == 1
    }

    /// The sizes of the outputs.
    fn sizes<'t>(&self, arena: &'t BumpArena) -> &'t [i64] {
        let (sizes, mut next) = (self.input.sizes(), 0);
        let dropped = if self.keepdim { 0 } else { self.reduced.count_ones() as usize };
        arena.keep_all(sizes.len() - dropped, |_| {
            while !self.keepdim && self.is_reduced(next) {
                next += 1;
            }
            next += 1;
            if self.is_reduced(next - 1) { 1 } else { sizes[next - 1] }
        })
    }

    fn output<'t>(&self, call: &Call<'t>, index: usize, dtype: DType, strides: Strides) -> Result<Tensor<'t>, CallError> {
        call.contiguous(index, self.sizes(call.arena()), dtype, strides)
    }

    /// The output as a view over the input's sizes.
    fn over_input<'t>(&self, output: Tensor<'t>) -> Tensor<'t>
    where
        'a: 't,
    {
        // A meta function may take an empty list of dimensions to mean none of them.
        if output.has_sizes(self.input.sizes()) {
            return output;
        }
        let before = |dim: usize| dim - (self.reduced & ((1 << dim) - 1)).count_ones() as usize;
        let own = |dim| (!self.is_reduced(dim)).then(|| if self.keepdim { dim } else { before(dim) });
        output.over(self.input.sizes(), own)
    }

    /// Launches the kernel. `of_nothing`: the result for an empty input; if there is none, such a call goes to the fallback.
    fn launch(
        &self,
        call: &Call<'_>,
        compute: DType,
        outputs: &[Tensor<'_>],
        of_nothing: Option<f64>,
        scalars: &[Scalar],
    ) -> Outcome {
        if outputs[0].numel() == 0 {
            return Ok(());
        }
        if self.input.numel() == 0 {
            let number = of_nothing.ok_or(CallError::Fallback)?;
            return outputs.iter().try_for_each(|output| call.fill(*output, Scalar::Double(number)));
        }
        let views = call.arena().keep_all(outputs.len(), |index| self.over_input(outputs[index]));
        call.launch_in(compute, views, &[self.input], scalars)
    }
}

fn all_bits(ndim: usize) -> u64 {
    1_u64.checked_shl(ndim as u32).unwrap_or(0).wrapping_sub(1)
}

/// The bit of a dimension. A 0-dim tensor has no dimension to reduce, but 0 and -1 are valid.
fn bit_of(dim: i64, ndim: usize) -> Result<u64, CallError> {
    wrap_dim(dim, ndim).map(|dim| if ndim == 0 { 0 } else { 1 << dim })
}

/// The dtype of sums and products of a dtype.
pub fn promoted(dtype: DType) -> DType {
    if INTEGRAL.and(UNSIGNED).and(BOOL).contains(dtype) { DType::Long } else { dtype }
}

/// The outputs of a call. `usual` computes them without the meta function if there are no `out=` tensors and the input is not
/// empty.
fn outputs<'a, const N: usize>(call: &Call<'a>, usual: Option<(&Reduction<'_>, [DType; N])>) -> Result<[Tensor<'a>; N], CallError> {
    let usual = usual.filter(|(reduction, _)| call.given(0).is_none() && reduction.input.numel() > 0);
    if let Some((reduction, dtypes)) = usual {
        return each(|index| reduction.output(call, index, dtypes[index], Strides::Shared));
    }
    let shapes = call.meta()?;
    each(|index| call.output(index, &shapes[index], Strides::Shared))
}

/// Makes every output, in order.
fn each<'a, const N: usize>(make: impl Fn(usize) -> Result<Tensor<'a>, CallError>) -> Result<[Tensor<'a>; N], CallError> {
    let mut made = [make(0)?; N];
    for (index, output) in made.iter_mut().enumerate().skip(1) {
        *output = make(index)?;
    }
    Ok(made)
}

/// Runs a reduction with one output over the dimensions of an argument. `usual`: the output's dtype, or `None` to use the meta
/// function.
fn reduce(
    call: &Call<'_>,
    (input, dims, keepdim): (Tensor<'_>, Value<'_>, bool),
    usual: Option<DType>,
    compute: Option<DType>,
    of_nothing: Option<f64>,
    scalars: &[Scalar],
) -> Outcome {
    let reduction = Reduction::along(input, dims, keepdim);
    let usual = usual.and_then(|dtype| Some((reduction.as_ref().ok()?, [dtype])));
    let outputs = outputs(call, usual)?;
    let compute = compute.unwrap_or(outputs[0].dtype());
    take_if(call.takes(compute))?;
    reduction?.launch(call, compute, &outputs, of_nothing, scalars)
}

/// The sum or product of nothing.
fn of_nothing(call: &Call<'_>) -> f64 {
    if call.kernel_name() == "prod" { 1.0 } else { 0.0 }
}

/// `sum` along dimensions, and `prod` along one.
pub fn sum(call: &Call<'_>, input: Tensor<'_>, dims: Value<'_>, keepdim: bool, dtype: Option<DType>) -> Outcome {
    let usual = dtype.unwrap_or(promoted(input.dtype()));
    reduce(call, (input, dims, keepdim), Some(usual), None, Some(of_nothing(call)), &[])
}

/// `sum` and `prod` of all elements.
pub fn sum_of_all(call: &Call<'_>, input: Tensor<'_>, dtype: Option<DType>) -> Outcome {
    add_up(&Reduction::of_all(input), call, dtype.unwrap_or(promoted(input.dtype())), of_nothing(call))
}

/// `mean` of all elements.
pub fn mean_of_all(call: &Call<'_>, input: Tensor<'_>, dtype: Option<DType>) -> Outcome {
    let dtype = dtype.unwrap_or(input.dtype());
    ensure!(FIELD.contains(dtype));
    add_up(&Reduction::of_all(input), call, dtype, f64::NAN)
}

/// `mean` along dimensions.
pub fn mean(call: &Call<'_>, input: Tensor<'_>, dims: Value<'_>, keepdim: bool, dtype: Option<DType>) -> Outcome {
    if call.given(0).is_some() {
        // Among the reductions with a meta function, only this one refuses an `out=` tensor with overlapping elements.
        call.output(0, &call.shape()?, Strides::Any)?;
    }
    let usual = Some(dtype.unwrap_or(input.dtype())).filter(|&dtype| FIELD.contains(dtype));
    reduce(call, (input, dims, keepdim), usual, None, Some(f64::NAN), &[])
}

/// `amax` and `amin`.
pub fn amax(call: &Call<'_>, input: Tensor<'_>, dims: Value<'_>, keepdim: bool) -> Outcome {
    reduce(call, (input, dims, keepdim), Some(input.dtype()), None, None, &[])
}

/// `all` and `any` along dimensions, which compute in Bool. The result is Bool, for a Byte input Byte.
pub fn logical(call: &Call<'_>, input: Tensor<'_>, dims: Value<'_>, keepdim: bool) -> Outcome {
    let dtype = if input.dtype() == DType::Byte { DType::Byte } else { DType::Bool };
    // An empty list means none of the dimensions.
    let usual = Some(dtype).filter(|_| !matches!(dims, Value::Integers([])));
    let of_nothing = if call.kernel_name() == "all" { 1.0 } else { 0.0 };
    reduce(call, (input, dims, keepdim), usual, Some(DType::Bool), Some(of_nothing), &[])
}

/// `all` and `any` of all elements.
pub fn logical_of_all(call: &Call<'_>, input: Tensor<'_>) -> Outcome {
    logical(call, input, Value::None, false)
}

pub fn vector_norm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, order, dims, keepdim, given): (Tensor<'_>, Scalar, _, _, Option<DType>) = arguments.typed()?;
    let (own, order) = (input.dtype(), order.to::<f64>());
    let usual = Some(own).filter(|&own| given.is_none() && FLOATING.contains(own));
    let of_nothing = if order < 0.0 { f64::INFINITY } else { 0.0 };
    reduce(call, (input, dims, keepdim), usual, Some(given.unwrap_or(own)), Some(of_nothing), &[Scalar::Double(order)])
}

/// `norm` along dimensions.
pub fn norm(call: &Call<'_>, input: Tensor<'_>, order: Option<Scalar>, dims: Value<'_>, keepdim: bool) -> Outcome {
    ensure!(input.dtype().is_complex() || is_floating(input.dtype()));
    let order = order.unwrap_or(Scalar::Double(2.0)).into();
    call.give(0, call.operator(&callees::VECTOR_NORM, &[input.into(), order, dims, keepdim.into(), Value::None])?)
}

/// `nansum`; for integers this is `sum`.
pub fn nansum(call: &Call<'_>, input: Tensor<'_>, dims: Value<'_>, keepdim: bool, dtype: Option<DType>) -> Outcome {
    let given = call.given(0);
    let is_taken = given.is_none_or(|given| given.device() >= 0 && dtype.is_none_or(|dtype| dtype == given.dtype()));
    let is_floating = FLOATING.contains(input.dtype());
    let sums = !is_floating && given.is_none() && promoted(input.dtype()) == DType::Long;
    take_if(is_taken && (is_floating || sums))?;
    let reduction = Reduction::along(input, dims, keepdim)?;
    let dtype = dtype.unwrap_or(given.map_or(promoted(input.dtype()), Tensor::dtype));
    add_up(&reduction, &if sums { call.with_kernel(kernel!(c"sum")) } else { *call }, dtype, 0.0)
}

/// Runs a reduction that computes in the output's dtype.
fn add_up(reduction: &Reduction<'_>, call: &Call<'_>, dtype: DType, of_nothing: f64) -> Outcome {
    take_if(call.takes(dtype))?;
    let out = reduction.output(call, 0, dtype, Strides::Shared)?;
    reduction.launch(call, dtype, &[out], Some(of_nothing), &[])
}

/// `count_nonzero` along dimensions.
pub fn count_nonzero(call: &Call<'_>, input: Tensor<'_>, dims: Value<'_>) -> Outcome {
    let reduction = Reduction::along(input, dims, false)?;
    let out = reduction.output(call, 0, DType::Long, Strides::Any)?;
    reduction.launch(call, input.dtype(), &[out], Some(0.0), &[])
}

// ---- minimum and maximum ----

/// `max` and `min` along a dimension, with indices, and `aminmax`. The outputs may not overlap the input.
pub fn pair(call: &Call<'_>, input: Tensor<'_>, dims: Value<'_>, keepdim: bool) -> Outcome {
    let second = if call.kernel_name() == "aminmax" { input.dtype() } else { DType::Long };
    let reduction = Reduction::along(input, dims, keepdim);
    let outputs = outputs(call, reduction.as_ref().ok().map(|reduction| (reduction, [input.dtype(), second])))?;
    for (_, output) in outputs.iter().enumerate().filter(|(index, _)| call.given(*index).is_some()) {
        output.check_no_internal_overlap()?;
        output.check_no_overlap(input)?;
    }
    take_if(call.takes(outputs[0].dtype()))?;
    reduction?.launch(call, outputs[0].dtype(), &outputs, None, &[])
}

/// `max` and `min` of all elements.
pub fn max(call: &Call<'_>, input: Tensor<'_>) -> Outcome {
    let text = "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.";
    ensure!(input.numel() > 0, "{}(): {text}", call.kernel_name().trim_start_matches('a'));
    if let Some(out) = call.given(0) {
        let (found, wanted) = (out.dtype(), input.dtype());
        ensure!(found == wanted, "expected scalar_type {wanted:?} but found {found:?}");
    }
    let reduction = Reduction::of_all(input);
    let out = reduction.output(call, 0, input.dtype(), Strides::Shared)?;
    reduction.launch(call, input.dtype(), &[out], None, &[])
}

/// `argmax` and `argmin`, along one dimension or over the flattened tensor.
pub fn argmax(call: &Call<'_>, input: Tensor<'_>, dim: Value<'_>, keepdim: bool) -> Outcome {
    if !dim.is_none() {
        return reduce(call, (input, dim, keepdim), Some(DType::Long), Some(input.dtype()), None, &[]);
    }
    let reduction = Reduction { keepdim, ..Reduction::of_all(input) };
    let outputs = outputs(call, Some((&reduction, [DType::Long])))?;
    take_if(call.takes(input.dtype()))?;
    let line = call.dense(input, Format::Contiguous)?.view(&[input.numel()]);
    Reduction::of_all(line).launch(call, input.dtype(), &[outputs[0].view(&[])], None, &[])
}

// ---- variance ----

/// Variance or standard deviation of real numbers and, as a second output, the mean.
fn moments(call: &Call<'_>, arguments: &[Value<'_>; 4], with_mean: bool) -> Outcome {
    let [input, dims, correction, keepdim] = arguments;
    let (input, correction): (Tensor<'_>, Option<Scalar>) = (input.get()?, correction.get()?);
    let is_taken = call.given(0).is_none_or(|given| given.dtype() == input.dtype() && given.device() >= 0);
    take_if(call.takes(input.dtype()) && is_taken)?;
    let correction = correction.map_or(1.0, Scalar::to);
    let reduction = Reduction::along(input, *dims, keepdim.get()?)?;
    let made = |index| reduction.output(call, index, input.dtype(), Strides::Shared);
    let outputs = (0..=usize::from(with_mean)).map(made).collect::<Result<Tensors<'_>, _>>()?;
    let results = outputs[0].numel();
    if results == 0 || (input.numel() / results) as f64 <= correction {
        let name = format!("{}{}", call.kernel_name(), if with_mean { "_mean" } else { "" });
        let text = "degrees of freedom is <= 0. Correction should be strictly less than the reduction factor";
        call.warn(&format!("{name}(): {text} (input numel divided by output numel)."))?;
    }
    reduction.launch(call, input.dtype(), &outputs, Some(f64::NAN), &[Scalar::Double(correction)])
}

/// The variance of complex numbers: the sum of the variances of their real and imaginary parts.
fn of_parts<'a>(call: &Call<'a>, arguments: &[Value<'_>; 4]) -> Result<Tensor<'a>, CallError> {
    let [input, dims, correction, keepdim] = arguments;
    let variance_of = |part| {
        let part = Value::Tensor(call.operator(part, &[*input])?);
        call.operator(&callees::VAR, &[part, *dims, *correction, *keepdim])
    };
    let (real, imaginary) = (variance_of(&callees::REAL)?, variance_of(&callees::IMAG)?);
    let out = call.contiguous(0, real.sizes(), real.dtype(), Strides::Any)?;
    call.operator(&callees::ADD_OUT, &[real.into(), imaginary.into(), 1.into(), out.into()])?;
    if call.kernel_name() == "std" {
        call.operator(&callees::SQRT_IN_PLACE, &[Value::Tensor(out)])?;
    }
    Ok(out)
}

pub fn variance<const WITH_MEAN: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (arguments, dtype) = (arguments.all()?, arguments.tensor(0)?.dtype());
    ensure!(FLOATING.and(COMPLEX).contains(dtype));
    if !dtype.is_complex() || call.given(0).is_some() || (WITH_MEAN && dtype == DType::ComplexHalf) {
        return moments(call, arguments, WITH_MEAN);
    }
    let [input, dims, _, keepdim] = *arguments;
    let variance = of_parts(call, arguments)?;
    if !WITH_MEAN {
        return Ok(());
    }
    let mean = call.contiguous(1, variance.sizes(), dtype, Strides::Any)?;
    call.operator(&callees::MEAN_OUT, &[input, dims, keepdim, Value::None, Value::Tensor(mean)]).map(drop)
}
