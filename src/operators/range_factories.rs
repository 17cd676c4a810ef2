//! Ranges: `arange`, `range`, `linspace`, `logspace`, identity matrices, the indices of triangles and of `repeat_interleave`.

use super::call::{Arguments, Call, CallError, Outcome, Shape, Strides, Value, ensure};
use super::callees;
use super::tensor_options;
use super::tensors::{Format, Tensor};
use crate::kernels::movement::range_factories::{
    arange as arange_kernel, linspace as linspace_kernel, logspace as logspace_kernel,
};
use crate::kernels::movement::triangle::tril_indices as triangle_kernel;
use crate::tensor::dtype::{DType, INTEGRAL, UNSIGNED};
use crate::tensor::launch::Scalar;

const NO_INPUTS: &[Tensor<'_>] = &[];

/// The caller's `out=` tensor.
fn given<'a>(call: &Call<'a>) -> Result<Tensor<'a>, CallError> {
    call.given(0).ok_or_else(|| CallError::Invalid("internal error: a range without an output".into()))
}

/// The caller's `out=` tensor with `count` elements; like PyTorch, this resizes it without a warning.
fn given_with<'a>(call: &Call<'a>, count: i64) -> Result<Tensor<'a>, CallError> {
    let given = given(call)?;
    let given = if given.numel() == count {
        given
    } else {
        call.operator(&callees::RESIZE, &[Value::Tensor(given), Value::Integers(&[count]), Value::None])?
    };
    call.contiguous(0, given.sizes(), given.dtype(), Strides::Any)
}

/// Launches the kernel over the caller's `out=` tensor with `count` elements.
fn fill(call: &Call<'_>, count: i64, scalars: &[Scalar]) -> Outcome {
    let out = given_with(call, count)?;
    if count == 0 {
        return Ok(());
    }
    let line = call.dense(out, Format::Contiguous)?.view(&[count]);
    call.launch(&[line], NO_INPUTS, scalars)?;
    if line.address() == out.address() { Ok(()) } else { call.copy(out, line.view(out.sizes())) }
}

/// The numbers in front of a factory's options, and the options: dtype, layout, device, pinned memory.
fn split<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<(&'v [Value<'a>], &'v [Value<'a>; 4]), CallError> {
    arguments.split_last_chunk().ok_or_else(|| wrong(arguments))
}

fn wrong(arguments: &[Value<'_>]) -> CallError {
    CallError::Invalid(format!("internal error: {} arguments of a range", arguments.len()))
}

/// Makes a new tensor with these sizes and options and launches the kernel over it. The CPU refuses dtypes that the kernel lacks.
fn make(call: &Call<'_>, sizes: &[i64], dtype: DType, options: &[Value<'_>; 4], scalars: &[Scalar]) -> Outcome {
    ensure!(call.takes(dtype));
    let [_dtype, layout, _device, pinned] = options;
    tensor_options::check(layout, pinned)?;
    let out = call.contiguous(0, sizes, dtype, Strides::Any)?;
    if out.numel() == 0 { Ok(()) } else { call.launch(&[out], NO_INPUTS, scalars) }
}

#[derive(Clone, Copy)]
struct Range([Scalar; 3]);

impl Range {
    /// The range from, to and by these numbers; by default from 0 by 1.
    fn new(numbers: &[Value<'_>]) -> Result<Self, CallError> {
        match numbers {
            [end] => Ok(Self([0.into(), end.number()?, 1.into()])),
            [start, end] => Ok(Self([start.number()?, end.number()?, 1.into()])),
            [start, end, step] => Ok(Self([start.number()?, end.number()?, step.number()?])),
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
    let dtype = tensor_options::dtype_of(&options[0])?.unwrap_or_else(usual);
    make(call, &[range.count(dtype)?], dtype, options, &range.scalars())
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
    let ([start, end, steps], options) = split(arguments)? else { return Err(wrong(arguments)) };
    let (start, end, steps) = (start.number()?, end.number()?, steps.integer()?);
    if steps < 2 || matches!([start, end], [Scalar::Complex(..), _] | [_, Scalar::Complex(..)]) {
        return Err(CallError::Composite);
    }
    let dtype = tensor_options::dtype_of(&options[0])?.unwrap_or_else(|| call.default_dtype());
    make(call, &[steps], dtype, options, &linspace_kernel::Scalars { start, end }.list())
}

/// `linspace.out`.
pub fn linspace_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, steps] = arguments.all()?;
    let steps = steps.integer()?;
    ensure!(steps >= 0 && (steps < 2 || call.takes(given(call)?.dtype())));
    if steps < 2 {
        let out = given_with(call, steps)?;
        return if steps == 0 { Ok(()) } else { call.fill(out, start.number()?) };
    }
    fill(call, steps, &linspace_kernel::Scalars { start: start.number()?, end: end.number()? }.list())
}

/// `logspace.out`.
pub fn logspace(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, steps, base] = arguments.all()?;
    let (start, end, base, steps) = (start.number()?, end.number()?, base.number()?, steps.integer()?);
    ensure!(steps >= 0);
    fill(call, steps, &logspace_kernel::Scalars { start, end, base }.list())
}

/// The sizes of an identity matrix, which is square by default.
fn sizes_of_identity(numbers: &[Value<'_>]) -> Result<[i64; 2], CallError> {
    let [Some(rows), Some(cols)] = [numbers.first(), numbers.last()] else { return Err(wrong(numbers)) };
    let sizes = [rows.integer()?, cols.integer()?];
    ensure!(sizes.iter().all(|&size| size >= 0));
    Ok(sizes)
}

/// `eye`.
pub fn eye(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (numbers, options) = split(arguments)?;
    let dtype = tensor_options::dtype_of(&options[0])?.unwrap_or_else(|| call.default_dtype());
    make(call, &sizes_of_identity(numbers)?, dtype, options, &[])
}

/// `eye.out`; like PyTorch, this resizes the `out=` tensor without a warning.
pub fn eye_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let sizes = sizes_of_identity(arguments)?;
    ensure!(call.takes(given(call)?.dtype()));
    let out = call.operator(&callees::RESIZE, &[Value::Tensor(given(call)?), Value::Integers(&sizes), Value::None])?;
    if out.numel() == 0 {
        return Ok(());
    }
    if out.check_no_internal_overlap().is_ok() {
        return call.launch(&[out], NO_INPUTS, &[]);
    }
    // The output's elements overlap: a memory location is 1 if one of its elements is on the diagonal.
    call.operator(&callees::ZERO, &[Value::Tensor(out)])?;
    call.fill(out.diagonal(), 1.into())
}

/// `trace`.
pub fn trace(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [matrix] = arguments.all()?;
    let matrix = matrix.tensor()?;
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

/// `tril_indices` and `triu_indices`.
pub fn triangle_indices(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rows, cols, diagonal, dtype, layout, _device, _pinned] = arguments.all()?;
    let (rows, cols, diagonal) = (rows.integer()?, cols.integer()?, diagonal.integer()?);
    ensure!(rows >= 0 && cols >= 0 && tensor_options::other_layout(layout)?.is_none());
    let dtype = tensor_options::dtype_of(dtype)?.unwrap_or(DType::Long);
    let count = if call.kernel_name() == "tril_indices" {
        elements_below(rows, cols, diagonal)
    } else {
        rows * cols - elements_below(rows, cols, diagonal.saturating_sub(1))
    };
    let out = call.contiguous(0, &[2, count], dtype, Strides::Any)?;
    if count == 0 {
        return Ok(());
    }
    let scalars = triangle_kernel::Scalars { rows: rows.into(), cols: cols.into(), diagonal: diagonal.into() };
    call.launch(&[out], NO_INPUTS, &scalars.list())
}

/// `repeat_interleave` of indices. Without `output_size` the call waits for the sum of the repeats.
pub fn repeated(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [repeats, size] = arguments.all()?;
    let repeats = repeats.tensor()?;
    let (count, dtype) = (repeats.numel(), repeats.dtype());
    ensure!(repeats.ndim() == 1 && INTEGRAL.and(UNSIGNED).contains(dtype));
    let shape = |size: i64| Shape::new(&[size], dtype, Format::Contiguous);
    if count == 0 {
        return call.output(0, &shape(0), Strides::Any).map(drop);
    }
    let all = Value::Tensor(repeats);
    let ends = call.operator(&callees::CUMSUM, &[all, Value::Number(Scalar::Long(0)), Value::None])?;
    let size = if let Value::None = size {
        let reason = c"repeat_interleave without output_size (it is read on the host)";
        let least = call.operator(&callees::MIN, &[all])?;
        ensure!(call.read(least, reason)? >= 0, "repeats can not be negative");
        call.read(ends.row(count - 1), reason)?
    } else {
        size.integer()?
    };
    let out = call.output(0, &shape(size), Strides::Any)?;
    call.with_kernel(&callees::REPEAT_INTERLEAVE).launch(&[out], &[ends], &[])
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
