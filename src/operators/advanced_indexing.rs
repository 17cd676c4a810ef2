//! Advanced indexing: index.Tensor, index_put_ and _index_put_impl_. A mask is converted to the indices of its true elements,
//! which waits for their number.

use smallvec::SmallVec;

use super::addressing::{Addressing, Index, Operation};
use super::call::{
    Arguments, Call, DeviceName, Input, Outcome, Refusal, Shape, Strides, Value, broadcast, check_index, ensure, wrap_dim,
};
use super::names;
use super::tensors::{Dims, Format, Tensor, copied, dims, iteration_order};
use crate::tensor::dtype::{DType, FLOAT8};

/// The indices of a call, one for each of the leading dimensions; `None` for a dimension that is not indexed.
type Indices<'a> = SmallVec<[Option<Tensor<'a>>; 4]>;

fn is_mask(index: Tensor<'_>) -> bool {
    [DType::Bool, DType::Byte].contains(&index.dtype())
}

fn check_count(target: Tensor<'_>, given: &[Option<Tensor<'_>>]) -> Outcome {
    let (ndim, count) = (target.ndim(), given.len());
    if count <= ndim {
        return Ok(());
    }
    Err(Refusal::Index(format!("too many indices for tensor of dimension {ndim} (got {count})")))
}

/// An error unless the mask has the sizes of the target's dimensions from `first` on.
fn check_mask(target: Tensor<'_>, mask: Tensor<'_>, first: usize) -> Outcome {
    let (own, others) = (target.sizes(), mask.sizes());
    for (place, &size) in others.iter().enumerate() {
        let dim = wrap_dim((first + place) as i64, own.len())?;
        if own.get(dim) != Some(&size) {
            let text = "does not match the shape of the indexed tensor";
            return Err(Refusal::Index(format!("The shape of the mask {others:?} at index {place} {text} {own:?} at index {dim}")));
        }
    }
    Ok(())
}

/// Appends the indices of the mask's true elements.
fn expand_mask<'a>(call: &Call<'a>, target: Tensor<'_>, mask: Tensor<'a>, indices: &mut Indices<'a>) -> Outcome {
    if mask.dtype() == DType::Byte {
        call.warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")?;
    }
    check_mask(target, mask, indices.len())?;
    let positions = call.operator(&names::NONZERO, &[Value::Tensor(mask)])?;
    let columns = call.on_device(target.device(), positions)?.with_last(0);
    indices.extend((0..mask.ndim() as i64).map(|column| Some(columns.row(column))));
    Ok(())
}

/// The indices on the target's device, with masks converted.
fn used_indices<'a>(call: &Call<'a>, target: Tensor<'_>, given: &[Option<Tensor<'a>>]) -> Result<Indices<'a>, Refusal> {
    let is_index = |index: &Tensor<'_>| is_mask(*index) || [DType::Long, DType::Int].contains(&index.dtype());
    check_index(given.iter().flatten().all(is_index), "tensors used as indices must be long, int, byte or bool tensors")?;
    let mut indices = Indices::new();
    for &index in given {
        match index {
            Some(mask) if is_mask(mask) => expand_mask(call, target, mask, &mut indices)?,
            Some(index) => indices.push(Some(call.on_device(target.device(), index)?)),
            None => indices.push(None),
        }
    }
    if let Some(last) = indices.len().checked_sub(target.ndim() + 1) {
        wrap_dim((target.ndim() + last) as i64, target.ndim())?;
    }
    Ok(indices)
}

/// The common shape to which all indices are broadcast.
fn common_shape(indices: &Indices<'_>) -> Result<Dims, Refusal> {
    let mut shapes = indices.iter().flatten().map(|index| index.sizes());
    let mut common = Dims::from(shapes.next().unwrap_or_default());
    for sizes in shapes {
        if sizes != &common[..] {
            common = broadcast(&common, sizes).map_err(|_| shapes_differ(indices))?;
        }
    }
    Ok(common)
}

#[cold]
fn shapes_differ(indices: &Indices<'_>) -> Refusal {
    let shapes: Vec<String> = indices.iter().flatten().map(|index| format!("{:?}", index.sizes())).collect();
    let text = "shape mismatch: indexing tensors could not be broadcast together with shapes";
    Refusal::Index(format!("{text} {}", shapes.join(", ")))
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
    fn new(target: Tensor<'_>, indices: &Indices<'_>) -> Result<Self, Refusal> {
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

    /// The strides of a result, as from PyTorch's TensorIterator; `None` if it is contiguous.
    fn strides_of_result(&self, addressing: &Addressing<'_>, indices: &[Tensor<'_>]) -> Option<Dims> {
        let sizes = addressing.sizes;
        let numel: i64 = sizes.iter().product();
        if numel == 1 || (numel == 0 && *sizes == self.around(|_| 1, &self.shape)[..]) {
            return None;
        }
        let of_indices: SmallVec<[Dims; 2]> = indices.iter().map(|&index| self.strides_of(index, sizes)).collect();
        let operands: SmallVec<[&[i64]; 3]> =
            std::iter::once(addressing.strides).chain(of_indices.iter().map(|strides| &strides[..])).collect();
        let order = iteration_order(sizes, &operands);
        if order.iter().copied().eq((0..sizes.len()).rev()) {
            return None;
        }
        let (mut strides, mut stride) = (Dims::from(sizes), 1);
        for dim in order {
            strides[dim] = stride;
            stride *= sizes[dim];
        }
        Some(strides)
    }
}

struct Indexing<'a> {
    addressing: Addressing<'a>,
    /// The strides of a result that is not contiguous.
    strides: Option<Dims>,
}

impl<'a> Indexing<'a> {
    fn new(target: Tensor<'a>, indices: &Indices<'a>) -> Result<Self, Refusal> {
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
        let is_within = shape.contains(&0) || addressing.indices.iter().all(|index| index.slots != 0);
        check_index(is_within, "index is out of bounds for dimension with size 0")?;
        let strides = arrangement.strides_of_result(&addressing, &broadcast);
        Ok(Self { addressing, strides })
    }

    fn is_empty(&self) -> bool {
        self.addressing.sizes.contains(&0)
    }

    fn output<'c>(&self, call: &Call<'c>, dtype: DType) -> Result<Tensor<'c>, Refusal> {
        let sizes = self.addressing.sizes;
        match &self.strides {
            None => call.contiguous(0, sizes, dtype, Strides::Any),
            Some(strides) => {
                call.output(0, &Shape { sizes: dims(sizes, |size| size), strides: strides.clone(), dtype }, Strides::Any)
            }
        }
    }
}

// ---- index ----

/// The mask of a call whose only index is a mask of the tensor's own shape.
fn whole_mask<'a>(input: Tensor<'_>, given: &[Option<Tensor<'a>>]) -> Option<Tensor<'a>> {
    let &[Some(mask)] = given else { return None };
    let is_whole = mask.ndim() > 0 && mask.sizes() == input.sizes() && mask.device() == input.device();
    (mask.dtype() == DType::Bool && is_whole).then_some(mask)
}

/// An error unless each index is on the CPU or on the input's device.
fn check_devices(input: Tensor<'_>, given: &[Option<Tensor<'_>>]) -> Outcome {
    let own = input.device();
    let are_here = given.iter().flatten().all(|index| index.device() < 0 || index.device() == own);
    let text = "indices should be either on cpu or on the same device as the indexed tensor";
    ensure!(are_here, "{text} ({})", DeviceName(own));
    Ok(())
}

fn check_given(call: &Call<'_>, input: Tensor<'_>, given: &[Option<Tensor<'_>>]) -> Outcome {
    let Some(out) = call.given(0) else { return Ok(()) };
    let [own, others] = [input.dtype(), out.dtype()];
    ensure!(own == others, "index_out: self ({own:?}) and result ({others:?}) must have the same scalar type");
    out.check_no_internal_overlap()?;
    out.check_no_overlap(input)?;
    given.iter().flatten().try_for_each(|&index| out.check_no_overlap(index))?;
    let [first, other] = [out, input].map(|tensor| DeviceName(tensor.device()));
    let text = "Expected all tensors to be on the same device, but found at least two devices";
    ensure!(first == other, "{text}, {first} and {other}!");
    Ok(())
}

/// `index`.
pub fn index(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, indices] = arguments.all()?;
    let (input, given) = (input.tensor()?, indices.optional_tensors()?);
    if let (None, Some(mask)) = (call.given(0), whole_mask(input, given)) {
        let selected = call.operator(&names::MASKED_SELECT, &[Value::Tensor(input), Value::Tensor(mask)])?;
        return call.give(0, selected);
    }
    check_count(input, given)?;
    check_devices(input, given)?;
    check_given(call, input, given)?;
    let indexing = Indexing::new(input, &used_indices(call, input, given)?)?;
    if !indexing.addressing.fits() {
        return Err(Refusal::Fallback);
    }
    let out = indexing.output(call, input.dtype())?;
    if indexing.is_empty() { Ok(()) } else { indexing.addressing.load(call, out, input) }
}

// ---- index_put_ ----

/// The mask of a call whose only index is a mask, with dimensions added up to the target's.
fn only_mask<'a>(target: Tensor<'_>, given: &[Option<Tensor<'a>>]) -> Result<Option<Tensor<'a>>, Refusal> {
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

fn check_values(target: Tensor<'_>, values: Tensor<'_>) -> Outcome {
    let [own, others] = [target.dtype(), values.dtype()];
    let text = "Index put requires the source and destination dtypes match, got";
    ensure!(own == others, "{text} {own:?} for the destination and {others:?} for the source.");
    let [own, others] = [target, values].map(Tensor::device);
    ensure!(own == others, "expected device {} but got device {} for value tensor", DeviceName(own), DeviceName(others));
    Ok(())
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
    let indexing = Indexing::new(target, &used_indices(call, target, given)?)?;
    let (addressing, own) = (&indexing.addressing, values.sizes());
    let sizes = addressing.sizes;
    let text = "shape mismatch: value tensor of shape";
    let mismatch = || Refusal::Invalid(format!("{text} {own:?} cannot be broadcast to indexing result of shape {sizes:?}"));
    let source = values.expand(sizes).ok_or_else(mismatch)?;
    check_values(target, source)?;
    let is_sum_of_bytes = accumulate && FLOAT8.contains(target.dtype());
    if !addressing.fits() || addressing.indices.is_empty() || is_sum_of_bytes {
        return Err(Refusal::Fallback);
    }
    if indexing.is_empty() {
        return Ok(());
    }
    let operation = if accumulate { Operation::Add } else { Operation::Store };
    addressing.update(call, target, Input::Tensor(source), operation.into())
}

fn put_into(call: &Call<'_>, [target, indices, values, accumulate]: [&Value<'_>; 4]) -> Outcome {
    let (target, given, values) = (target.tensor()?, indices.optional_tensors()?, values.tensor()?);
    let accumulate = accumulate.flag()?;
    check_count(target, given)?;
    if target.check_no_internal_overlap().is_err() {
        call.warn(
            "Use of index_put_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also \
              applies to advanced indexing e.g. tensor[indices] = tensor",
        )?;
    }
    // A single CPU number with a mask.
    if !accumulate
        && values.numel() == 1
        && values.device() < 0
        && let Some(mask) = only_mask(target, given)?
    {
        let operands = [target, mask, values.view(&[])].map(Value::Tensor);
        return call.operator(&names::MASKED_FILL, &operands).map(drop);
    }
    put_values(call, target, given, values, accumulate)
}

/// `index_put_`.
pub fn put(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    put_into(call, arguments.all()?.each_ref())
}

/// `_index_put_impl_`. Its caller may have checked the indices; they are checked in any case.
pub fn put_unchecked(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [target, indices, values, accumulate, _unsafe] = arguments.all()?;
    put_into(call, [target, indices, values, accumulate])
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn strided(dtype: DType, sizes: &[i64], strides: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, dtype, 0, sizes, strides)
    }

    fn index(sizes: &[i64]) -> Tensor<'static> {
        strided(DType::Long, sizes, &Format::Contiguous.strides(sizes))
    }

    /// The sizes of a result, and its strides if it is not contiguous.
    fn result(target: Tensor<'static>, indices: &Indices<'static>) -> (Vec<i64>, Option<Vec<i64>>) {
        let Ok(indexing) = Indexing::new(target, indices) else { panic!("a call that is refused") };
        (indexing.addressing.sizes.to_vec(), indexing.strides.map(|strides| strides.to_vec()))
    }

    #[test]
    fn the_dimensions_of_indices_are_where_the_indexed_ones_are() {
        let cube = strided(DType::Float, &[2, 3, 4], &[12, 4, 1]);
        let sizes = |indices: Indices<'static>| result(cube, &indices);
        assert_eq!(sizes(smallvec![Some(index(&[5]))]), (vec![5, 3, 4], None));
        assert_eq!(sizes(smallvec![None, Some(index(&[5, 6]))]), (vec![2, 5, 6, 4], None));
        assert_eq!(sizes(smallvec![None, Some(index(&[5, 1])), Some(index(&[6]))]), (vec![2, 5, 6], None));
        assert_eq!(sizes(smallvec![Some(index(&[5])), None, Some(index(&[]))]), (vec![5, 3], None));
        assert_eq!(sizes(smallvec![None, None]), (vec![2, 3, 4], None));
    }

    /// The expected strides are those of PyTorch 2.15 on the CPU.
    #[test]
    fn results_lie_in_memory_as_those_of_pytorch_do() {
        let turned = strided(DType::Float, &[3, 4, 2], &[1, 3, 12]);
        assert_eq!(result(turned, &smallvec![Some(index(&[5]))]), (vec![5, 4, 2], Some(vec![8, 1, 4])));
        assert_eq!(result(turned, &smallvec![None, None, Some(index(&[5]))]), (vec![3, 4, 5], Some(vec![5, 15, 1])));
        let columns = Some(strided(DType::Long, &[3, 2], &[1, 3]));
        let matrix = strided(DType::Float, &[4, 5], &[5, 1]);
        assert_eq!(result(matrix, &smallvec![columns]), (vec![3, 2, 5], Some(vec![5, 15, 1])));
        let line = Some(strided(DType::Long, &[1, 2], &[1, 1]));
        let flat = strided(DType::Float, &[4, 0, 1], &[1, 1, 1]);
        assert_eq!(result(flat, &smallvec![line]), (vec![1, 2, 0, 1], Some(vec![0, 0, 1, 0])));
    }

    #[test]
    fn refused_indices_are_named() {
        let cube = strided(DType::Float, &[2, 3, 4], &[12, 4, 1]);
        let text = "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]";
        let refusal = Indexing::new(cube, &smallvec![Some(index(&[2])), Some(index(&[3]))]).map(drop);
        assert_eq!(refusal, Err(Refusal::Index(text.into())));
        let mask = strided(DType::Bool, &[2, 4], &[4, 1]);
        let text = "The shape of the mask [2, 4] at index 1 does not match the shape of the indexed tensor [2, 3, 4] at index 1";
        assert_eq!(check_mask(cube, mask, 0), Err(Refusal::Index(text.into())));
        assert!(check_mask(cube, strided(DType::Bool, &[3, 4], &[4, 1]), 1).is_ok());
        let nothing = strided(DType::Float, &[0, 3], &[3, 1]);
        assert!(matches!(Indexing::new(nothing, &smallvec![Some(index(&[1]))]), Err(Refusal::Index(_))));
        assert!(Indexing::new(nothing, &smallvec![Some(index(&[0]))]).is_ok());
    }

    #[test]
    fn one_mask_has_the_dimensions_of_the_target() {
        let cube = strided(DType::Float, &[2, 3, 4], &[12, 4, 1]);
        let mask = strided(DType::Bool, &[3], &[1]);
        let found = |given: &[Option<Tensor<'static>>]| only_mask(cube, given).map(|mask| mask.map(|mask| mask.sizes().to_vec()));
        assert_eq!(found(&[None, Some(mask)]), Ok(Some(vec![3, 1])));
        assert_eq!((found(&[None, Some(mask), Some(index(&[1]))]), found(&[None])), (Ok(None), Ok(None)));
        assert!(found(&[Some(mask)]).is_err());
    }
}
