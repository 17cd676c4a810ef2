//! Embedding tables: the gradient of `embedding`, embedding bags, renorm.

use super::kernel::{embedding_bag as bag_kernel, embedding_renorm as renorm_kernel};
use crate::call::addressing::{Addressing, Operation, Update};
use crate::call::prelude::*;
use crate::ops::indexing::operator::gather_scatter::is_index;

operators! {
    c"embedding_dense_backward": plain(backward) => c"embedding_dense_backward";
    c"_embedding_bag": plain(bag) => c"_embedding_bag" | c"_embedding_bag_forward_only";
    c"embedding_renorm_": plain(typed!(renorm)) => c"embedding_renorm_";
}

const SUM: i64 = 0;
const MAX: i64 = 2;

/// For each position, 1 over the number of occurrences of its index, as a column.
fn inverse_counts<'a>(call: &Call<'a>, indices: Tensor<'_>, num_rows: i64, dtype: DType) -> Result<Tensor<'a>, CallError> {
    let counts = call.zeros(&[num_rows], DType::Double)?;
    Addressing::each_slice(counts, 0, indices)?.update(call, counts, Input::Number(Scalar::Long(1)), Operation::Add.into())?;
    let counts = call.operator(&callees::INDEX_SELECT, &[counts.into(), 0.into(), indices.into()])?;
    let inverse = call.operator(&callees::RECIPROCAL, &[Value::Tensor(counts)])?;
    Ok(call.cast(inverse, dtype)?.view(&[indices.numel(), 1]))
}

pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (grad, indices, num_weights, skipped, scales): (Tensor<'_>, Tensor<'_>, i64, _, bool) = arguments.typed()?;
    ensure!(is_index(indices) && grad.ndim() > 0);
    let (count, width) = (indices.numel(), grad.size_from_end(0));
    ensure!(count == 0 || count * width == grad.numel());
    let indices = call.dense(indices, Format::Contiguous)?.view(&[count]);
    let out = call.contiguous(0, &[num_weights, width], grad.dtype(), Strides::Any)?;
    call.operator(&callees::ZERO, &[Value::Tensor(out)])?;
    if count == 0 {
        return Ok(());
    }
    let rows = call.dense(grad, Format::Contiguous)?.view(&[count, width]);
    let update = Update { skipped, ..Operation::Add.into() };
    // For 16 bit floats, only the sums are rounded, not the scaled rows.
    let wide = if scales { grad.dtype().opmath() } else { grad.dtype() };
    let rows = if scales {
        let scales = inverse_counts(call, indices, num_weights, wide)?;
        call.operator(&callees::MUL, &[Value::Tensor(call.cast(rows, wide)?), Value::Tensor(scales)])?
    } else {
        rows
    };
    let sums = if wide == grad.dtype() { out } else { call.zeros(out.sizes(), wide)? };
    Addressing::each_slice(sums, 0, indices)?.update(call, sums, Input::Tensor(rows), update)?;
    if wide == grad.dtype() { Ok(()) } else { call.copy(out, sums) }
}

/// An error unless the arguments fit. The dtypes of indices and offsets may differ.
fn check_bag([weight, indices, offsets]: [Tensor<'_>; 3], mode: i64, scales: Option<Tensor<'_>>, has_last: bool) -> Outcome {
    check_same_device([weight, indices, offsets].into_iter().chain(scales), "a tensor", "embedding_bag")?;
    // PyTorch's kernel does not check this.
    let (ndim, dtype) = (indices.ndim(), offsets.dtype());
    ensure!(ndim == 1, "embedding_bag: expected indices of one dimension, but got {ndim}");
    ensure!(is_index(offsets), "embedding_bag: expected offsets of dtype Long or Int, but got {dtype:?}");
    ensure!(is_index(indices) && FLOATING.contains(weight.dtype()));
    ensure!([offsets.ndim(), weight.ndim()] == [1, 2] && (SUM..=MAX).contains(&mode) && (!has_last || offsets.numel() > 0));
    let is_scale = |scales: Tensor<'_>| mode == SUM && scales.dtype() == weight.dtype() && scales.sizes() == indices.sizes();
    ensure!(scales.is_none_or(is_scale));
    Ok(())
}

/// `_embedding_bag`. Sizes and dtypes are those of PyTorch's meta kernel for accelerators: without mode "max" the maxima are
/// empty, and the last offset has a bag size, too.
pub fn bag(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [weight, indices, offsets, _scale, mode, _sparse, scales, has_last, padding] = arguments.all()?;
    let (weight, indices, offsets): (Tensor<'_>, Tensor<'_>, Tensor<'_>) = (weight.get()?, indices.get()?, offsets.get()?);
    let (mode, scales, has_last, padding) = (mode.get()?, scales.get()?, has_last.get()?, padding.get()?);
    check_bag([weight, indices, offsets], mode, scales, has_last)?;
    let bags = offsets.numel() - i64::from(has_last);
    let dtype = indices.dtype();
    let sums = [bags, weight.sizes()[1]];
    let out = call.contiguous(0, &sums, weight.dtype(), Strides::Any)?;
    let results = [
        call.contiguous(1, indices.sizes(), dtype, Strides::Any)?,
        call.contiguous(2, offsets.sizes(), dtype, Strides::Any)?,
        call.contiguous(3, if mode == MAX { &sums } else { &[0] }, dtype, Strides::Any)?,
    ];
    // The kernel reads and writes dtype Long.
    let long = |index: usize| match dtype {
        DType::Long => Ok(results[index]),
        _ => call.empty(results[index].sizes(), DType::Long),
    };
    let [bag_of, all_sizes] = [long(0)?, long(1)?];
    let maxima = if mode == MAX { long(2)? } else { call.empty(&[bags], DType::Long)? };
    if bags != 0 {
        let table = call.dense(weight, Format::Contiguous)?;
        let [indices, offsets] = [call.cast(indices, DType::Long)?, call.cast(offsets, DType::Long)?];
        let [indices, offsets] = [call.dense(indices, Format::Contiguous)?, call.dense(offsets, Format::Contiguous)?];
        let scales = call.dense_given(scales)?;
        let sizes = all_sizes.within(&[bags], &[1]);
        let scalars = bag_kernel::Scalars { mode: mode.into(), padding: Scalar::Long(padding) };
        call.launch(&[out, bag_of, sizes, maxima], &[Some(table), Some(indices), Some(offsets), scales], &scalars.list())?;
    }
    if has_last {
        let last = all_sizes.row(bags);
        call.operator(&callees::ZERO, &[Value::Tensor(last)])?;
    }
    if dtype != DType::Long {
        call.copy(results[0], bag_of)?;
        call.copy(results[1], all_sizes)?;
        if mode == MAX {
            call.copy(results[2], maxima)?;
        }
    }
    Ok(())
}

/// `embedding_renorm_`: scales indexed rows down to a norm of at most `max_norm`.
pub fn renorm(call: &Call<'_>, table: Tensor<'_>, indices: Tensor<'_>, max_norm: Scalar, norm_type: Scalar) -> Outcome {
    ensure!(table.ndim() == 2 && is_index(indices));
    let out = call.contiguous(0, table.sizes(), table.dtype(), Strides::Any)?;
    if indices.numel() == 0 {
        return Ok(());
    }
    let indices = call.dense(call.cast(indices, DType::Long)?, Format::Contiguous)?;
    let dense = call.dense(out, Format::Contiguous)?;
    let scalars = renorm_kernel::Scalars { max_norm, norm_type };
    call.launch(&[dense], &[indices], &scalars.list())?;
    if dense.address() == out.address() { Ok(()) } else { call.copy(out, dense) }
}
