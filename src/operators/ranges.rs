//! Ranges: `arange`, `range`, `linspace`, `logspace`, identity matrices, the indices of triangles and of `repeat_interleave`.

use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, Value, ensure};
use super::descriptor::{Format, Tensor};
use super::names;
use super::number_text::NumberText;
use super::options;
use crate::kernels::movement::range_factories::{
    arange as arange_kernel, linspace as linspace_kernel, logspace as logspace_kernel,
};
use crate::kernels::movement::triangle::tril_indices as triangle_kernel;
use crate::tensor::dtype::{DType, INTEGRAL, UNSIGNED};
use crate::tensor::launch::Scalar;

/// The caller's `out=` tensor.
fn given<'a>(call: &Call<'a>) -> Result<Tensor<'a>, Refusal> {
    call.given(0).ok_or_else(|| Refusal::Invalid("internal error: a range without an output".into()))
}

/// The caller's `out=` tensor with `count` elements; like PyTorch, this resizes it without a warning.
fn given_with<'a>(call: &Call<'a>, count: i64) -> Result<Tensor<'a>, Refusal> {
    let given = given(call)?;
    let given = if given.numel() == count {
        given
    } else {
        call.operator(&names::RESIZE, &[Value::Tensor(given), Value::Integers(&[count]), Value::None])?
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
    call.launch(&[line], &[], scalars)?;
    if line.address() == out.address() { Ok(()) } else { call.copy(out, line.view(out.sizes())) }
}

/// Makes a new tensor with these sizes and options and launches the kernel over it.
fn make(call: &Call<'_>, sizes: &[i64], dtype: DType, options: &[Value<'_>], scalars: &[Scalar]) -> Outcome {
    let [_dtype, layout, _device, pinned] = options else { return Err(wrong(options)) };
    options::check(layout, pinned)?;
    let out = call.contiguous(0, sizes, dtype, Strides::Any)?;
    if out.numel() == 0 { Ok(()) } else { call.launch(&[out], &[], scalars) }
}

fn wrong(arguments: &[Value<'_>]) -> Refusal {
    Refusal::Invalid(format!("internal error: {} arguments of a range", arguments.len()))
}

fn is_whole(number: Scalar) -> bool {
    matches!(number, Scalar::Bool(_) | Scalar::Long(_))
}

#[derive(Clone, Copy)]
struct Range([Scalar; 3]);

impl Range {
    const BEYOND: &str = "invalid size, possible overflow?";

    /// An error for numbers that are no valid range.
    fn check(self) -> Outcome {
        let Self(numbers) = self;
        let [first, last, step] = numbers.map(Scalar::to::<f64>);
        let is_complex = numbers.iter().any(|number| matches!(number, Scalar::Complex(_, imaginary) if *imaginary != 0.0));
        ensure!(!is_complex, "value cannot be converted to type double without overflow");
        ensure!(step.is_finite(), "step must be finite but got {}", NumberText(step));
        ensure!(step != 0.0, "step must be nonzero");
        ensure!(first.is_finite() && last.is_finite(), "unsupported range: {} -> {}", NumberText(first), NumberText(last));
        let is_ordered = if step > 0.0 { last >= first } else { last <= first };
        ensure!(is_ordered, "upper bound and lower bound inconsistent with step sign");
        Ok(())
    }

    /// The number of elements without the end. For Long, integers are counted in integer arithmetic, like PyTorch's.
    fn count(self, dtype: DType) -> Result<i64, Refusal> {
        self.check()?;
        if let (DType::Long, Self([Scalar::Long(first), Scalar::Long(last), Scalar::Long(step)])) = (dtype, self) {
            let reach = last.wrapping_sub(first).wrapping_add(step).wrapping_sub(step.signum());
            let count = reach.wrapping_div(step);
            ensure!(count >= 0, "{}", Self::BEYOND);
            return Ok(count);
        }
        let [first, last, step] = self.0.map(Scalar::to::<f64>);
        let count = ((last - first) / step).ceil();
        ensure!((0.0..=LONGS).contains(&count), "{}", Self::BEYOND);
        Ok(count as i64)
    }

    fn scalars(self) -> [Scalar; 2] {
        let Self([start, _, step]) = self;
        arange_kernel::Scalars { start, step }.list()
    }
}

/// 2^63, just above the maximum of `i64`.
const LONGS: f64 = 9_223_372_036_854_775_808.0;

/// An error if the kernel does not compute in this dtype; `name` is PyTorch's name of the kernel.
fn take(call: &Call<'_>, dtype: DType, name: &str) -> Outcome {
    if call.takes(dtype) {
        return Ok(());
    }
    Err(Refusal::Unsupported(format!("\"{name}\" not implemented for '{dtype:?}'")))
}

/// Makes a range; `options` follow the range's numbers in the arguments.
fn range_of(call: &Call<'_>, range: Range, options: &[Value<'_>]) -> Outcome {
    let usual = || if range.0.into_iter().all(is_whole) { DType::Long } else { call.default_dtype() };
    let dtype = options.first().map_or(Ok(None), options::dtype_of)?.unwrap_or_else(usual);
    take(call, dtype, "arange_cpu")?;
    make(call, &[range.count(dtype)?], dtype, options, &range.scalars())
}

/// `arange` from 0.
pub fn arange(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [end, options @ ..] = &**arguments else { return Err(wrong(arguments)) };
    range_of(call, Range([0.into(), end.number()?, 1.into()]), options)
}

/// `arange.start`.
pub fn arange_from(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, options @ ..] = &**arguments else { return Err(wrong(arguments)) };
    range_of(call, Range([start.number()?, end.number()?, 1.into()]), options)
}

/// `arange.start_step`.
pub fn arange_by(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, step, options @ ..] = &**arguments else { return Err(wrong(arguments)) };
    range_of(call, Range([start.number()?, end.number()?, step.number()?]), options)
}

/// `arange.start_out`. Like PyTorch, it warns if the `out=` tensor is not empty and has another number of elements.
pub fn arange_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, step] = arguments.all()?;
    let (out, range) = (given(call)?, Range([start.number()?, end.number()?, step.number()?]));
    take(call, out.dtype(), "arange_cpu")?;
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

fn check_steps(steps: i64) -> Outcome {
    ensure!(steps >= 0, "number of steps must be non-negative");
    Ok(())
}

/// `linspace`. PyTorch's composite implementation serves complex ends, which determine the dtype, and fewer than two steps, for
/// which any dtype is allowed.
pub fn linspace(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, steps, options @ ..] = &**arguments else { return Err(wrong(arguments)) };
    let (start, end, steps) = (start.number()?, end.number()?, steps.integer()?);
    if steps < 2 || matches!([start, end], [Scalar::Complex(..), _] | [_, Scalar::Complex(..)]) {
        return Err(Refusal::Composite);
    }
    let dtype = options.first().map_or(Ok(None), options::dtype_of)?.unwrap_or_else(|| call.default_dtype());
    take(call, dtype, "linspace_cpu")?;
    make(call, &[steps], dtype, options, &linspace_kernel::Scalars { start, end }.list())
}

/// `linspace.out`.
pub fn linspace_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, steps] = arguments.all()?;
    let steps = steps.integer()?;
    check_steps(steps)?;
    if steps < 2 {
        let out = given_with(call, steps)?;
        return if steps == 0 { Ok(()) } else { call.fill(out, start.number()?) };
    }
    take(call, given(call)?.dtype(), "linspace_cpu")?;
    fill(call, steps, &linspace_kernel::Scalars { start: start.number()?, end: end.number()? }.list())
}

/// The sizes of an identity matrix; an error if one is negative.
fn sizes_of_identity(rows: i64, cols: i64) -> Result<[i64; 2], Refusal> {
    ensure!(rows >= 0, "n must be greater or equal to 0, got {rows}");
    ensure!(cols >= 0, "m must be greater or equal to 0, got {cols}");
    Ok([rows, cols])
}

/// Makes a new identity matrix with these options.
fn make_identity(call: &Call<'_>, rows: i64, cols: i64, options: &[Value<'_>]) -> Outcome {
    let dtype = options.first().map_or(Ok(None), options::dtype_of)?.unwrap_or_else(|| call.default_dtype());
    take(call, dtype, "eye")?;
    make(call, &sizes_of_identity(rows, cols)?, dtype, options, &[])
}

/// Writes an identity matrix to the caller's `out=` tensor; like PyTorch, this resizes it without a warning.
fn fill_identity(call: &Call<'_>, rows: i64, cols: i64) -> Outcome {
    let sizes = sizes_of_identity(rows, cols)?;
    let out = call.operator(&names::RESIZE, &[Value::Tensor(given(call)?), Value::Integers(&sizes), Value::None])?;
    take(call, out.dtype(), "eye")?;
    if out.numel() == 0 {
        return Ok(());
    }
    if out.check_no_internal_overlap().is_ok() {
        return call.launch(&[out], &[], &[]);
    }
    // The output's elements overlap: a memory location is 1 if one of its elements is on the diagonal.
    call.operator(&names::ZERO, &[Value::Tensor(out)])?;
    call.fill(out.diagonal(), 1.into())
}

/// `eye`.
pub fn eye(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rows, options @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make_identity(call, rows.integer()?, rows.integer()?, options)
}

/// `eye.m`.
pub fn eye_of(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rows, cols, options @ ..] = &**arguments else { return Err(wrong(arguments)) };
    make_identity(call, rows.integer()?, cols.integer()?, options)
}

/// `eye.out`.
pub fn eye_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rows] = arguments.all()?;
    fill_identity(call, rows.integer()?, rows.integer()?)
}

/// `eye.m_out`.
pub fn eye_of_out(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rows, cols] = arguments.all()?;
    fill_identity(call, rows.integer()?, cols.integer()?)
}

/// `trace`.
pub fn trace(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [matrix] = arguments.all()?;
    let matrix = matrix.tensor()?;
    let ndim = matrix.ndim();
    ensure!(ndim == 2, "trace: expected a matrix, but got tensor with dim {ndim}");
    call.give(0, call.operator(&names::SUM_OF_ALL, &[Value::Tensor(matrix.diagonal()), Value::None])?)
}

/// `logspace.out`.
pub fn logspace(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, steps, base] = arguments.all()?;
    let (start, end, base, steps) = (start.number()?, end.number()?, base.number()?, steps.integer()?);
    check_steps(steps)?;
    fill(call, steps, &logspace_kernel::Scalars { start, end, base }.list())
}

/// `range.out`, which includes the end.
pub fn range(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, step] = arguments.all()?;
    let (start, end, step) = (start.number()?, end.number()?, step.number()?);
    let [first, last, by] = [start, end, step].map(Scalar::to::<f64>);
    ensure!(by.abs() > 0.0, "step must be nonzero");
    ensure!(first.is_finite() && last.is_finite(), "unsupported range: {} -> {}", NumberText(first), NumberText(last));
    let is_ordered = if by > 0.0 { last >= first } else { last <= first };
    ensure!(is_ordered, "upper bound and lower bound inconsistent with step sign");
    let count = ((last - first) / by + 1.0) as i64;
    fill(call, count, &arange_kernel::Scalars { start, step }.list())
}

#[derive(Clone, Copy)]
enum Triangle {
    Lower,
    Upper,
}

/// The number of elements of a matrix on and below a diagonal.
fn elements_below(rows: i64, cols: i64, diagonal: i64) -> i64 {
    // The first row with an element on or below the diagonal, and the first row that is entirely below it.
    let [empty, growing] = [diagonal.saturating_neg(), cols.saturating_sub(diagonal)].map(|row| row.clamp(0, rows));
    let (first, count) = (empty.saturating_add(diagonal).saturating_add(1).clamp(0, cols), growing - empty);
    let triangle = i128::from(count) * i128::from(2 * first + count - 1) / 2;
    (triangle + i128::from(rows - growing) * i128::from(cols)) as i64
}

fn triangle_indices(arguments: &Arguments<'_>, call: &Call<'_>, triangle: Triangle) -> Outcome {
    let [rows, cols, diagonal, dtype, layout, _device, _pinned] = arguments.all()?;
    let (rows, cols, diagonal) = (rows.integer()?, cols.integer()?, diagonal.integer()?);
    ensure!(rows >= 0, "row must be non-negative, got{rows}");
    ensure!(cols >= 0, "col must be non-negative, got{cols}");
    let other = options::other_layout(layout)?;
    ensure!(other.is_none(), "only support layout=torch.strided, got{}", other.unwrap_or_default());
    let dtype = options::dtype_of(dtype)?.unwrap_or(DType::Long);
    let count = match triangle {
        Triangle::Lower => elements_below(rows, cols, diagonal),
        Triangle::Upper => rows * cols - elements_below(rows, cols, diagonal.saturating_sub(1)),
    };
    let out = call.contiguous(0, &[2, count], dtype, Strides::Any)?;
    if count == 0 {
        return Ok(());
    }
    let scalars = triangle_kernel::Scalars { rows: rows.into(), cols: cols.into(), diagonal: diagonal.into() };
    call.launch(&[out], &[], &scalars.list())
}

/// `tril_indices`.
pub fn lower_indices(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    triangle_indices(arguments, call, Triangle::Lower)
}

/// `triu_indices`.
pub fn upper_indices(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    triangle_indices(arguments, call, Triangle::Upper)
}

/// `repeat_interleave` of indices. Without `output_size` the call waits for the sum of the repeats.
pub fn repeated(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [repeats, size] = arguments.all()?;
    let repeats = repeats.tensor()?;
    let (count, dtype) = (repeats.numel(), repeats.dtype());
    ensure!(repeats.ndim() == 1, "repeat_interleave only accept 1D vector as repeat");
    ensure!(INTEGRAL.and(UNSIGNED).contains(dtype), "repeats has to be Long, Int, Short, Char, or Byte tensor");
    let shape = |size: i64| Shape::new(&[size], dtype, Format::Contiguous);
    if count == 0 {
        return call.output(0, &shape(0), Strides::Any).map(drop);
    }
    let all = Value::Tensor(repeats);
    let ends = call.operator(&names::CUMSUM, &[all, Value::Number(Scalar::Long(0)), Value::None])?;
    let size = if let Value::None = size {
        let reason = c"repeat_interleave without output_size (it is read on the host)";
        let least = call.operator(&names::MIN, &[all])?;
        ensure!(call.read(least, reason)? >= 0, "repeats can not be negative");
        call.read(ends.row(count - 1), reason)?
    } else {
        size.integer()?
    };
    let out = call.output(0, &shape(size), Strides::Any)?;
    call.with_kernel(&names::REPEAT_INTERLEAVE).launch(&[out], &[ends], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_range_are_counted() {
        let count = |start: f64, end: f64, step: f64, dtype| Range([start, end, step].map(Scalar::Double)).count(dtype);
        assert_eq!((count(0.0, 3.0, 0.5, DType::Float), count(3.0, 0.0, -2.0, DType::Long)), (Ok(6), Ok(2)));
        assert_eq!((count(0.0, 0.0, 1.0, DType::Half), count(0.0, 1e-9, 1.0, DType::Int)), (Ok(0), Ok(1)));
        let refused = |text: &str| Err(Refusal::Invalid(text.into()));
        assert_eq!(count(0.0, 1.0, 0.0, DType::Float), refused("step must be nonzero"));
        assert_eq!(count(1.0, 0.0, 1.0, DType::Float), refused("upper bound and lower bound inconsistent with step sign"));
        assert_eq!(count(0.0, f64::INFINITY, 1.0, DType::Float), refused("unsupported range: 0 -> inf"));
        assert_eq!(count(0.0, 1e19, 1.0, DType::Int), refused(Range::BEYOND));
        let whole = |numbers: [i64; 3]| Range(numbers.map(Scalar::Long)).count(DType::Long);
        assert_eq!((whole([0, 7, 2]), whole([7, 0, -2]), whole([1 << 60, (1 << 60) + 1, 1])), (Ok(4), Ok(4), Ok(1)));
    }

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
