//! Products with quantised weights, and products of 8 bit integers.
//!
//! `ensure!` without a text raises the error of PyTorch's CPU kernel, which makes the same checks.

use crate::call::operator::{Batch, Task, any_dtype, operators, plain};
use crate::call::tasks::task;
use crate::call::{Call, CallError, Cut, Format, Outcome, Strides, Tensor, ensure, typed};
use crate::simd::{self, Isa};
use crate::tensor::{DType, DTypeSet, Scalar};

operators! {
    (c"_int_mm", LIBRARY): any_dtype(plain(typed!(int_mm))) => c"_int_mm", c"_int_mm.out";
    c"_weight_int8pack_mm": any_dtype(plain(typed!(weight_int8pack_mm))) => c"_weight_int8pack_mm";
    c"_weight_int4pack_mm_for_cpu": any_dtype(plain(typed!(weight_int4pack_mm))) => c"_weight_int4pack_mm_for_cpu";
    c"_convert_weight_to_int4pack_for_cpu": any_dtype(plain(typed!(convert_weight_to_int4pack))) =>
        c"_convert_weight_to_int4pack_for_cpu";
}

/// PyTorch's kernel for 8 bit integers.
const LIBRARY: Task = task(Some(c"_int_mm.out"), DTypeSet::of(&[DType::Char, DType::Byte]), Batch::None);

/// True if PyTorch's kernel for 8 bit integers is oneDNN's, whose instructions multiply four of them at once.
fn has_library() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_products = is_x86_feature_detected!("avx512vnni");
    #[cfg(not(target_arch = "x86_64"))]
    let has_products = false;
    simd::isa() == Isa::Avx512 && has_products
}

/// Multiply-adds of one thread in a nanosecond.
const PRODUCTS_PER_NS: u64 = 300;
/// The number of weights in a byte of packed ones.
const PER_BYTE: i64 = 2;

/// The sizes of a matrix, as a product takes it.
fn matrix(tensor: Tensor<'_>) -> Result<[i64; 2], CallError> {
    let &[rows, cols] = tensor.sizes() else { return Err(CallError::CpuError) };
    Ok([rows, cols])
}

/// `_weight_int8pack_mm`: x (M, K), weights (N, K) of `Char`, scales (N) of x's dtype. Returns (M, N).
pub fn weight_int8pack_mm(call: &Call<'_>, x: Tensor<'_>, weights: Tensor<'_>, scales: Tensor<'_>) -> Outcome {
    let ([m, k], [n, terms]) = (matrix(x)?, matrix(weights)?);
    ensure!(call.takes(x.dtype()) && weights.dtype() == DType::Char && scales.dtype() == x.dtype());
    ensure!(terms == k && scales.sizes() == [n] && x.strides()[1] == 1 && weights.is_dense(Format::Contiguous));
    let out = call.contiguous(0, &[m, n], x.dtype(), Strides::Any)?;
    let [x, scales] = [call.dense(x, Format::Contiguous)?, call.dense(scales, Format::Contiguous)?];
    call.launch(&[out], &[x, weights, scales], &[])
}

/// `_convert_weight_to_int4pack_for_cpu`: weights (N, K) of `Int`, 0 to 15; the number of tiles is ignored. Returns (N, K / 2) of
/// `Byte`.
pub fn convert_weight_to_int4pack(call: &Call<'_>, weights: Tensor<'_>, _inner_tiles: i64) -> Outcome {
    let [n, k] = matrix(weights)?;
    ensure!(weights.dtype() == DType::Int && n % 16 == 0 && k % PER_BYTE == 0);
    let out = call.contiguous(0, &[n, k / PER_BYTE], DType::Byte, Strides::Any)?;
    call.launch_in(DType::Int, &[out], &[call.dense(weights, Format::Contiguous)?], &[])
}

/// `_weight_int4pack_mm_for_cpu`: x (M, K), packed weights (N, K / 2) of `Byte`, the terms of a group, scales and offsets (K /
/// group, N, 2) of x's dtype. Returns (M, N).
pub fn weight_int4pack_mm(call: &Call<'_>, x: Tensor<'_>, packed: Tensor<'_>, group: i64, parameters: Tensor<'_>) -> Outcome {
    let ([m, k], [n, bytes]) = (matrix(x)?, matrix(packed)?);
    ensure!(call.takes(x.dtype()) && packed.dtype() == DType::Byte && parameters.dtype() == x.dtype());
    ensure!([32, 64, 128, 256].contains(&group) && k % group == 0 && n % 16 == 0 && bytes == k / PER_BYTE);
    ensure!(parameters.sizes() == [k / group, n, 2]);
    ensure!([x, packed].iter().all(|operand| operand.is_dense(Format::Contiguous)));
    let out = call.contiguous(0, &[m, n], x.dtype(), Strides::Any)?;
    call.launch(&[out], &[x, packed, call.dense(parameters, Format::Contiguous)?], &[Scalar::Long(group)])
}

/// `_int_mm`: a (M, K) of `Char` or `Byte`, b (K, N) of `Char`. Returns (M, N) of `Int`.
pub fn int_mm(call: &Call<'_>, a: Tensor<'_>, b: Tensor<'_>) -> Outcome {
    let ([m, k], [terms, n]) = (matrix(a)?, matrix(b)?);
    ensure!([DType::Char, DType::Byte].contains(&a.dtype()) && b.dtype() == DType::Char && terms == k);
    // An output of the caller is not resized, as on the CPU.
    let fits = |out: Tensor<'_>| out.dtype() == DType::Int && out.has_sizes(&[m, n]) && out.is_dense(Format::Contiguous);
    ensure!(call.given(0).is_none_or(fits));
    let out = call.contiguous(0, &[m, n], DType::Int, Strides::Any)?;
    if has_library() && m * n * k > 0 {
        let cost = (m * n) as u64 * k as u64 / PRODUCTS_PER_NS;
        return call.leave_to_task(Cut { takes_threads: true, ..Cut::new(0, 1, 1, cost) });
    }
    let columns = b.within(&[n, k], &[b.strides()[1], b.strides()[0]]);
    call.launch(&[out], &[call.dense(a, Format::Contiguous)?, call.dense(columns, Format::Contiguous)?], &[])
}
