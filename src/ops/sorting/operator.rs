//! Sorting and selection along a dimension: sort, topk, kthvalue, median, nanmedian, mode. Search in sorted elements:
//! searchsorted, bucketize, isin.
//!
//! Kernels of selection need the dimension as the last one and contiguous. Sorts of long lines do, too: all threads sort a line
//! together, with a workspace.

pub mod unique;

use super::kernel::searchsorted as kernels;
use super::kernel::sort as sort_kernel;
use crate::call::dtypes::common_dtype;
use crate::call::prelude::*;
use crate::tuning::algorithms::{MAX_SELECTED, SHARED_SORT_LINE};

operators! {
    c"kthvalue": plain(typed!(kthvalue)) => c"kthvalue.values";
    c"median": plain(typed!(median)) => c"median";
    c"median": plain(typed!(median_along)) => c"median.dim_values";
    c"nanmedian": plain(typed!(median)) => c"nanmedian";
    c"nanmedian": plain(typed!(median_along)) => c"nanmedian.dim_values";
    c"mode": plain(typed!(mode)) => c"mode", c"mode.values";
    c"sort.stable": plain(typed!(sort)) => c"sort.stable", c"sort.values_stable";
    c"topk": plain(typed!(topk)) => c"topk", c"topk.values";
    c"searchsorted": any_dtype(plain(searchsorted)) =>
        c"searchsorted.Tensor", c"searchsorted.Tensor_out" | c"searchsorted.Scalar", c"searchsorted.Scalar_out";
    c"searchsorted": any_dtype(plain(typed!(bucketize))) =>
        c"bucketize.Tensor", c"bucketize.Tensor_out" | c"bucketize.Scalar";
    c"isin": any_dtype(structured(typed!(isin))) =>
        c"isin.Tensor_Tensor", c"isin.Tensor_Tensor_out" | c"isin.Scalar_Tensor";
    _: plain(typed!(is_number)) => c"isin.Tensor_Scalar";
}

/// The dimension to select along. It is not empty if anything is selected.
struct Line<'a> {
    input: Tensor<'a>,
    dim: usize,
    keepdim: bool,
}

impl<'a> Line<'a> {
    fn new(input: Tensor<'a>, dim: i64, keepdim: bool) -> Result<Self, CallError> {
        let dim = wrap_dim(dim, input.ndim())?;
        ensure!(input.sizes().get(dim) != Some(&0));
        Ok(Self { input, dim, keepdim })
    }

    fn len(&self) -> i64 {
        self.input.sizes().get(self.dim).copied().unwrap_or(1)
    }

    /// Makes values and indices, with one element for each line. The results keep the dimension, for the kernels.
    fn outputs(&self, call: &Call<'a>) -> Result<[Tensor<'a>; 2], CallError> {
        let mut sizes = self.input.sizes().to_vec();
        let drops = !self.keepdim && !sizes.is_empty();
        if drops {
            sizes.remove(self.dim);
        } else if let Some(size) = sizes.get_mut(self.dim) {
            *size = 1;
        }
        let make = |index: usize, dtype: DType| {
            let made = call.contiguous(index, &sizes, dtype, Strides::Any)?;
            Ok(if drops { made.unsqueeze(self.dim) } else { made })
        };
        Ok([make(0, self.input.dtype())?, make(1, DType::Long)?])
    }

    /// Launches a kernel of selection.
    fn select(&self, call: &Call<'a>, outputs: [Tensor<'a>; 2], scalars: &[Scalar]) -> Outcome {
        let source = lines_apart(call, self.input, self.dim, outputs[0])?;
        call.launch(&outputs.map(|output| output.with_last(self.dim)), &[source], scalars)
    }
}

/// True if the elements of a line are not adjacent.
fn has_gaps(lines: Tensor<'_>) -> bool {
    lines.size_from_end(0) > 1 && lines.strides()[lines.ndim() - 1] != 1
}

/// The lines along a dimension, each contiguous.
fn lines_of<'a>(call: &Call<'a>, tensor: Tensor<'a>, dim: usize) -> Result<Tensor<'a>, CallError> {
    let moved = tensor.with_last(dim);
    if has_gaps(moved) { call.dense(moved, Format::Contiguous) } else { Ok(moved) }
}

/// Like `lines_of`, copied if they may share memory with an output.
fn lines_apart<'a>(call: &Call<'a>, tensor: Tensor<'a>, dim: usize, out: Tensor<'_>) -> Result<Tensor<'a>, CallError> {
    let lines = lines_of(call, tensor, dim)?;
    if !lines.may_share_memory(out) {
        return Ok(lines);
    }
    call.operator(&callees::CLONE, &[Value::Tensor(lines), Value::Number(Scalar::Long(0))])
}

pub fn kthvalue(call: &Call<'_>, input: Tensor<'_>, k: i64, dim: i64, keepdim: bool) -> Outcome {
    let line = Line::new(input, dim, keepdim)?;
    ensure!((1..=line.len()).contains(&k));
    let outputs = line.outputs(call)?;
    outputs[0].check_no_overlap(line.input)?;
    line.select(call, outputs, &[k.into()])
}

/// `median` and `nanmedian` along a dimension.
pub fn median_along(call: &Call<'_>, input: Tensor<'_>, dim: i64, keepdim: bool) -> Outcome {
    let line = Line::new(input, dim, keepdim)?;
    line.select(call, line.outputs(call)?, &[])
}

/// `median` and `nanmedian` of all elements.
pub fn median(call: &Call<'_>, input: Tensor<'_>) -> Outcome {
    take_if(input.numel() != 0)?;
    let line = call.dense(input, Format::Contiguous)?.view(&[input.numel()]);
    let out = call.contiguous(0, &[], input.dtype(), Strides::Any)?;
    let index = call.empty(&[1], DType::Long)?;
    call.launch(&[out.view(&[1]), index], &[line], &[])
}

/// `mode`, computed on sorted lines.
pub fn mode(call: &Call<'_>, input: Tensor<'_>, dim: i64, keepdim: bool) -> Outcome {
    let line = Line::new(input, dim, keepdim)?;
    let input = line.input;
    let sorted = if input.numel() == 0 { None } else { Some(sorted(call, lines_of(call, input, line.dim)?, -1, false)?) };
    let outputs = line.outputs(call)?;
    outputs.iter().try_for_each(|output| output.check_no_overlap(input))?;
    let Some([values, order]) = sorted else { return Ok(()) };
    let values = lines_of(call, values, values.ndim() - 1)?;
    call.launch(&outputs.map(|output| output.with_last(line.dim)), &[values, order], &[])
}

// ---- sort and topk ----

/// The elements in stable order along a dimension, and their indices.
pub fn sorted<'a>(call: &Call<'a>, tensor: Tensor<'a>, dim: i64, descending: bool) -> Result<[Tensor<'a>; 2], CallError> {
    let [stable, dim, descending] = [true.into(), dim.into(), descending.into()].map(Value::Number);
    let sorted = call.operators(&callees::SORT, &[Value::Tensor(tensor), stable, dim, descending], 2)?;
    Ok([sorted[0], sorted[1]])
}

/// Both outputs, values and indices. An `out=` tensor may not partially overlap the input.
fn outputs_of<'a>(
    call: &Call<'a>,
    input: Tensor<'_>,
    make: impl Fn(usize, DType) -> Result<Tensor<'a>, CallError>,
) -> Result<[Tensor<'a>; 2], CallError> {
    let outputs = [make(0, input.dtype())?, make(1, DType::Long)?];
    if call.given(0).is_some() {
        outputs.iter().try_for_each(|output| output.check_no_partial_overlap(input))?;
    }
    Ok(outputs)
}

/// Memory for the lines of an output: the output itself if they are contiguous, else a temporary.
fn target_for<'a>(call: &Call<'a>, moved: Tensor<'a>) -> Result<Tensor<'a>, CallError> {
    if has_gaps(moved) { call.empty(moved.sizes(), moved.dtype()) } else { Ok(moved) }
}

fn sort_long_lines<'a>(call: &Call<'a>, outputs: [Tensor<'a>; 2], input: Tensor<'a>, dim: usize, descending: bool) -> Outcome {
    let source = lines_apart(call, input, dim, outputs[0])?;
    let moved = outputs.map(|output| output.with_last(dim));
    let targets = [target_for(call, moved[0])?, target_for(call, moved[1])?];
    let bytes = sort_kernel::workspace(input.dtype(), source.size_from_end(0) as usize) as i64;
    let workspace = call.empty(&[bytes], DType::Byte)?;
    let scalars = sort_kernel::sort::Scalars { dim: (source.ndim() as i64 - 1).into(), descending: descending.into() };
    call.launch_in(input.dtype(), &[targets[0], targets[1], workspace], &[source], &scalars.list())?;
    for (target, moved) in targets.into_iter().zip(moved).filter(|(target, moved)| target.address() != moved.address()) {
        call.copy(moved, target)?;
    }
    Ok(())
}

/// `sort.stable`, which always sorts stably. The outputs have the input's strides.
pub fn sort(call: &Call<'_>, input: Tensor<'_>, _stable: Value<'_>, dim: i64, descending: bool) -> Outcome {
    let dim = wrap_dim(dim, input.ndim())?;
    let outputs = outputs_of(call, input, |index, dtype| call.output_in_order_of(index, input, dtype))?;
    if input.numel() == 0 {
        return Ok(());
    }
    if input.sizes().get(dim).is_some_and(|&size| size > SHARED_SORT_LINE) {
        return sort_long_lines(call, outputs, input, dim, descending);
    }
    let scalars = sort_kernel::sort::Scalars { dim: (dim as i64).into(), descending: descending.into() };
    call.launch_in(input.dtype(), &[Some(outputs[0]), Some(outputs[1]), None], &[input], &scalars.list())
}

pub fn topk(call: &Call<'_>, input: Tensor<'_>, k: i64, dim: i64, largest: bool, _sorted: Value<'_>) -> Outcome {
    let dim = wrap_dim(dim, input.ndim())?;
    let len = input.sizes().get(dim).copied().unwrap_or(1);
    ensure!((0..=len).contains(&k));
    let sizes = call.arena().keep_all(input.ndim(), |other| if other == dim { k } else { input.sizes()[other] });
    let outputs = outputs_of(call, input, |index, dtype| call.contiguous(index, sizes, dtype, Strides::Any))?;
    if k > MAX_SELECTED && len > SHARED_SORT_LINE {
        let sorted = sorted(call, input, dim as i64, largest)?;
        return outputs.into_iter().zip(sorted).try_for_each(|(output, sorted)| call.copy(output, sorted.section(dim, 0, k)));
    }
    let line = Line { input, dim, keepdim: true };
    line.select(call, outputs, &[largest.into()])
}

/// The sizes of an input; a number counts as a 0-dim tensor.
fn sizes_of(input: Input<'_>) -> &[i64] {
    if let Input::Tensor(tensor) = input { tensor.sizes() } else { &[] }
}

/// The input as a contiguous tensor of a dtype. A number is converted in the way of a tensor that holds it.
fn elements<'a>(call: &Call<'a>, input: Input<'a>, dtype: DType) -> Result<Tensor<'a>, CallError> {
    let tensor = match input {
        Input::Tensor(tensor) | Input::Immediate(tensor) => call.dense(tensor, Format::Contiguous)?,
        Input::Absent => return Err(CallError::Invalid("internal error: no elements".into())),
        Input::Number(number) => {
            let own = match number {
                Scalar::Bool(_) => DType::Bool,
                Scalar::Double(_) => DType::Double,
                _ => DType::Long,
            };
            let made = call.empty(&[], own)?;
            call.fill(made, number)?;
            made
        }
    };
    call.cast(tensor, dtype)
}

// ---- searchsorted ----

/// A call of searchsorted or bucketize.
struct Search<'a> {
    sorted: Tensor<'a>,
    values: Input<'a>,
    out_int32: bool,
    right: bool,
    side: Option<&'a str>,
    sorter: Option<Tensor<'a>>,
}

impl<'a> Search<'a> {
    /// An error unless the arguments fit. Waits for the minimum and the maximum of a sorter.
    fn check(&self, call: &Call<'_>) -> Outcome {
        let (sorted, values, size) = (self.sorted.sizes(), sizes_of(self.values), self.sorted.sizes().last().copied().unwrap_or(0));
        // The boundaries are one line, or have a line for each line of the values.
        let lines = sorted.len().saturating_sub(1);
        let are_lines = lines == 0 || (sorted.len() == values.len() && sorted[..lines] == values[..lines]);
        let tensors = [Some(self.sorted), self.values.tensor(), self.sorter];
        check_same_device(tensors.into_iter().flatten(), "a tensor", "searchsorted")?;
        ensure!(self.side.is_none_or(|side| side == "right" || (side == "left" && !self.right)));
        ensure!(self.sorter.is_none_or(|sorter| sorter.dtype() == DType::Long && sorter.sizes() == sorted));
        ensure!(!sorted.is_empty() && are_lines && call.has_dtype(0, self.dtype()));
        ensure!(!self.out_int32 || size < i64::from(i32::MAX));
        let Some(sorter) = self.sorter.filter(|sorter| sorter.numel() > 0) else { return Ok(()) };
        let limits = call.operators(&callees::AMINMAX, &[sorter.into(), Value::None, false.into()], 2)?;
        let reason = c"searchsorted with a sorter (its limits are checked on the host)";
        let [least, greatest] = [call.read(limits[0], reason, 0)?, call.read(limits[1], reason, 0)?];
        ensure!(least >= 0 && greatest < size);
        Ok(())
    }

    fn dtype(&self) -> DType {
        if self.out_int32 { DType::Int } else { DType::Long }
    }

    fn run(&self, call: &Call<'a>) -> Outcome {
        self.check(call)?;
        let (sorted, sizes) = (self.sorted, sizes_of(self.values));
        if sizes.contains(&0) {
            return call.contiguous(0, sizes, self.dtype(), Strides::Any).map(drop);
        }
        if sorted.numel() == 0 {
            let out = call.contiguous(0, sizes, self.dtype(), Strides::Any)?;
            return call.operator(&callees::ZERO, &[Value::Tensor(out)]).map(drop);
        }
        let dtype = common_dtype(Input::Tensor(sorted), self.values, call)?;
        take_if(call.takes(dtype))?;
        let out = call.contiguous(0, sizes, self.dtype(), Strides::Copied)?;
        let sorter = call.dense_given(self.sorter)?;
        let operands = [elements(call, Input::Tensor(sorted), dtype)?, elements(call, self.values, dtype)?];
        let inputs: Vec<Tensor<'_>> = operands.into_iter().chain(sorter).collect();
        let right = self.side.map_or(self.right, |side| side == "right");
        call.launch_in(dtype, &[out], &inputs, &kernels::searchsorted::Scalars { right: right.into() }.list())
    }
}

pub fn searchsorted(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (sorted, values, out_int32, right, side, sorter) = arguments.typed()?;
    Search { sorted, values, out_int32, right, side, sorter }.run(call)
}

pub fn bucketize(call: &Call<'_>, values: Input<'_>, sorted: Tensor<'_>, out_int32: bool, right: bool) -> Outcome {
    ensure!(sorted.ndim() == 1);
    Search { sorted, values, out_int32, right, side: None, sorter: None }.run(call)
}

// ---- isin ----

/// `isin` with a tensor of elements to find.
pub fn isin(call: &Call<'_>, tested: Input<'_>, others: Tensor<'_>, _assume_unique: Value<'_>, invert: bool) -> Outcome {
    call.meta()?;
    let out = call.contiguous(0, sizes_of(tested), DType::Bool, Strides::Any)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if others.numel() == 0 {
        return call.fill(out, invert.into());
    }
    let dtype = common_dtype(tested, Input::Tensor(others), call)?;
    take_if(call.takes(dtype))?;
    let line = elements(call, tested, dtype)?.view(&[out.numel()]);
    let keys = elements(call, Input::Tensor(others), dtype)?.view(&[others.numel()]);
    let [sorted, _] = sorted(call, keys, 0, false)?;
    // The `out=` tensor may have gaps, and may share memory with the elements.
    let target = if call.given(0).is_some() { call.empty(out.sizes(), DType::Bool)? } else { out };
    let scalars = kernels::isin::Scalars { inverted: invert.into() };
    call.launch_in(dtype, &[target.view(line.sizes())], &[line, sorted], &scalars.list())?;
    if call.given(0).is_some() { call.copy(out, target) } else { Ok(()) }
}

/// `isin` with a number to find, computed by `eq` or `ne`.
pub fn is_number(call: &Call<'_>, tested: Value<'_>, number: Value<'_>, _assume_unique: bool, invert: bool) -> Outcome {
    let comparison = if invert { &callees::NE } else { &callees::EQ };
    call.give(0, call.operator(comparison, &[tested, number])?)
}
