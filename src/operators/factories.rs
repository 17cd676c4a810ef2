//! Factories: `arange`, `range`, `linspace`, `logspace`, identity matrices, the indices of triangles and of `repeat_interleave`;
//! random tensors. The shim handles the device of a new tensor.

use super::call::{Arguments, Call, CallError, Device, Outcome, Shape, Strides, Value, ensure};
use super::callees;
use super::random::Distribution;
use super::tensors::{Dims, Format, Tensor};
use crate::kernels::movement::range_factories::{
    arange as arange_kernel, linspace as linspace_kernel, logspace as logspace_kernel,
};
use crate::kernels::movement::triangle::tril_indices as triangle_kernel;
use crate::tensor::dtype::{DType, INTEGRAL, UNSIGNED};
use crate::tensor::launch::Scalar;

const NO_INPUTS: &[Tensor<'_>] = &[];

/// The options of a factory.
pub struct Options {
    pub dtype: Option<DType>,
    layout: Option<i64>,
    pinned: Option<bool>,
}

impl Options {
    /// An error if the layout is not strided or the memory is pinned.
    pub fn check(&self) -> Outcome {
        ensure!(self.pinned != Some(true), "Only dense CPU tensors can be pinned");
        let names = ["Strided", "Sparse", "SparseCsr", "Mkldnn", "SparseCsc", "SparseBsr", "SparseBsc", "Jagged"];
        let number = self.layout.unwrap_or(0);
        let name = usize::try_from(number).ok().and_then(|number| names.get(number)).unwrap_or(&"unknown");
        ensure!(number == 0, "rustdev: empty does not take the layout {name}");
        Ok(())
    }
}

/// The arguments in front of a factory's options, and the options: dtype, layout, device, pinned memory.
pub fn split<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<(&'v [Value<'a>], Options), CallError> {
    let (others, [dtype, layout, _device, pinned]) = arguments.split_last_chunk().ok_or_else(|| wrong(arguments))?;
    Ok((others, Options { dtype: dtype.get()?, layout: layout.get()?, pinned: pinned.get()? }))
}

pub fn wrong(arguments: &[Value<'_>]) -> CallError {
    CallError::Invalid(format!("internal error: {} arguments of a factory", arguments.len()))
}

// ---- random tensors ----

/// The options of `empty_like`: dtype, layout, device, pinned memory, memory format.
type OptionsLike = (Option<DType>, Option<i64>, Option<Device>, Option<bool>, Option<i64>);

/// The shape of `empty_like` for a tensor. `None` if PyTorch's own function must make it: other layouts, other devices, pinned
/// memory, channels-last formats.
fn shape_like(this: Tensor<'_>, (dtype, layout, device, pinned, format): OptionsLike) -> Option<Shape> {
    const CONTIGUOUS: i64 = Format::Contiguous as i64;
    const PRESERVE: i64 = 1;
    let is_here = device.is_none_or(|device| device.is(this.device()));
    let strides = match format.unwrap_or(PRESERVE) {
        PRESERVE => this.like_strides(),
        CONTIGUOUS => Format::Contiguous.strides(this.sizes()),
        _ => return None,
    };
    let is_plain = is_here && pinned != Some(true) && layout.unwrap_or(0) == 0;
    is_plain.then(|| Shape { sizes: Dims::from(this.sizes()), strides, dtype: dtype.unwrap_or(this.dtype()) })
}

/// The distribution of an operator's kernel; `limits` are the arguments of `randint`.
fn distribution(call: &Call<'_>, limits: &[Value<'_>]) -> Result<Distribution, CallError> {
    match (call.kernel_name(), limits) {
        ("uniform_", []) => Ok(Distribution::Uniform([0.0, 1.0])),
        ("normal_", []) => Ok(Distribution::Normal([0.0, 1.0])),
        ("random_", [high]) => Ok(Distribution::Integers(0, Some(high.get()?))),
        ("random_", [low, high]) => Ok(Distribution::Integers(low.get()?, Some(high.get()?))),
        _ => Err(wrong(limits)),
    }
}

/// `rand`, `randn` and `randint`: limits, the size, the generator in overloads that have one, and the options.
pub fn random(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (numbers, options) = split(arguments)?;
    let (limits, size, generator) = match numbers {
        [limits @ .., Value::Integers(size)] => (limits, size, Value::None),
        [limits @ .., Value::Integers(size), generator] => (limits, size, *generator),
        _ => return Err(wrong(arguments)),
    };
    options.check()?;
    let out = call.contiguous(0, size, options.dtype.unwrap_or_else(|| call.default_dtype()), Strides::Any)?;
    distribution(call, limits)?.draw(call, out, generator)
}

/// `rand_like`, `randn_like` and `randint_like`. If PyTorch's own `empty_like` must make the tensor, it is filled afterwards.
pub fn random_like(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let ([this, limits @ ..], options) = arguments.split_last_chunk::<5>().ok_or_else(|| wrong(arguments))? else {
        return Err(wrong(arguments));
    };
    let distribution = distribution(call, limits)?;
    if let Some(shape) = shape_like(this.get()?, Arguments::new(options).typed()?) {
        let out = call.output(0, &shape, Strides::Any)?;
        return distribution.draw(call, out, Value::None);
    }
    let made = call.operator(&callees::EMPTY_LIKE, &[&[*this], &options[..]].concat())?;
    distribution.draw_anywhere(call, made)?;
    call.give(0, made)
}

// ---- ranges ----

/// The caller's `out=` tensor.
fn given<'a>(call: &Call<'a>) -> Result<Tensor<'a>, CallError> {
    call.given(0).ok_or_else(|| CallError::Invalid("internal error: a range without an output".into()))
}

/// The caller's `out=` tensor with `count` elements; like PyTorch, this resizes it without a warning.
fn given_with<'a>(call: &Call<'a>, count: i64) -> Result<Tensor<'a>, CallError> {
    let given = given(call)?;
    let given = if given.numel() == count { given } else { call.resize(given, &[count])? };
    call.contiguous(0, given.sizes(), given.dtype(), Strides::Any)
}

/// Launches the kernel over the caller's `out=` tensor with `count` elements.
fn fill(call: &Call<'_>, count: i64, scalars: &[Scalar]) -> Outcome {
    let out = given_with(call, count)?;
    let line = call.dense(out, Format::Contiguous)?.view(&[count]);
    call.launch(&[line], NO_INPUTS, scalars)?;
    if line.address() == out.address() { Ok(()) } else { call.copy(out, line.view(out.sizes())) }
}

/// Makes a new tensor with these sizes and options and launches the kernel over it. The CPU refuses dtypes that the kernel lacks.
fn make(call: &Call<'_>, sizes: &[i64], dtype: DType, options: &Options, scalars: &[Scalar]) -> Outcome {
    ensure!(call.takes(dtype));
    options.check()?;
    let out = call.contiguous(0, sizes, dtype, Strides::Any)?;
    call.launch(&[out], NO_INPUTS, scalars)
}

#[derive(Clone, Copy)]
struct Range([Scalar; 3]);

impl Range {
    /// The range from, to and by these numbers; by default from 0 by 1.
    fn new(numbers: &[Value<'_>]) -> Result<Self, CallError> {
        match numbers {
            [end] => Ok(Self([0.into(), end.get()?, 1.into()])),
            [start, end] => Ok(Self([start.get()?, end.get()?, 1.into()])),
            [start, end, step] => Ok(Self([start.get()?, end.get()?, step.get()?])),
            _ => Err(wrong(numbers)),
        }
    }

    /// The start, end and step; an error for numbers that are no valid range.
    fn checked(self) -> Result<[f64; 3], CallError> {
        let is_real = |number: &Scalar| !matches!(number, Scalar::Complex(_, imaginary) if *imaginary != 0.0);
        ensure!(self.0.iter().all(is_real));
        let [start, end, step] = self.0.map(Scalar::to::<f64>);
        ensure!(start.is_finite() && end.is_finite());
        ensure!(if step > 0.0 { end >= start } else { step < 0.0 && end <= start });
        Ok([start, end, step])
    }

    /// The number of elements without the end. For Long, integers are counted in integer arithmetic, like PyTorch's.
    fn count(self, dtype: DType) -> Result<i64, CallError> {
        let [start, end, step] = self.checked()?;
        ensure!(step.is_finite());
        if let (DType::Long, Self([Scalar::Long(start), Scalar::Long(end), Scalar::Long(step)])) = (dtype, self) {
            let reach = end.wrapping_sub(start).wrapping_add(step).wrapping_sub(step.signum());
            let count = reach.wrapping_div(step);
            ensure!(count >= 0);
            return Ok(count);
        }
        let count = ((end - start) / step).ceil();
        ensure!((0.0..=LONGS).contains(&count));
        Ok(count as i64)
    }

    fn scalars(self) -> [Scalar; 2] {
        let Self([start, _, step]) = self;
        arange_kernel::Scalars { start, step }.list()
    }
}

/// 2^63, just above the maximum of `i64`.
const LONGS: f64 = 9_223_372_036_854_775_808.0;

/// `arange`, with an end, a start and an end, or a step, too.
pub fn arange(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (numbers, options) = split(arguments)?;
    let range = Range::new(numbers)?;
    let is_whole = |number: &Scalar| matches!(number, Scalar::Bool(_) | Scalar::Long(_));
    let usual = || if range.0.iter().all(is_whole) { DType::Long } else { call.default_dtype() };
    let dtype = options.dtype.unwrap_or_else(usual);
    make(call, &[range.count(dtype)?], dtype, &options, &range.scalars())
}

/// `arange.start_out`. Like PyTorch, it warns if the `out=` tensor is not empty and has another number of elements.
pub fn arange_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (out, range) = (given(call)?, Range::new(arguments)?);
    ensure!(call.takes(out.dtype()));
    let (numel, count) = (out.numel(), range.count(out.dtype())?);
    if numel != count && numel > 0 {
        call.warn(&format!(
            "The number of elements in the out tensor of shape {:?} is {numel} which does not match the computed number of elements {count}. \
             Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of shape ({count},).",
            out.sizes()
        ))?;
    }
    fill(call, count, &range.scalars())
}

/// `range.out`, which includes the end.
pub fn range(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let range = Range::new(arguments)?;
    let [start, end, step] = range.checked()?;
    fill(call, ((end - start) / step + 1.0) as i64, &range.scalars())
}

/// `linspace`. PyTorch's composite implementation serves complex ends, which determine the dtype, and fewer than two steps, for
/// which any dtype is allowed.
pub fn linspace(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (numbers, options) = split(arguments)?;
    let (start, end, steps): (Scalar, Scalar, i64) = Arguments::new(numbers).typed()?;
    if steps < 2 || matches!([start, end], [Scalar::Complex(..), _] | [_, Scalar::Complex(..)]) {
        return Err(CallError::Composite);
    }
    let dtype = options.dtype.unwrap_or_else(|| call.default_dtype());
    make(call, &[steps], dtype, &options, &linspace_kernel::Scalars { start, end }.list())
}

pub fn linspace_out(call: &Call<'_>, start: Scalar, end: Scalar, steps: i64) -> Outcome {
    ensure!(steps >= 0 && (steps < 2 || call.takes(given(call)?.dtype())));
    if steps < 2 {
        let out = given_with(call, steps)?;
        return if steps == 0 { Ok(()) } else { call.fill(out, start) };
    }
    fill(call, steps, &linspace_kernel::Scalars { start, end }.list())
}

pub fn logspace(call: &Call<'_>, start: Scalar, end: Scalar, steps: i64, base: Scalar) -> Outcome {
    ensure!(steps >= 0);
    fill(call, steps, &logspace_kernel::Scalars { start, end, base }.list())
}

/// The sizes of an identity matrix, which is square by default.
fn sizes_of_identity(numbers: &[Value<'_>]) -> Result<[i64; 2], CallError> {
    let [Some(rows), Some(cols)] = [numbers.first(), numbers.last()] else { return Err(wrong(numbers)) };
    let sizes: [i64; 2] = [rows.get()?, cols.get()?];
    ensure!(sizes.iter().all(|&size| size >= 0));
    Ok(sizes)
}

pub fn eye(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (numbers, options) = split(arguments)?;
    let dtype = options.dtype.unwrap_or_else(|| call.default_dtype());
    make(call, &sizes_of_identity(numbers)?, dtype, &options, &[])
}

/// `eye.out`; like PyTorch, this resizes the `out=` tensor without a warning.
pub fn eye_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let sizes = sizes_of_identity(arguments)?;
    ensure!(call.takes(given(call)?.dtype()));
    let out = call.resize(given(call)?, &sizes)?;
    if out.check_no_internal_overlap().is_ok() {
        return call.launch(&[out], NO_INPUTS, &[]);
    }
    // The output's elements overlap: a memory location is 1 if one of its elements is on the diagonal.
    call.operator(&callees::ZERO, &[Value::Tensor(out)])?;
    call.fill(out.diagonal(), 1.into())
}

pub fn trace(call: &Call<'_>, matrix: Tensor<'_>) -> Outcome {
    ensure!(matrix.ndim() == 2);
    call.give(0, call.operator(&callees::SUM_OF_ALL, &[Value::Tensor(matrix.diagonal()), Value::None])?)
}

/// The number of elements of a matrix on and below a diagonal.
fn elements_below(rows: i64, cols: i64, diagonal: i64) -> i64 {
    // The first row with an element on or below the diagonal, and the first row that is entirely below it.
    let [empty, growing] = [diagonal.saturating_neg(), cols.saturating_sub(diagonal)].map(|row| row.clamp(0, rows));
    let (first, count) = (empty.saturating_add(diagonal).saturating_add(1).clamp(0, cols), growing - empty);
    let triangle = i128::from(count) * i128::from(2 * first + count - 1) / 2;
    (triangle + i128::from(rows - growing) * i128::from(cols)) as i64
}

pub fn triangle_indices(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (numbers, options) = split(arguments)?;
    let (rows, cols, diagonal): (i64, i64, i64) = Arguments::new(numbers).typed()?;
    ensure!(rows >= 0 && cols >= 0 && options.layout.is_none_or(|layout| layout == 0));
    let dtype = options.dtype.unwrap_or(DType::Long);
    let count = if call.kernel_name() == "tril_indices" {
        elements_below(rows, cols, diagonal)
    } else {
        rows * cols - elements_below(rows, cols, diagonal.saturating_sub(1))
    };
    let out = call.contiguous(0, &[2, count], dtype, Strides::Any)?;
    let scalars = triangle_kernel::Scalars { rows: rows.into(), cols: cols.into(), diagonal: diagonal.into() };
    call.launch(&[out], NO_INPUTS, &scalars.list())
}

/// `repeat_interleave` of indices. Without `output_size` the call waits for the sum of the repeats.
pub fn repeated(call: &Call<'_>, repeats: Tensor<'_>, size: Option<i64>) -> Outcome {
    let (count, dtype) = (repeats.numel(), repeats.dtype());
    ensure!(repeats.ndim() == 1 && INTEGRAL.and(UNSIGNED).contains(dtype));
    let shape = |size: i64| Shape::new(&[size], dtype, Format::Contiguous);
    if count == 0 {
        return call.output(0, &shape(0), Strides::Any).map(drop);
    }
    let all = Value::Tensor(repeats);
    let ends = call.operator(&callees::CUMSUM, &[all, Value::Number(Scalar::Long(0)), Value::None])?;
    let size = if let Some(size) = size {
        size
    } else {
        let reason = c"repeat_interleave without output_size (it is read on the host)";
        let least = call.operator(&callees::MIN, &[all])?;
        ensure!(call.read(least, reason)? >= 0, "repeats can not be negative");
        call.read(ends.row(count - 1), reason)?
    };
    let out = call.output(0, &shape(size), Strides::Any)?;
    call.with_kernel(callees::REPEAT_INTERLEAVE).launch(&[out], &[ends], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_below_a_diagonal_are_counted() {
        for (rows, cols) in [(0, 3), (3, 0), (1, 1), (3, 5), (5, 3), (4, 4)] {
            for diagonal in -7..=7 {
                let counted: i64 = (0..rows).map(|row| (row + diagonal + 1).clamp(0, cols)).sum();
                assert_eq!(elements_below(rows, cols, diagonal), counted, "{rows} x {cols}, {diagonal}");
            }
        }
        assert_eq!(elements_below(3, 5, i64::MAX), 15);
        assert_eq!(elements_below(3, 5, i64::MIN), 0);
    }
}
