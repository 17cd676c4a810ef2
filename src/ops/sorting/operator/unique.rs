//! `unique` and its variants. All wait for the number of unique elements.

use std::ffi::CStr;

use super::sorted;
use crate::call::dims;
use crate::call::prelude::*;
use crate::ops::sorting::kernel::unique as kernels;
use crate::tuning::algorithms::UNIQUE_LINE;

operators! {
    c"unique_groups": plain(unique) => c"_unique" | c"_unique2";
    c"unique_groups": plain(unique_dim::<false>) => c"unique_dim";
    c"unique_groups": plain(unique_dim::<true>) => c"unique_dim_consecutive";
    c"unique_groups": plain(typed!(unique_consecutive)) => c"unique_consecutive";
}

const REASON: &CStr = c"unique (the result's size is read on the host)";

/// Rows of a 2-D table, to be grouped.
struct Grouping<'a> {
    table: Tensor<'a>,
    /// The row numbers in sorted order, unless the rows are grouped in the given order.
    indices: Option<Tensor<'a>>,
    /// True if the rows are stored in sorted order.
    in_order: bool,
    /// Memory for the group number of each row.
    numbers: Tensor<'a>,
}

struct Results<'a> {
    /// The sizes of the unique rows; their number goes in the first dimension, which is then moved to `dim`.
    sizes: &'a [i64],
    dim: usize,
    /// The sizes of the inverse indices; `None` if these are not wanted.
    inverse: Option<&'a [i64]>,
    with_counts: bool,
}

impl<'a> Grouping<'a> {
    /// Makes the results, after a wait for the number of groups.
    fn group(&self, call: &Call<'a>, results: &Results<'_>) -> Outcome {
        let (table, numbers, count) = (self.table, self.numbers, self.numbers.numel());
        let order = self.indices.filter(|_| !self.in_order);
        call.launch_in(table.dtype(), &[numbers], &[Some(table), order], &[])?;
        let different = call.read(numbers.row(count - 1), REASON, count - 1)? + 1;
        let starts = call.empty(&[different], DType::Long)?;
        let inverse = longs(call, 1, results.inverse.unwrap_or(&[0]))?;
        let counts = longs(call, 2, &[if results.with_counts { different } else { 0 }])?;
        let targets = [starts, inverse.view(&[inverse.numel()]), counts];
        let scalars = kernels::collect::Scalars { in_order: self.in_order.into() };
        let collect = call.with_kernel(kernel!(c"unique_collect"));
        collect.launch_in(DType::Long, &targets, &[Some(numbers), self.indices], &scalars.list())?;
        // The first dimension is moved to `dim`, while it still varies slowest in memory.
        let mut sizes = dims(results.sizes, |size| size);
        sizes[0] = different;
        let mut strides = Format::Contiguous.strides(&sizes);
        sizes[..=results.dim].rotate_left(1);
        strides[..=results.dim].rotate_left(1);
        let out = call.output(0, &Shape { sizes, strides, dtype: table.dtype() }, Strides::Any)?;
        let cols = table.sizes()[1];
        let target = out.within(&[different, cols], &[cols, 1]);
        call.with_kernel(kernel!(c"unique_rows")).launch(&[target], &[table, starts], &[])
    }
}

/// An output of dtype Long.
fn longs<'a>(call: &Call<'a>, index: usize, sizes: &[i64]) -> Result<Tensor<'a>, CallError> {
    call.contiguous(index, sizes, DType::Long, Strides::Any)
}

/// Makes the results for an empty tensor.
fn nothing(call: &Call<'_>, sizes: &[i64], dtype: DType, inverse: &[i64]) -> Outcome {
    call.contiguous(0, sizes, dtype, Strides::Any)?;
    longs(call, 1, inverse)?;
    longs(call, 2, &[0]).map(drop)
}

/// The elements of a 1-D tensor that differ from their predecessors, in sorted order or, with `as_it_is`, in the given order.
/// Waits for their number.
fn of_line(call: &Call<'_>, line: Tensor<'_>, as_it_is: bool) -> Outcome {
    let (values, count) = (call.empty(line.sizes(), line.dtype())?, call.empty(&[1], DType::Long)?);
    let scalars = kernels::unique_line::Scalars { as_it_is: as_it_is.into() };
    call.with_kernel(kernel!(c"unique_line")).launch(&[values, count], &[line], &scalars.list())?;
    let kept = call.read(count, REASON, line.numel())?;
    let result = if 2 * kept < line.numel() {
        // A short result is copied, so that it does not hold the memory for all elements.
        call.operator(&callees::CLONE, &[Value::Tensor(values.section(0, 0, kept)), Value::None])?
    } else {
        call.resize(values, &[kept])?
    };
    call.give(0, result)?;
    longs(call, 1, &[0])?;
    longs(call, 2, &[0]).map(drop)
}

/// Groups the elements of a tensor, each as a row.
fn of_elements(call: &Call<'_>, input: Tensor<'_>, consecutive: bool, with_inverse: bool, with_counts: bool) -> Outcome {
    let (sizes, numel) = (input.sizes(), input.numel());
    let inverse = with_inverse.then_some(sizes);
    if numel == 0 {
        return nothing(call, &[0], input.dtype(), inverse.unwrap_or(&[0]));
    }
    let line = call.dense(input, Format::Contiguous)?.view(&[numel]);
    if !with_inverse && !with_counts && (consecutive || numel <= UNIQUE_LINE) {
        return of_line(call, line, consecutive);
    }
    let (line, indices) = if consecutive {
        (line, None)
    } else {
        let [values, order] = sorted(call, line, 0, false)?;
        if !with_inverse && !with_counts {
            return of_line(call, values, true);
        }
        (values, Some(order).filter(|_| with_inverse))
    };
    let results = Results { sizes: &[numel], dim: 0, inverse, with_counts };
    let numbers = call.empty(&[numel], DType::Long)?;
    Grouping { table: line.view(&[numel, 1]), indices, in_order: true, numbers }.group(call, &results)
}

/// Groups the slices along a dimension, each as a row.
fn along(call: &Call<'_>, input: Tensor<'_>, dim: i64, consecutive: bool) -> Outcome {
    let dim = wrap_dim(dim, input.ndim())?;
    let zeros = input.sizes().iter().filter(|&&size| size == 0).count();
    if input.sizes().get(dim) == Some(&0) {
        ensure!(zeros == 1);
        return nothing(call, input.sizes(), input.dtype(), &[0]);
    }
    ensure!(zeros == 0);
    // The dimension is moved to the front; a 0-dim tensor becomes 1-D.
    let to_front = |values: &[i64]| {
        let mut values = Dims::from(values);
        values[..=dim].rotate_right(1);
        values
    };
    let moved = match input.ndim() {
        0 => input.view(&[1]),
        _ => input.within(&to_front(input.sizes()), &to_front(input.strides())),
    };
    let count = moved.sizes()[0];
    let table = call.dense(moved, Format::Contiguous)?.view(&[count, moved.numel() / count]);
    let indices = if consecutive {
        None
    } else {
        let order = call.empty(&[count], DType::Long)?;
        call.with_kernel(kernel!(c"unique_order")).launch_in(input.dtype(), &[order], &[table], &[])?;
        Some(order)
    };
    let grouping = Grouping { table, indices, in_order: consecutive, numbers: call.empty(&[count], DType::Long)? };
    grouping.group(call, &Results { sizes: moved.sizes(), dim, inverse: Some(&[count]), with_counts: true })
}

/// `_unique` and `_unique2`, which may count the elements.
pub fn unique(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (inverse, counts) = (arguments[2].get()?, arguments.get(3).map_or(Ok(false), Value::get)?);
    of_elements(call, arguments.tensor(0)?, false, inverse, counts)
}

/// `unique_dim` and `unique_dim_consecutive`.
pub fn unique_dim<const CONSECUTIVE: bool>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    along(call, arguments.tensor(0)?, arguments[1].get()?, CONSECUTIVE)
}

pub fn unique_consecutive(call: &Call<'_>, input: Tensor<'_>, inverse: bool, counts: bool, dim: Option<i64>) -> Outcome {
    match dim {
        Some(dim) if dim != 0 || input.ndim() != 1 => along(call, input, dim, true),
        _ => of_elements(call, input, true, inverse, counts),
    }
}
