//! Embedding tables: the gradient of `embedding`, embedding bags, renorm.

use super::addressing::{Addressing, Operation, Update};
use super::call::{Arguments, Call, Input, Outcome, Refusal, Strides, Value, ensure};
use super::names;
use super::tensors::{Format, Tensor};
use crate::kernels::indexing::embedding::{embedding_bag as bag_kernel, embedding_renorm as renorm_kernel};
use crate::tensor::dtype::{DType, FLOATING};
use crate::tensor::launch::Scalar;

const SUM: i64 = 0;
const MEAN: i64 = 1;
const MAX: i64 = 2;

fn check_index_dtype(tensor: Tensor<'_>, argument: &str, name: &str) -> Outcome {
    let dtype = tensor.dtype();
    ensure!(
        [DType::Long, DType::Int].contains(&dtype),
        "Expected tensor for argument {argument} to have one of the following scalar types: Long, Int; but got {dtype:?} instead (while \
         checking arguments for {name})"
    );
    Ok(())
}

fn check_indices(indices: Tensor<'_>, name: &str) -> Outcome {
    check_index_dtype(indices, "#2 'indices'", name)
}

/// For each position, 1 over the number of occurrences of its index, as a column.
fn inverse_counts<'a>(call: &Call<'a>, indices: Tensor<'_>, num_rows: i64, dtype: DType) -> Result<Tensor<'a>, Refusal> {
    let counts = call.zeros(&[num_rows], DType::Double)?;
    if let Some(addressing) = Addressing::each_slice(counts, 0, indices)? {
        addressing.update(call, counts, Input::Number(Scalar::Long(1)), Operation::Add.into())?;
    }
    let number = |value: i64| Value::Number(Scalar::Long(value));
    let counts = call.operator(&names::INDEX_SELECT, &[Value::Tensor(counts), number(0), Value::Tensor(indices)])?;
    let inverse = call.operator(&names::RECIPROCAL, &[Value::Tensor(counts)])?;
    Ok(call.cast(inverse, dtype)?.view(&[indices.numel(), 1]))
}

/// `embedding_dense_backward`.
pub fn backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [grad, indices, num_weights, padding, scale_by_frequency] = arguments.all()?;
    let (grad, indices, num_weights) = (grad.tensor()?, indices.tensor()?, num_weights.integer()?);
    check_indices(indices, "embedding_backward")?;
    if grad.ndim() == 0 {
        return Err(Refusal::Index("Dimension specified as -1 but tensor has no dimensions".into()));
    }
    let (count, width) = (indices.numel(), grad.size_from_end(0));
    let indices = call.dense(indices, Format::Contiguous)?.view(&[count]);
    let out = call.contiguous(0, &[num_weights, width], grad.dtype(), Strides::Any)?;
    call.operator(&names::ZERO, &[Value::Tensor(out)])?;
    if count == 0 {
        return Ok(());
    }
    let elements = grad.numel();
    ensure!(count * width == elements, "embedding_backward: a gradient of {elements} elements for {count} indices of {width}");
    let rows = call.dense(grad, Format::Contiguous)?.view(&[count, width]);
    let update = Update { skipped: padding.integer()?, ..Operation::Add.into() };
    if !scale_by_frequency.flag()? {
        return add_rows(call, out, indices, rows, update);
    }
    // For 16 bit floats, only the sums are rounded, not the scaled rows.
    let wide = grad.dtype().opmath();
    let scales = inverse_counts(call, indices, num_weights, wide)?;
    let rows = call.operator(&names::MUL, &[Value::Tensor(call.cast(rows, wide)?), Value::Tensor(scales)])?;
    if wide == grad.dtype() {
        return add_rows(call, out, indices, rows, update);
    }
    let sums = call.zeros(out.sizes(), wide)?;
    add_rows(call, sums, indices, rows, update)?;
    call.copy(out, sums)
}

/// Adds each row to the table's row that its index selects.
fn add_rows(call: &Call<'_>, table: Tensor<'_>, indices: Tensor<'_>, rows: Tensor<'_>, update: Update) -> Outcome {
    match Addressing::each_slice(table, 0, indices)? {
        Some(addressing) => addressing.update(call, table, Input::Tensor(rows), update),
        None => Ok(()),
    }
}

fn check_bag(
    weight: Tensor<'_>,
    indices: Tensor<'_>,
    offsets: Tensor<'_>,
    mode: i64,
    scales: Option<Tensor<'_>>,
    has_last: bool,
) -> Outcome {
    // The dtypes of indices and offsets may differ: the kernel reads each in its own dtype.
    check_indices(indices, "embedding_bag")?;
    check_index_dtype(offsets, "#3 'offsets'", "embedding_bag")?;
    let ndims = [indices.ndim(), offsets.ndim(), weight.ndim()];
    ensure!(
        ndims == [1, 1, 2],
        "embedding_bag: expected indices and offsets of one dimension and a weight of two, but got {}, {} and {}",
        ndims[0],
        ndims[1],
        ndims[2]
    );
    let dtype = weight.dtype();
    ensure!(FLOATING.contains(dtype), "embedding_bag: expected a weight of a floating-point dtype, but got {dtype:?}");
    let devices = [indices.device(), offsets.device()];
    ensure!(devices == [weight.device(); 2], "embedding_bag: expected weight, indices and offsets on one device");
    ensure!(!has_last || offsets.numel() >= 1, "include_last_offset: number of offset should be at least 1");
    let Some(scales) = scales else { return Ok(()) };
    let name = if mode == MEAN { "mean" } else { "max" };
    ensure!(mode == SUM, "embedding_bag: per_sample_weights only supported with mode='sum'. Got mode={name}");
    let of_scales = scales.dtype();
    ensure!(of_scales == dtype, "expected weight and per_sample_weights of one dtype, but got {dtype:?} and {of_scales:?}");
    let (own, wanted) = (scales.numel(), indices.numel());
    ensure!(scales.ndim() == 1 && own == wanted, "expected as many per_sample_weights as indices, but got {own} and {wanted}");
    Ok(())
}

/// `_embedding_bag`. Sizes and dtypes are those of PyTorch's meta kernel for accelerators: without mode "max" the maxima are
/// empty, and the last offset has a bag size, too.
pub fn bag(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [weight, indices, offsets, _scale, mode, _sparse, scales, has_last, padding] = arguments.all()?;
    let (weight, indices, offsets, mode) = (weight.tensor()?, indices.tensor()?, offsets.tensor()?, mode.integer()?);
    let (scales, has_last) = (scales.optional_tensor()?, has_last.flag()?);
    check_bag(weight, indices, offsets, mode, scales, has_last)?;
    let bags = offsets.numel() - i64::from(has_last);
    let dtype = indices.dtype();
    let sums = [bags, weight.sizes()[1]];
    let out = call.contiguous(0, &sums, weight.dtype(), Strides::Any)?;
    let results = [
        call.contiguous(1, indices.sizes(), dtype, Strides::Any)?,
        call.contiguous(2, offsets.sizes(), dtype, Strides::Any)?,
        call.contiguous(3, if mode == MAX { &sums } else { &[0] }, dtype, Strides::Any)?,
    ];
    // The kernel writes dtype Long.
    let long = |index: usize| match dtype {
        DType::Long => Ok(results[index]),
        _ => call.empty(results[index].sizes(), DType::Long),
    };
    let [bag_of, all_sizes] = [long(0)?, long(1)?];
    let maxima = if mode == MAX { long(2)? } else { call.empty(&[bags], DType::Long)? };
    if bags != 0 {
        let [table, indices, offsets] = [weight, indices, offsets].map(|tensor| call.dense(tensor, Format::Contiguous));
        let (table, indices, offsets) = (table?, indices?, offsets?);
        let scales = call.dense_given(scales)?;
        let inputs: Vec<Tensor<'_>> = [table, indices, offsets].into_iter().chain(scales).collect();
        let sizes = all_sizes.within(&[bags], &[1]);
        let scalars = bag_kernel::Scalars { mode: mode.into(), padding: padding.integer()?.into() };
        call.launch(&[out, bag_of, sizes, maxima], &inputs, &scalars.list())?;
    }
    if has_last {
        let last = all_sizes.row(bags);
        call.operator(&names::ZERO, &[Value::Tensor(last)])?;
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
pub fn renorm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [table, indices, max_norm, norm_type] = arguments.all()?;
    let (table, indices) = (table.tensor()?, indices.tensor()?);
    let ndim = table.ndim();
    let text = "dimensional tensor for argument #1 'self' (while checking arguments for embedding_renorm_)";
    ensure!(ndim == 2, "Expected 2-dimensional tensor, but got {ndim}-{text}");
    check_indices(indices, "embedding_renorm_")?;
    let out = call.contiguous(0, table.sizes(), table.dtype(), Strides::Any)?;
    if indices.numel() == 0 {
        return Ok(());
    }
    let indices = call.dense(indices, Format::Contiguous)?;
    let dense = call.dense(out, Format::Contiguous)?;
    let scalars = renorm_kernel::Scalars { max_norm: max_norm.number()?, norm_type: norm_type.number()? };
    call.launch(&[dense], &[indices], &scalars.list())?;
    if dense.address() == out.address() { Ok(()) } else { call.copy(out, dense) }
}
