//! Batches of matrices: triangular systems, Householder reflections, products and exponentials. Operators of rows: margin losses,
//! sequences and segments with given lengths, weight normalisation, distances and `renorm`.

use crate::call::prelude::*;
use crate::call::tasks::{
    NORMED, OF_META, OF_META_UNCHECKED, contiguous, like, of_meta, result, results, take_filled, tasks, with_elements,
};
use crate::ops::loss::operator::NONE;
use crate::tensor::Flags;

const LAPACK: DTypeSet = WIDE.and(WIDE_COMPLEX);

tasks! {
    c"linalg_inv_ex" => c"linalg_inv_ex.inverse": LAPACK, Matrices, OF_META_UNCHECKED;
    c"linalg_cholesky_ex" => c"linalg_cholesky_ex.L": LAPACK, Matrices, OF_META_UNCHECKED;
    c"linalg_lu_factor_ex" => c"linalg_lu_factor_ex.out": LAPACK, Matrices, OF_META_UNCHECKED;
    c"linalg_lu" => c"linalg_lu.out": LAPACK, Matrices, OF_META;
    // Real only: for complex numbers the result may have its conjugate bit set.
    c"linalg_lu_solve" => c"linalg_lu_solve.out": WIDE, Matrices, OF_META;
    c"linalg_qr" => c"linalg_qr.out": LAPACK, Matrices, OF_META;
    c"linalg_ldl_factor_ex" => c"linalg_ldl_factor_ex.out": LAPACK, Matrices, OF_META_UNCHECKED;
    c"_linalg_det" => c"_linalg_det.result": LAPACK, Matrices, OF_META;
    c"_linalg_slogdet" => c"_linalg_slogdet.sign": LAPACK, Matrices, OF_META;
    c"_linalg_solve_ex" => c"_linalg_solve_ex.result": LAPACK, Matrices, OF_META_UNCHECKED;
    c"triangular_solve" => c"triangular_solve.X": LAPACK, Matrices, OF_META;
    c"lu_unpack" => c"lu_unpack.out": LAPACK, Matrices, OF_META;
    c"linalg_ldl_solve" => c"linalg_ldl_solve.out": LAPACK, Matrices, OF_META, guarded;
    c"linalg_solve_triangular" => c"linalg_solve_triangular.out": LAPACK, Matrices, plain(solve_triangular);
    c"linalg_householder_product" => c"linalg_householder_product.out": LAPACK, Matrices, plain(householder_product);
    c"ormqr" => c"ormqr.out": LAPACK, Matrices, plain(ormqr);
    c"_cholesky_solve_helper": LAPACK, Matrices, plain(cholesky_solve);
    c"linalg_matrix_exp": LAPACK, Matrices, plain(matrix_exponential), widens;
    c"linalg_cross" => c"linalg_cross.out": LAPACK.and(INTEGRAL), None, OF_META, widens;
    c"addbmm": LAPACK.and(INTEGRAL), None, plain(sum_of_products), widens;
    c"renorm" => c"renorm.out": FIELD, None, structured(renorm);
    c"_cdist_forward": WIDE, Matrices, plain(of_rows);
    c"_cdist_backward": WIDE, None, plain(of_rows_backward);
    c"_pdist_forward": WIDE, None, plain(of_pairs);
    c"_pdist_backward": WIDE, None, plain(like::<1>);
    c"multi_margin_loss" => c"multi_margin_loss.out": WIDE, None, plain(multi_margin), widens;
    c"multi_margin_loss_backward" => c"multi_margin_loss_backward.grad_input": WIDE, None, plain(like::<1>), widens;
    c"multilabel_margin_loss_forward" => c"multilabel_margin_loss_forward.output": WIDE, None, plain(multilabel_margin), widens;
    c"multilabel_margin_loss_backward" => c"multilabel_margin_loss_backward.grad_input": WIDE, None, plain(like::<1>), widens;
    c"_ctc_loss": WIDE, None, plain(ctc_loss), guarded;
    c"_ctc_loss_backward": WIDE, None, plain(like::<1>), guarded;
    c"segment_reduce": WIDE, None, plain(segment_reduce), guarded, widens;
    c"_segment_reduce_backward": FLOATING, None, plain(like::<2>), guarded;
    c"_weight_norm_interface": NORMED, None, plain(weight_norm), widens;
    c"_weight_norm_interface_backward": NORMED, None, plain(weight_norm_backward), widens;
}

fn are_matrices(a: Tensor<'_>, b: Tensor<'_>) -> bool {
    a.ndim() >= 2 && b.ndim() >= 2
}

/// The sizes before the last `inner` ones.
fn batch_of(tensor: Tensor<'_>, inner: usize) -> &[i64] {
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

// ---- rows ----

fn samples_of(scores: Tensor<'_>) -> i64 {
    if scores.ndim() == 2 { scores.sizes()[0] } else { 1 }
}

fn losses(scores: Tensor<'_>, by_row: bool) -> Shape {
    if by_row { contiguous(&[samples_of(scores)], scores) } else { contiguous(&[], scores) }
}

pub fn multi_margin(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scores, target, _, _, weight, reduction): (_, _, Value<'_>, Value<'_>, _, i64) = with_elements(arguments)?;
    let (scores, target, weight): (Tensor<'_>, Tensor<'_>, Option<Tensor<'_>>) = (scores, target, weight);
    take_if(scores.ndim() <= 2 && target.ndim() <= 1 && target.numel() == samples_of(scores))?;
    take_if(weight.is_none_or(|weight| weight.ndim() <= 1 && weight.numel() * samples_of(scores) == scores.numel()))?;
    result(call, losses(scores, reduction == NONE && target.ndim() > 0))
}

pub fn multilabel_margin(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scores, target, reduction): (Tensor<'_>, Tensor<'_>, i64) = with_elements(arguments)?;
    take_if(match scores.ndim() {
        0 | 1 => target.ndim() < 2 && target.numel() == scores.numel(),
        2 => target.sizes() == scores.sizes(),
        _ => false,
    })?;
    let by_row = reduction == NONE && target.ndim() > 1;
    results(call, &[losses(scores, by_row), contiguous(target.sizes(), scores)])
}

fn are_within(lengths: &[i64], most: i64) -> bool {
    lengths.iter().all(|length| (0..=most).contains(length))
}

/// `_ctc_loss`. Lengths in tensors are read during the call, so the fallback serves them.
pub fn ctc_loss(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scores, targets, lengths, target_lengths, _, _): (_, _, &[i64], &[i64], i64, bool) = with_elements(arguments)?;
    let (scores, targets): (Tensor<'_>, Tensor<'_>) = (scores, targets);
    take_if(scores.ndim() == 3 && [1, 2].contains(&targets.ndim()))?;
    let (steps, samples) = (scores.sizes()[0], scores.sizes()[1]);
    take_if(lengths.len() as i64 == samples && target_lengths.len() == lengths.len())?;
    take_if(are_within(lengths, steps) && are_within(target_lengths, targets.size_from_end(0)))?;
    let longest = target_lengths.iter().max().unwrap_or(&0);
    results(call, &[contiguous(&[samples], scores), contiguous(&[samples, steps, 2 * longest + 1], scores)])
}

/// `segment_reduce`. Lengths are read during the call if they must be checked to cover the data, so the fallback serves them.
pub fn segment_reduce(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_filled(arguments)?;
    let [data, _, lengths, _, offsets, axis, is_unsafe, _] = arguments.all()?;
    let (data, axis): (Tensor<'_>, i64) = (data.get()?, axis.get()?);
    take_if((0..data.ndim() as i64).contains(&axis))?;
    let axis = axis as usize;
    let (segments, count) = match (lengths.get::<Option<Tensor<'_>>>()?, offsets.get::<Option<Tensor<'_>>>()?) {
        (Some(lengths), None) if is_unsafe.get()? => (lengths, 0),
        (None, Some(offsets)) => (offsets, 1),
        _ => return take_if(false),
    };
    take_if(segments.ndim() == axis + 1)?;
    let mut sizes = data.sizes().to_vec();
    sizes[axis] = segments.sizes()[axis] - count;
    result(call, contiguous(&sizes, data))
}

fn is_contiguous(tensor: Tensor<'_>) -> bool {
    tensor.is_dense(Format::Contiguous)
}

/// True if `g` has a magnitude for each slice of `v` along its first or last dimension.
fn are_slices(v: Tensor<'_>, g: Tensor<'_>, dim: i64) -> bool {
    let is_outer = v.ndim() > 0 && (dim == 0 || dim == v.ndim() as i64 - 1);
    is_outer && is_contiguous(v) && is_contiguous(g) && g.numel() == v.sizes()[dim as usize] && v.dtype() == g.dtype()
}

/// `_weight_norm_interface`. The norms of BFloat16 weights are `Float`.
pub fn weight_norm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (v, g, dim): (Tensor<'_>, Tensor<'_>, i64) = with_elements(arguments)?;
    take_if(are_slices(v, g, dim))?;
    let dtype = if g.dtype() == DType::BFloat16 { DType::Float } else { g.dtype() };
    results(call, &[contiguous(v.sizes(), v), Shape { sizes: g.sizes().into(), strides: g.strides().into(), dtype }])
}

pub fn weight_norm_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, v, g, norms, dim): (Tensor<'_>, Tensor<'_>, Tensor<'_>, Tensor<'_>, i64) = with_elements(arguments)?;
    take_if(are_slices(v, g, dim))?;
    take_if(is_contiguous(grad) && grad.sizes() == v.sizes() && is_contiguous(norms) && norms.sizes() == g.sizes())?;
    results(call, &[contiguous(v.sizes(), v), contiguous(g.sizes(), g)])
}

/// `renorm`. The fallback serves empty tensors, for which some norms are refused.
pub fn renorm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_filled(arguments)?;
    of_meta(arguments, call)
}

/// `_cdist_forward`: distances of each row of `x1` to each row of `x2`.
pub fn of_rows(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (x1, x2, p, mode): (Tensor<'_>, Tensor<'_>, f64, Option<i64>) = with_elements(arguments)?;
    let mode = mode.unwrap_or(0);
    take_if(are_matrices(x1, x2) && x1.dtype() == x2.dtype() && p >= 0.0 && (0..=2).contains(&mode))?;
    take_if(x1.size_from_end(0) == x2.size_from_end(0))?;
    let batch = broadcast(batch_of(x1, 2), batch_of(x2, 2))?;
    result(call, contiguous(&[&batch[..], &[x1.size_from_end(1), x2.size_from_end(1)]].concat(), x1))
}

pub fn of_rows_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_filled(arguments)?;
    let (x1, x2) = (arguments.tensor(1)?, arguments.tensor(2)?);
    take_if(are_matrices(x1, x2))?;
    let batch = broadcast(batch_of(x1, 2), batch_of(x2, 2))?;
    result(call, contiguous(&[&batch[..], &[x1.size_from_end(1), x1.size_from_end(0)]].concat(), x1))
}

/// `_pdist_forward`: distances of each pair of rows.
pub fn of_pairs(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (rows, p): (Tensor<'_>, f64) = with_elements(arguments)?;
    take_if(rows.ndim() == 2 && rows.is_dense(Format::Contiguous) && p >= 0.0)?;
    let count = rows.sizes()[0];
    result(call, contiguous(&[count * (count - 1) / 2], rows))
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
