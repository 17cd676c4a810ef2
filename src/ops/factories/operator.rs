//! Factories that write to the caller's tensor: `arange`, `range`, `linspace`, `logspace`, identity matrices. PyTorch's own code
//! makes the tensors for them. Indices of triangles and of `repeat_interleave`, and `trace`.

use super::kernel::{arange as arange_kernel, linspace as linspace_kernel, logspace as logspace_kernel};
use crate::call::prelude::*;
use crate::ops::movement::kernel::triangle::tril_indices as triangle_kernel;

operators! {
    c"arange": plain(typed!(arange)) => c"arange.start_out";
    c"arange": plain(typed!(range)) => c"range.out";
    c"eye": plain(eye) => c"eye.out" | c"eye.m_out";
    c"linspace": plain(typed!(linspace)) => c"linspace.out";
    c"logspace": plain(typed!(logspace)) => c"logspace.out";
    c"tril_indices": plain(triangle_indices) => c"tril_indices";
    c"triu_indices": plain(triangle_indices) => c"triu_indices";
    c"repeat_interleave": any_dtype(plain(typed!(repeated))) => c"repeat_interleave.Tensor";
    _: plain(typed!(trace)) => c"trace";
}

const NO_INPUTS: &[Tensor<'_>] = &[];

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

/// The start, end and step of a range; an error for numbers that are no valid range.
fn checked(range: [Scalar; 3]) -> Result<[f64; 3], CallError> {
    let is_real = |number: &Scalar| !matches!(number, Scalar::Complex(_, imaginary) if *imaginary != 0.0);
    ensure!(range.iter().all(is_real));
    let [start, end, step] = range.map(Scalar::to::<f64>);
    ensure!(start.is_finite() && end.is_finite());
    ensure!(if step > 0.0 { end >= start } else { step < 0.0 && end <= start });
    Ok([start, end, step])
}

/// The number of elements of a range without the end. For Long, integers are counted in integer arithmetic, like PyTorch's.
fn count_of(range: [Scalar; 3], dtype: DType) -> Result<i64, CallError> {
    let [start, end, step] = checked(range)?;
    ensure!(step.is_finite());
    if let (DType::Long, [Scalar::Long(start), Scalar::Long(end), Scalar::Long(step)]) = (dtype, range) {
        let reach = end.wrapping_sub(start).wrapping_add(step).wrapping_sub(step.signum());
        let count = reach.wrapping_div(step);
        ensure!(count >= 0);
        return Ok(count);
    }
    let count = ((end - start) / step).ceil();
    ensure!((0.0..=LONGS).contains(&count));
    Ok(count as i64)
}

/// 2^63, just above the maximum of `i64`.
const LONGS: f64 = 9_223_372_036_854_775_808.0;

/// `arange.start_out`. Like PyTorch, it warns if the `out=` tensor is not empty and has another number of elements.
pub fn arange(call: &Call<'_>, start: Scalar, end: Scalar, step: Scalar) -> Outcome {
    let out = given(call)?;
    ensure!(call.takes(out.dtype()));
    let (numel, count) = (out.numel(), count_of([start, end, step], out.dtype())?);
    if numel != count && numel > 0 {
        call.warn(&format!(
            "The number of elements in the out tensor of shape {:?} is {numel} which does not match the computed number of elements {count}. \
             Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of shape ({count},).",
            out.sizes()
        ))?;
    }
    fill(call, count, &arange_kernel::Scalars { start, step }.list())
}

/// `range.out`, which includes the end.
pub fn range(call: &Call<'_>, start: Scalar, end: Scalar, step: Scalar) -> Outcome {
    let [from, to, by] = checked([start, end, step])?;
    fill(call, ((to - from) / by + 1.0) as i64, &arange_kernel::Scalars { start, step }.list())
}

pub fn linspace(call: &Call<'_>, start: Scalar, end: Scalar, steps: i64) -> Outcome {
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

/// `eye.out` and `eye.m_out`; like PyTorch, these resize the `out=` tensor without a warning.
pub fn eye(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [rows, cols] = [0, arguments.len() - 1].map(|index| arguments[index].get::<i64>());
    let sizes = [rows?, cols?];
    ensure!(sizes.iter().all(|&size| size >= 0));
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
    let (rows, cols, diagonal, dtype, layout, _, _): (_, _, _, _, Option<i64>, Value<'_>, Value<'_>) = arguments.typed()?;
    let (rows, cols, diagonal, dtype): (i64, i64, i64, Option<DType>) = (rows, cols, diagonal, dtype);
    ensure!(rows >= 0 && cols >= 0 && layout.is_none_or(|layout| layout == 0));
    let count = if call.kernel_name() == "tril_indices" {
        elements_below(rows, cols, diagonal)
    } else {
        rows * cols - elements_below(rows, cols, diagonal.saturating_sub(1))
    };
    let out = call.contiguous(0, &[2, count], dtype.unwrap_or(DType::Long), Strides::Any)?;
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
        ensure!(call.read(least, reason, 1)? >= 0, "repeats can not be negative");
        call.read(ends.row(count - 1), reason, count)?
    };
    let out = call.output(0, &shape(size), Strides::Any)?;
    call.with_kernel(kernel!(c"repeat_interleave")).launch(&[out], &[ends], &[])
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
