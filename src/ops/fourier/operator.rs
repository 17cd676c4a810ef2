//! Fourier transforms, whose results have the strides of PyTorch's CPU kernels.
//!
//! With MKL, the memory of a result is ordered: first the dimensions that are not transformed, by the operand's strides, then
//! the transformed ones. Without MKL, or if it is empty, the result is contiguous.

use smallvec::smallvec;

use crate::call::prelude::*;
use crate::call::tasks::{contiguous, result, tasks};

tasks! {
    c"_fft_c2c" => c"_fft_c2c.out": WIDE_COMPLEX, None, plain(typed!(complex_to_complex));
    c"_fft_r2c" => c"_fft_r2c.out": WIDE, None, plain(typed!(real_to_complex));
    c"_fft_c2r" => c"_fft_c2r.out": WIDE_COMPLEX, None, plain(typed!(complex_to_real));
}

/// The dimensions by descending stride.
fn by_stride(strides: &[i64], mut dims: Vec<usize>) -> Vec<usize> {
    dims.sort_by_key(|&dim| std::cmp::Reverse(strides[dim]));
    dims
}

/// The dimensions that are not transformed, in the order that `std::partition` leaves; it decides between equal strides.
fn partitioned(ndim: usize, transformed: &[usize]) -> Vec<usize> {
    let mut dims: Vec<usize> = (0..ndim).collect();
    let (mut first, mut last) = (0, ndim);
    while first < last {
        if !transformed.contains(&dims[first]) {
            first += 1;
            continue;
        }
        last -= 1;
        if !transformed.contains(&dims[last]) {
            dims.swap(first, last);
            first += 1;
        }
    }
    dims.truncate(first);
    dims
}

/// The strides of a result with these sizes, for an operand with these strides; the `transformed` dimensions are innermost in
/// memory.
fn result_strides(strides: &[i64], sizes: &[i64], transformed: &[usize], has_mkl: bool) -> Dims {
    if !has_mkl || sizes.contains(&0) {
        return Format::Contiguous.strides(sizes);
    }
    let mut order = by_stride(strides, partitioned(sizes.len(), transformed));
    order.extend(transformed);
    let mut result: Dims = smallvec![0; sizes.len()];
    let mut stride = 1_i64;
    for &dim in order.iter().rev() {
        result[dim] = stride;
        stride = stride.saturating_mul(sizes[dim].max(1));
    }
    result
}

/// The transformed dimensions, which the guard has checked.
fn dims_of(dims: &[i64]) -> Vec<usize> {
    dims.iter().map(|&dim| dim as usize).collect()
}

/// The last transformed dimension, and those before it.
fn with_last(dims: &[i64]) -> Result<(usize, Vec<usize>), CallError> {
    let mut dims = dims_of(dims);
    let last = dims.pop().ok_or_else(|| CallError::Invalid("expected a dimension to transform".into()))?;
    Ok((last, dims))
}

/// `_fft_c2c`.
pub fn complex_to_complex(call: &Call<'_>, operand: Tensor<'_>, dims: &[i64], _: i64, _: bool) -> Outcome {
    let dims = by_stride(operand.strides(), dims_of(dims));
    let strides = result_strides(operand.strides(), operand.sizes(), &dims, shim::has_mkl());
    result(call, Shape { strides, ..contiguous(operand.sizes(), operand) })
}

/// `_fft_r2c`.
pub fn real_to_complex(call: &Call<'_>, operand: Tensor<'_>, dims: &[i64], _: i64, is_onesided: bool) -> Outcome {
    let (last, dims) = with_last(dims)?;
    let mut sizes = operand.sizes().to_vec();
    if is_onesided {
        sizes[last] = sizes[last] / 2 + 1;
    }
    let mut transformed = by_stride(operand.strides(), dims);
    transformed.push(last);
    let strides = result_strides(operand.strides(), &sizes, &transformed, shim::has_mkl());
    let dtype = if operand.dtype() == DType::Float { DType::ComplexFloat } else { DType::ComplexDouble };
    result(call, Shape { sizes: sizes.into(), strides, dtype })
}

/// `_fft_c2r`. The last dimension is transformed after the others.
pub fn complex_to_real(call: &Call<'_>, operand: Tensor<'_>, dims: &[i64], _: i64, last_size: i64) -> Outcome {
    let (last, dims) = with_last(dims)?;
    let (mut sizes, mut strides) = (operand.sizes().to_vec(), Dims::from(operand.strides()));
    if !dims.is_empty() {
        strides = result_strides(&strides, &sizes, &by_stride(&strides, dims), shim::has_mkl());
    }
    sizes[last] = last_size;
    let strides = result_strides(&strides, &sizes, &[last], shim::has_mkl());
    let dtype = if operand.dtype() == DType::ComplexFloat { DType::Float } else { DType::Double };
    result(call, Shape { sizes: sizes.into(), strides, dtype })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transformed_dimensions_are_the_last_in_memory() {
        let (sizes, strides) = ([2, 3, 4], [12, 4, 1]);
        assert_eq!(result_strides(&strides, &sizes, &[0], true)[..], [1, 8, 2]);
        assert_eq!(result_strides(&strides, &sizes, &[2], true)[..], [12, 4, 1]);
        assert_eq!(result_strides(&strides, &sizes, &[0], false)[..], [12, 4, 1]);
        assert_eq!(result_strides(&strides, &[2, 0, 4], &[0], true)[..], [4, 4, 1]);
    }

    #[test]
    fn partitions_are_those_of_the_kernel() {
        assert_eq!(partitioned(4, &[0]), [3, 1, 2]);
        assert_eq!(partitioned(4, &[0, 2]), [3, 1]);
        assert!(partitioned(3, &[0, 1, 2]).is_empty());
        assert_eq!(partitioned(2, &[]), [0, 1]);
    }
}
