//! Batches of matrices: triangular systems, Householder reflections, products and exponentials.

use super::{contiguous, result, take_if, with_elements};
use crate::operators::call::{Arguments, Call, Outcome, Shape, Value, broadcast};
use crate::operators::tensors::{Format, Tensor};
use crate::tensor::dtype::DType;
use crate::tensor::view::Flags;

pub(super) fn are_matrices(a: Tensor<'_>, b: Tensor<'_>) -> bool {
    a.ndim() >= 2 && b.ndim() >= 2
}

/// The sizes before the last `inner` ones.
pub(super) fn batch_of(tensor: Tensor<'_>, inner: usize) -> &[i64] {
    &tensor.sizes()[..tensor.ndim().saturating_sub(inner)]
}

fn rows_of(tensor: Tensor<'_>) -> i64 {
    tensor.size_from_end(1)
}

fn columns_of(tensor: Tensor<'_>) -> i64 {
    tensor.size_from_end(0)
}

fn are_square(a: Tensor<'_>) -> bool {
    a.ndim() >= 2 && rows_of(a) == columns_of(a)
}

/// A batch of contiguous column-major matrices.
fn by_column(sizes: &[i64], dtype: DType) -> Shape {
    let mut shape = Shape::new(sizes, dtype, Format::Contiguous);
    if let [.., rows, columns] = &mut shape.strides[..] {
        (*rows, *columns) = (1, sizes[sizes.len() - 2].max(1));
    }
    shape
}

/// A result like an operand, with column-major matrices.
fn by_column_like(call: &Call<'_>, operand: Tensor<'_>) -> Outcome {
    result(call, by_column(operand.sizes(), operand.dtype()))
}

/// True if the tensor, expanded to a batch, consists of contiguous column-major matrices.
fn are_contiguous_by_column(a: Tensor<'_>, batch: &[i64]) -> bool {
    let (sizes, strides) = (a.sizes(), a.strides());
    let [rows, columns] = [a.ndim() - 2, a.ndim() - 1];
    let mut expected = sizes[rows] * sizes[columns];
    let matrices = (sizes[rows] == 1 || strides[rows] == 1) && (sizes[columns] == 1 || strides[columns] == sizes[rows]);
    let own = batch_of(a, 2);
    let leading = batch.len() - own.len();
    matrices
        && (0..batch.len()).rev().all(|dim| {
            let is_own = dim >= leading && own[dim - leading] == batch[dim];
            let stride = if is_own { strides[dim - leading] } else { 0 };
            let fits = batch[dim] == 1 || stride == expected;
            expected *= batch[dim];
            fits
        })
}

pub fn solve_triangular(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (a, b, _, left, _): (Tensor<'_>, Tensor<'_>, Value<'_>, bool, Value<'_>) = with_elements(arguments)?;
    take_if(are_matrices(a, b) && a.dtype() == b.dtype() && are_square(a))?;
    take_if(columns_of(a) == if left { rows_of(b) } else { columns_of(b) })?;
    let batch = broadcast(batch_of(b, 2), batch_of(a, 2))?;
    let sizes = [&batch[..], &[rows_of(b), columns_of(b)]].concat();
    // The kernel does not copy such a view; it solves the transposed system.
    let is_by_row = a.flags().has(Flags::CONJ) && are_contiguous_by_column(a, &batch);
    result(call, if is_by_row { contiguous(&sizes, b) } else { by_column(&sizes, b.dtype()) })
}

pub fn householder_product(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, tau): (Tensor<'_>, Tensor<'_>) = with_elements(arguments)?;
    take_if(input.ndim() >= 2 && tau.ndim() == input.ndim() - 1 && input.dtype() == tau.dtype())?;
    take_if(rows_of(input) >= columns_of(input) && columns_of(input) >= columns_of(tau) && batch_of(tau, 1) == batch_of(input, 2))?;
    by_column_like(call, input)
}

pub fn ormqr(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, tau, other, left, _): (Tensor<'_>, Tensor<'_>, Tensor<'_>, bool, Value<'_>) = with_elements(arguments)?;
    take_if(are_matrices(input, other) && tau.ndim() == input.ndim() - 1 && other.ndim() == input.ndim())?;
    take_if(batch_of(input, 2) == batch_of(other, 2) && batch_of(input, 2) == batch_of(tau, 1))?;
    take_if(input.dtype() == tau.dtype() && input.dtype() == other.dtype())?;
    let size = if left { rows_of(other) } else { columns_of(other) };
    take_if(columns_of(tau) <= columns_of(input) && columns_of(tau) <= size && rows_of(input) == size)?;
    by_column_like(call, other)
}

pub fn cholesky_solve(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (b, a, _): (Tensor<'_>, Tensor<'_>, Value<'_>) = with_elements(arguments)?;
    take_if(are_matrices(a, b) && are_square(a) && rows_of(a) == rows_of(b) && a.dtype() == b.dtype())?;
    take_if(batch_of(a, 2) == batch_of(b, 2))?;
    by_column_like(call, b)
}

/// `linalg_matrix_exp`. The fallback serves 1x1 matrices: the kernel computes `exp`, and the result has the operand's strides.
pub fn matrix_exponential(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (a,): (Tensor<'_>,) = with_elements(arguments)?;
    take_if(are_square(a) && columns_of(a) > 1)?;
    result(call, contiguous(a.sizes(), a))
}

/// `addbmm`: a matrix plus the sum of the products of two batches.
pub fn sum_of_products(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, a, b, _, _): (Tensor<'_>, Tensor<'_>, Tensor<'_>, Value<'_>, Value<'_>) = with_elements(arguments)?;
    take_if(a.ndim() == 3 && b.ndim() == 3 && batch_of(a, 2) == batch_of(b, 2) && columns_of(a) == rows_of(b))?;
    let sizes = [rows_of(a), columns_of(b)];
    let mut pairs = input.sizes().iter().rev().zip(sizes.iter().rev());
    take_if(input.ndim() <= 2 && pairs.all(|(&given, &size)| given == size || given == 1))?;
    take_if(input.dtype() == a.dtype() && input.dtype() == b.dtype())?;
    result(call, contiguous(&sizes, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_lie_column_by_column() {
        assert_eq!(by_column(&[2, 3, 4], DType::Float).strides[..], [12, 1, 3]);
        assert_eq!(by_column(&[3], DType::Float).strides[..], [1]);
        let tensor = |sizes: &[i64], strides: &[i64]| Tensor::leaked(1, DType::Float, 0, sizes, strides);
        assert!(are_contiguous_by_column(tensor(&[2, 3, 3], &[9, 1, 3]), &[2]));
        assert!(!are_contiguous_by_column(tensor(&[2, 3, 3], &[9, 3, 1]), &[2]));
        assert!(are_contiguous_by_column(tensor(&[3, 3], &[1, 3]), &[1]));
        // All matrices of an expanded batch are the same memory.
        assert!(!are_contiguous_by_column(tensor(&[3, 3], &[1, 3]), &[2]));
        assert!(!are_contiguous_by_column(tensor(&[1, 3, 3], &[9, 1, 3]), &[2]));
    }
}
