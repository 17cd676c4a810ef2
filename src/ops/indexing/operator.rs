//! Advanced indexing: index.Tensor, index_put_ and _index_put_impl_. A mask is converted to the indices of its true elements,
//! which waits for their number.

pub mod gather_scatter;

use smallvec::SmallVec;

use crate::call::addressing::{Addressing, Index, Operation, warn_of_shared_elements};
use crate::call::prelude::*;
use crate::call::tensors::{Dims, Format, Tensor, copied, dims, iteration_order, strides_in_order};
use gather_scatter::is_index;

operators! {
    c"index": plain(typed!(index)) => c"index.Tensor", c"index.Tensor_out";
    c"index_put": plain(put) => c"index_put_" | c"_index_put_impl_";
}

/// The indices of a call, one for each of the leading dimensions; `None` for a dimension that is not indexed.
type Indices<'a> = SmallVec<[Option<Tensor<'a>>; 4]>;

fn is_mask(index: Tensor<'_>) -> bool {
    [DType::Bool, DType::Byte].contains(&index.dtype())
}

/// An error unless the mask has the sizes of the target's dimensions from `first` on.
fn check_mask(target: Tensor<'_>, mask: Tensor<'_>, first: usize) -> Outcome {
    ensure!(target.sizes().get(first..first + mask.ndim()) == Some(mask.sizes()));
    Ok(())
}

/// The indices on the target's device, with masks converted.
fn used_indices<'a>(call: &Call<'a>, target: Tensor<'_>, given: &[Option<Tensor<'a>>]) -> Result<Indices<'a>, CallError> {
    ensure!(given.iter().flatten().all(|&index| is_mask(index) || is_index(index)));
    let mut indices = Indices::new();
    for &index in given {
        match index {
            Some(mask) if is_mask(mask) => {
                if mask.dtype() == DType::Byte {
                    call.warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")?;
                }
                check_mask(target, mask, indices.len())?;
                let positions = call.operator(&callees::NONZERO, &[Value::Tensor(mask)])?;
                let columns = call.on_device(target.device(), positions)?.with_last(0);
                indices.extend((0..mask.ndim() as i64).map(|column| Some(columns.row(column))));
            }
            Some(index) => indices.push(Some(call.on_device(target.device(), index)?)),
            None => indices.push(None),
        }
    }
    ensure!(indices.len() <= target.ndim());
    Ok(indices)
}

/// The common shape to which all indices are broadcast.
fn common_shape(indices: &Indices<'_>) -> Result<Dims, CallError> {
    let mut shapes = indices.iter().flatten().map(|index| index.sizes());
    let mut common = Dims::from(shapes.next().unwrap_or_default());
    for sizes in shapes {
        if sizes != &common[..] {
            common = broadcast(&common, sizes).map_err(|_| CallError::CpuError)?;
        }
    }
    Ok(common)
}

/// The dimensions of a result: some of the target's, then those of the indices, then the rest of the target's.
struct Arrangement {
    /// The target's dimensions that are not indexed.
    rest: SmallVec<[usize; 4]>,
    /// The number of them before the dimensions of the indices.
    before: usize,
    /// The common shape of the indices.
    shape: Dims,
}

impl Arrangement {
    /// The indices' dimensions take the position of the indexed ones; if these are not adjacent, they come first.
    fn new(target: Tensor<'_>, indices: &Indices<'_>) -> Result<Self, CallError> {
        let is_indexed = |dim: usize| indices.get(dim).is_some_and(Option::is_some);
        let (indexed, rest): (SmallVec<[usize; 4]>, SmallVec<[usize; 4]>) = (0..target.ndim()).partition(|&dim| is_indexed(dim));
        let before = match (indexed.first(), indexed.last()) {
            (Some(first), Some(last)) if last - first + 1 == indexed.len() => *first,
            (Some(_), _) => 0,
            _ => rest.len(),
        };
        Ok(Self { rest, before, shape: common_shape(indices)? })
    }

    /// Values for all dimensions of the result: `outer` for the target's dimensions, `inner` for those of the indices.
    fn around(&self, outer: impl Fn(usize) -> i64, inner: &[i64]) -> Dims {
        let (before, after) = self.rest.split_at(self.before);
        let outer = |dims: &[usize]| dims.iter().map(|&dim| outer(dim)).collect::<Dims>();
        outer(before).into_iter().chain(inner.iter().copied()).chain(outer(after)).collect()
    }

    /// The strides of an index over the result's dimensions, like a view's: a dimension of size 1 gets the extent of the next
    /// inner one; a broadcast dimension gets 0.
    fn strides_of(&self, index: Tensor<'_>, sizes: &[i64]) -> Dims {
        let own = self.around(|_| 1, index.sizes());
        let is_empty = index.numel() == 0 && !self.rest.is_empty();
        let mut strides = if is_empty { Format::Contiguous.strides(&own) } else { self.around(|_| 1, index.strides()) };
        let mut next = index.strides().last().copied().unwrap_or(1);
        for dim in (0..sizes.len()).rev() {
            if own[dim] != 1 {
                next = strides[dim] * own[dim];
            } else if sizes[dim] != 1 {
                strides[dim] = 0;
            } else if !is_empty {
                strides[dim] = next;
            }
        }
        strides
    }

    /// The strides of a result, as from PyTorch's TensorIterator.
    fn strides_of_result(&self, addressing: &Addressing<'_>, indices: &[Tensor<'_>]) -> Dims {
        let sizes = addressing.sizes;
        let numel: i64 = sizes.iter().product();
        if numel == 1 || (numel == 0 && *sizes == self.around(|_| 1, &self.shape)[..]) {
            return Format::Contiguous.strides(sizes);
        }
        let of_indices: SmallVec<[Dims; 2]> = indices.iter().map(|&index| self.strides_of(index, sizes)).collect();
        let operands: SmallVec<[&[i64]; 3]> =
            std::iter::once(addressing.strides).chain(of_indices.iter().map(|strides| &strides[..])).collect();
        let order = iteration_order(sizes, &operands);
        if order.iter().copied().eq((0..sizes.len()).rev()) {
            return Format::Contiguous.strides(sizes);
        }
        strides_in_order(sizes, &order)
    }
}

/// The index space of a call, and the strides of a result.
fn arranged<'a>(target: Tensor<'a>, indices: &Indices<'a>) -> Result<(Addressing<'a>, Dims), CallError> {
    let arrangement = Arrangement::new(target, indices)?;
    let shape = &arrangement.shape;
    let kept = |values: Dims| copied(target.arena(), &values);
    let sizes = kept(arrangement.around(|dim| target.sizes()[dim], shape));
    let strides = kept(arrangement.around(|dim| target.strides()[dim], &Dims::from_elem(0, shape.len())));
    let mut addressing = Addressing { sizes, strides, indices: SmallVec::new() };
    let mut broadcast: SmallVec<[Tensor<'a>; 2]> = SmallVec::new();
    for (dim, index) in indices.iter().enumerate().filter_map(|(dim, index)| index.map(|index| (dim, index))) {
        let index = index.expanded(shape)?;
        let over = index.within(sizes, &arrangement.around(|_| 0, index.strides()));
        addressing.indices.push(Index::along(target, dim, over));
        broadcast.push(index);
    }
    ensure!(shape.contains(&0) || addressing.indices.iter().all(|index| index.slots != 0));
    let strides = arrangement.strides_of_result(&addressing, &broadcast);
    Ok((addressing, strides))
}

// ---- index ----

pub fn index(call: &Call<'_>, input: Tensor<'_>, given: &[Option<Tensor<'_>>]) -> Outcome {
    if let (None, &[Some(mask)]) = (call.given(0), given)
        && mask.dtype() == DType::Bool
        && mask.ndim() > 0
        && (mask.sizes(), mask.device()) == (input.sizes(), input.device())
    {
        let selected = call.operator(&callees::MASKED_SELECT, &[Value::Tensor(input), Value::Tensor(mask)])?;
        return call.give(0, selected);
    }
    let own = [-1, input.device()];
    ensure!(given.len() <= input.ndim() && given.iter().flatten().all(|index| own.contains(&index.device())));
    ensure!(call.has_dtype(0, input.dtype()));
    call.check_given_apart(given.iter().flatten().copied().chain([input]))?;
    let (addressing, strides) = arranged(input, &used_indices(call, input, given)?)?;
    take_if(addressing.fits())?;
    let shape = Shape { sizes: dims(addressing.sizes, |size| size), strides, dtype: input.dtype() };
    addressing.load(call, call.output(0, &shape, Strides::Any)?, input)
}

// ---- index_put_ ----

/// The mask of a call whose only index is a mask, with dimensions added up to the target's.
fn only_mask<'a>(target: Tensor<'_>, given: &[Option<Tensor<'a>>]) -> Result<Option<Tensor<'a>>, CallError> {
    let (mut found, mut dims): (Option<Tensor<'a>>, usize) = (None, 0);
    for index in given {
        match index {
            None => dims += 1,
            Some(mask) if is_mask(*mask) && mask.device() == target.device() && found.is_none() => {
                check_mask(target, *mask, dims)?;
                dims += mask.ndim();
                found = Some(*mask);
            }
            Some(_) => return Ok(None),
        }
    }
    Ok(found.map(|mask| (dims..target.ndim()).fold(mask, |mask, _| mask.unsqueeze(mask.ndim()))))
}

fn put_values<'a>(
    call: &Call<'a>,
    target: Tensor<'a>,
    given: &[Option<Tensor<'a>>],
    values: Tensor<'a>,
    accumulate: bool,
) -> Outcome {
    let values = if values.ndim() == 0 { call.on_device(target.device(), values)? } else { values };
    target.check_no_overlap(values)?;
    given.iter().flatten().try_for_each(|&index| target.check_no_overlap(index))?;
    let (addressing, _) = arranged(target, &used_indices(call, target, given)?)?;
    let source = values.expand(addressing.sizes).ok_or(CallError::CpuError)?;
    ensure!(target.dtype() == values.dtype() && target.device() == values.device());
    let is_sum_of_bytes = accumulate && FLOAT8.contains(target.dtype());
    take_if(addressing.fits() && !addressing.indices.is_empty() && !is_sum_of_bytes)?;
    let operation = if accumulate { Operation::Add } else { Operation::Store };
    addressing.update(call, target, Input::Tensor(source), operation.into())
}

/// `index_put_`, and `_index_put_impl_`, which has another argument at the end: its caller may have checked the indices, but they
/// are checked in any case.
pub fn put(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (target, given, values, accumulate): (Tensor<'_>, &[_], Tensor<'_>, bool) = arguments.first(4).typed()?;
    ensure!(given.len() <= target.ndim());
    warn_of_shared_elements(call, target, "index_put_", "tensor[indices] = tensor")?;
    // A single CPU number with a mask.
    if !accumulate
        && values.numel() == 1
        && values.device() < 0
        && let Some(mask) = only_mask(target, given)?
    {
        let operands = [target, mask, values.view(&[])].map(Value::Tensor);
        return call.operator(&callees::MASKED_FILL, &operands).map(drop);
    }
    put_values(call, target, given, values, accumulate)
}
