//! Ranges that models do not make at every step: `logspace`, `range`, the indices of triangles and of `repeat_interleave`.

use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, Value, ensure};
use super::descriptor::{Format, Tensor};
use super::names;
use super::number_text::NumberText;
use super::options;
use crate::kernels::movement::range_factories::{arange as arange_kernel, logspace as logspace_kernel};
use crate::kernels::movement::triangle::tril_indices as triangle_kernel;
use crate::tensor::dtype::{DType, INTEGRAL, UNSIGNED};
use crate::tensor::launch::Scalar;

/// The caller's output with so many elements, which PyTorch resizes without a warning, and as a line, which is a copy where it has gaps.
fn line_of<'a>(call: &Call<'a>, count: i64) -> Result<[Tensor<'a>; 2], Refusal> {
    let given = call.given(0).ok_or_else(|| Refusal::Invalid("internal error: a range without an output".into()))?;
    let given = if given.numel() == count {
        given
    } else {
        call.operator(&names::RESIZE, &[Value::Tensor(given), Value::Integers(&[count]), Value::None])?
    };
    let out = call.contiguous(0, given.sizes(), given.dtype(), Strides::Any)?;
    let line = call.dense(out, Format::Contiguous)?.view(&[count]);
    Ok([out, line])
}

/// Launches the kernel over the caller's output of so many elements.
fn fill(call: &Call<'_>, count: i64, scalars: &[Scalar]) -> Outcome {
    let [out, line] = line_of(call, count)?;
    if count == 0 {
        return Ok(());
    }
    call.launch(&[line], &[], scalars)?;
    if line.address() == out.address() { Ok(()) } else { call.copy(out, line.view(out.sizes())) }
}

/// `logspace.out`.
pub fn logspace(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [start, end, steps, base] = arguments.all()?;
    let (start, end, base, steps) = (start.number()?, end.number()?, base.number()?, steps.integer()?);
    ensure!(steps >= 0, "number of steps must be non-negative");
    fill(call, steps, &logspace_kernel::Scalars { start, end, base }.list())
}

/// `range.out`: with its end.
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

/// A part of a matrix.
#[derive(Clone, Copy)]
enum Triangle {
    Lower,
    Upper,
}

/// How many elements a matrix has on and below a diagonal.
fn elements_below(rows: i64, cols: i64, diagonal: i64) -> i64 {
    // Rows before the first one with an element, and before the first that is full.
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

/// `repeat_interleave`: each index as often as its repeats say. Without `output_size` the size is in the repeats, and the call waits for it.
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
