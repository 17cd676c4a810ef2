//! [`Tensor`]: a tensor of an operator call.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use super::{CallError, Outcome, ensure};
use crate::runtime::name::name;
use crate::tensor::bump_arena::BumpArena;
use crate::tensor::{DType, Flags};

/// Sizes or strides; up to four need no allocation.
pub type Dims = SmallVec<[i64; INLINE]>;
const INLINE: usize = 4;

/// Sizes or strides of these values. For a few bytes, a loop of known length is cheaper than a call of `memcpy`.
#[inline]
pub fn dims(values: &[i64], value_of: impl Fn(i64) -> i64) -> Dims {
    if values.len() > INLINE {
        return values.iter().map(|&value| value_of(value)).collect();
    }
    let mut few = [0; INLINE];
    for (target, &value) in few.iter_mut().zip(values) {
        *target = value_of(value);
    }
    Dims::from_buf_and_len(few, values.len())
}

/// True if the sizes are equal. For a few bytes, a loop is cheaper than a call of `memcmp`.
#[inline]
fn are_same(one: &[i64], other: &[i64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other)
}

/// Memory format of a new tensor or of an operand that a kernel needs. The numbers are those of `c10::MemoryFormat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Contiguous = 0,
    /// Images (N, C, H, W) stored as (N, H, W, C).
    ChannelsLast = 2,
    /// Volumes (N, C, D, H, W) stored as (N, D, H, W, C).
    ChannelsLast3d = 3,
}

/// The values, copied to an arena. For a few bytes, a loop is cheaper than a call of `memcpy`.
#[inline]
pub fn copied<'a>(arena: &'a BumpArena, values: &[i64]) -> &'a [i64] {
    arena.keep_all(values.len(), |dim| values[dim])
}

/// The strides, in elements, of a contiguous tensor, allocated in an arena.
#[inline]
pub fn contiguous_strides<'a>(arena: &'a BumpArena, sizes: &[i64]) -> &'a [i64] {
    let stride_of = |dim: usize| sizes[dim + 1..].iter().fold(1_i64, |stride, &size| stride.saturating_mul(size.max(1)));
    arena.keep_all(sizes.len(), stride_of)
}

impl Format {
    /// The strides, in elements, of a dense tensor in this format.
    pub fn strides(self, sizes: &[i64]) -> Dims {
        let mut strides = dims(sizes, |_| 1);
        let mut stride = 1_i64;
        let mut place = |dim: usize| {
            strides[dim] = stride;
            stride = stride.saturating_mul(sizes[dim].max(1));
        };
        let has_channels = self != Self::Contiguous && sizes.len() > 2;
        if has_channels {
            // Channels vary fastest.
            place(1);
        }
        (0..sizes.len()).rev().filter(|&dim| !(has_channels && dim == 1)).for_each(place);
        strides
    }
}

/// Orders two dimensions by strides, then by sizes: `Less` if `one` is the inner one, `Equal` if undecided.
fn nesting(sizes: &[i64], strides: &[i64], one: usize, other: usize) -> Ordering {
    let (first, second) = (strides[one], strides[other]);
    match first.cmp(&second) {
        _ if first == 0 || second == 0 => Ordering::Equal,
        Ordering::Equal if sizes[one] > sizes[other] => Ordering::Greater,
        ordering => ordering,
    }
}

/// The dimensions from the innermost one outwards, ordered as by PyTorch's TensorIterator for operands with these strides. The
/// first operand that distinguishes two dimensions decides; if none does, they keep their order.
pub fn iteration_order(sizes: &[i64], operands: &[&[i64]]) -> SmallVec<[usize; 6]> {
    let compare = |one, other| {
        let decided = |strides: &&[i64]| Some(nesting(sizes, strides, one, other)).filter(|ordering| ordering.is_ne());
        operands.iter().find_map(decided).unwrap_or(Ordering::Equal)
    };
    let mut order: SmallVec<[usize; 6]> = (0..sizes.len()).rev().collect();
    for next in 1..order.len() {
        let mut position = next;
        for before in (0..next).rev() {
            match compare(order[before], order[position]) {
                Ordering::Greater => {
                    order.swap(before, position);
                    position = before;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    order
}

/// A tensor of a call: address of the first element, sizes, and strides in elements. Every tensor derived from it stays within
/// its elements.
#[derive(Clone, Copy)]
pub struct Tensor<'a>(&'a Parts<'a>);

/// The fields of a tensor, allocated in the arena of its call.
#[derive(Clone, Copy)]
struct Parts<'a> {
    arena: &'a BumpArena,
    /// The `c10::TensorImpl` that this tensor is, or is a view of.
    handle: usize,
    address: usize,
    dtype: DType,
    flags: Flags,
    device: i32,
    sizes: &'a [i64],
    strides: &'a [i64],
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Parts { dtype, device, sizes, strides, .. } = self.0;
        write!(formatter, "{dtype:?} {sizes:?} with strides {strides:?} on device {device}")
    }
}

impl<'a> Tensor<'a> {
    /// `device`: the index of a rustdev device, or -1.
    #[inline]
    pub fn new(
        arena: &'a BumpArena,
        (handle, address): (usize, usize),
        dtype: DType,
        device: i32,
        flags: Flags,
        sizes: &'a [i64],
        strides: &'a [i64],
    ) -> Self {
        Self(arena.keep(Parts { arena, handle, address, dtype, flags, device, sizes, strides }))
    }

    #[inline]
    pub fn handle(self) -> usize {
        self.0.handle
    }

    /// The address of the first element.
    #[inline]
    pub fn address(self) -> usize {
        self.0.address
    }

    #[inline]
    pub fn dtype(self) -> DType {
        self.0.dtype
    }

    #[inline]
    pub fn device(self) -> i32 {
        self.0.device
    }

    #[inline]
    pub fn flags(self) -> Flags {
        self.0.flags
    }

    /// True if the tensor is on the CPU.
    #[inline]
    pub fn is_host(self) -> bool {
        self.0.flags.has(Flags::HOST)
    }

    /// True for PyTorch's wrapped numbers: a Python number as a tensor, whose dtype ranks below that of tensors in type
    /// promotion.
    #[inline]
    pub fn is_wrapped_number(self) -> bool {
        self.0.flags.has(Flags::WRAPPED_NUMBER)
    }

    #[inline]
    pub fn sizes(self) -> &'a [i64] {
        self.0.sizes
    }

    #[inline]
    pub fn has_sizes(self, sizes: &[i64]) -> bool {
        are_same(self.0.sizes, sizes)
    }

    /// The arena with the descriptors of the call.
    #[inline]
    pub fn arena(self) -> &'a BumpArena {
        self.0.arena
    }

    /// Strides in elements.
    #[inline]
    pub fn strides(self) -> &'a [i64] {
        self.0.strides
    }

    #[inline]
    pub fn ndim(self) -> usize {
        self.0.sizes.len()
    }

    #[inline]
    pub fn numel(self) -> i64 {
        self.0.sizes.iter().product()
    }

    /// The size of a dimension, counted from the last one, which is 0.
    #[inline]
    pub fn size_from_end(self, dim: usize) -> i64 {
        self.sizes()[self.ndim() - 1 - dim]
    }

    /// True if the elements are contiguous in this format.
    pub fn is_dense(self, format: Format) -> bool {
        let needs = match format {
            Format::Contiguous => self.ndim(),
            Format::ChannelsLast => 4,
            Format::ChannelsLast3d => 5,
        };
        if self.ndim() != needs {
            return false;
        }
        let (sizes, strides) = (self.sizes(), self.strides());
        let mut expected = 1;
        let mut is_next = |dim: usize| {
            let fits = sizes[dim] == 1 || strides[dim] == expected;
            expected *= sizes[dim];
            fits
        };
        let has_channels = format != Format::Contiguous;
        let are_next =
            (!has_channels || is_next(1)) && (0..sizes.len()).rev().all(|dim| (has_channels && dim == 1) || is_next(dim));
        are_next || self.numel() == 0
    }

    /// True if the strides are those of a new contiguous tensor, including dimensions of size 1.
    pub fn has_contiguous_strides(self) -> bool {
        let (sizes, strides) = (self.sizes(), self.strides());
        let mut expected = 1_i64;
        (0..sizes.len()).rev().all(|dim| {
            let fits = strides[dim] == expected;
            expected = expected.saturating_mul(sizes[dim].max(1));
            fits
        })
    }

    /// True if the elements fill the memory from first to last, each once, in any order of the dimensions.
    pub fn fills_memory(self) -> bool {
        self.is_dense(Format::Contiguous) || self.dense_bytes().is_some()
    }

    /// The format that the strides suggest, like `at::Tensor::suggest_memory_format`.
    pub fn suggested_format(self) -> Format {
        let format = match self.ndim() {
            4 => Format::ChannelsLast,
            5 => Format::ChannelsLast3d,
            _ => return Format::Contiguous,
        };
        if self.is_channels_last() { format } else { Format::Contiguous }
    }

    /// True if strides grow from the channels over the last dimension to the samples. If sizes of 1 make a contiguous tensor
    /// ambiguous, the result is false.
    fn is_channels_last(self) -> bool {
        let (sizes, strides) = (self.sizes(), self.strides());
        if strides[1] == 0 {
            return false;
        }
        let mut least = 0;
        let order = std::iter::once(1).chain((2..self.ndim()).rev()).chain(std::iter::once(0));
        for dim in order {
            if sizes[dim] == 0 || strides[dim] < least || (dim == 0 && least == strides[1]) {
                return false;
            }
            least = strides[dim] * sizes[dim].max(1);
        }
        true
    }

    /// The strides of `empty_like` for this tensor: dense, in its order of dimensions.
    pub fn like_strides(self) -> Dims {
        if self.fills_memory() {
            return Dims::from(self.strides());
        }
        dense_strides(&[self])
    }

    #[inline]
    fn with(self, sizes: &'a [i64], strides: &'a [i64]) -> Self {
        Self(self.0.arena.keep(Parts { sizes, strides, ..*self.0 }))
    }

    /// The distinct elements: expanded dimensions (stride 0) get size 1.
    #[inline]
    pub fn distinct(self) -> Self {
        if !self.is_expanded() {
            return self;
        }
        let sizes = self
            .0
            .arena
            .keep_all(self.ndim(), |dim| if self.strides()[dim] == 0 { 1.min(self.sizes()[dim]) } else { self.sizes()[dim] });
        self.with(sizes, self.strides())
    }

    #[inline]
    fn is_expanded(self) -> bool {
        self.sizes().iter().zip(self.strides()).any(|(&size, &stride)| size > 1 && stride == 0)
    }

    #[inline]
    fn keep(self, values: &[i64]) -> &'a [i64] {
        copied(self.0.arena, values)
    }

    /// A contiguous view with other sizes and the same number of elements. Panics if the tensor is not contiguous, or the number of
    /// elements differs.
    pub fn view(self, sizes: &[i64]) -> Self {
        assert!(self.is_dense(Format::Contiguous), "a view of a tensor that is not contiguous: {self:?}");
        assert_eq!(self.numel(), sizes.iter().product::<i64>(), "a view of sizes {sizes:?} of {self:?}");
        self.with(self.keep(sizes), contiguous_strides(self.0.arena, sizes))
    }

    /// A tensor that is dense in `format`, as a contiguous view in memory order: channels become the last dimension of
    /// channels-last tensors. Panics if the tensor is not dense in this format.
    pub fn in_memory_order(self, format: Format) -> Self {
        assert!(self.is_dense(format), "not dense: {self:?}");
        let mut sizes = Dims::from(self.sizes());
        if format != Format::Contiguous {
            sizes[1..].rotate_left(1);
        }
        self.with(self.keep(&sizes), contiguous_strides(self.0.arena, &sizes))
    }

    /// The slice at an index of the first dimension. Panics if the index is out of range.
    pub fn row(self, index: i64) -> Self {
        let row = self.section(0, index, 1);
        row.with(&row.sizes()[1..], &row.strides()[1..])
    }

    /// The tensor with dimension `dim` moved to the end; a 0-dim tensor becomes 1-D. Panics if there is no such dimension.
    pub fn with_last(self, dim: usize) -> Self {
        if self.sizes().is_empty() {
            return self.with(&[1], &[1]);
        }
        if dim + 1 == self.ndim() {
            return self;
        }
        let moved = |values: &'a [i64]| {
            let mut moved = Dims::from(values);
            moved[dim..].rotate_left(1);
            self.keep(&moved)
        };
        self.with(moved(self.sizes()), moved(self.strides()))
    }

    /// A view with other sizes and strides of the same elements. Panics if a stride is negative or an element lies outside this
    /// tensor.
    pub fn within(self, sizes: &[i64], strides: &[i64]) -> Self {
        let reach =
            |sizes: &[i64], strides: &[i64]| sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<i64>();
        let is_empty = sizes.contains(&0);
        let fits = strides.iter().all(|&stride| stride >= 0) && reach(sizes, strides) <= reach(self.sizes(), self.strides());
        assert!(is_empty || (fits && self.numel() > 0), "sizes {sizes:?} with strides {strides:?} within {self:?}");
        self.with(self.keep(sizes), self.keep(strides))
    }

    /// The elements on the diagonal of a matrix. Panics if the tensor is not 2-D.
    pub fn diagonal(self) -> Self {
        let (&[rows, cols], &[down, right]) = (self.sizes(), self.strides()) else { panic!("no matrix: {self:?}") };
        self.within(&[rows.min(cols)], &[down + right])
    }

    /// A view over other sizes: each dimension is either dimension `own(dim)` of this tensor, in ascending order, or broadcast.
    /// Panics if a size differs, or the dimensions are out of order.
    pub fn over(self, sizes: &'a [i64], own: impl Fn(usize) -> Option<usize>) -> Self {
        let mut least = 0;
        let strides = self.0.arena.keep_all(sizes.len(), |dim| {
            let Some(own) = own(dim) else { return 0 };
            assert!(own >= least && self.sizes()[own] == sizes[dim], "sizes {sizes:?} over {self:?}");
            least = own + 1;
            self.strides()[own]
        });
        assert!(self.numel() > 0 || sizes.contains(&0), "sizes {sizes:?} over {self:?}");
        self.with(sizes, strides)
    }

    /// The tensor broadcast to these sizes, or `None` if that is impossible.
    pub fn expand(self, sizes: &[i64]) -> Option<Self> {
        let leading = sizes.len().checked_sub(self.ndim())?;
        let mut strides: Dims = smallvec![0; sizes.len()];
        for (dim, &size) in self.sizes().iter().enumerate() {
            if size == sizes[leading + dim] {
                strides[leading + dim] = self.strides()[dim];
            } else if size != 1 {
                return None;
            }
        }
        Some(self.with(self.keep(sizes), self.keep(&strides)))
    }

    /// The tensor broadcast to these sizes, or PyTorch's error of `expand`.
    pub fn expanded(self, sizes: &[i64]) -> Result<Self, CallError> {
        let (given, ndim) = (sizes.len(), self.ndim());
        ensure!(
            given >= ndim,
            "expand({}{:?}Type{{{:?}}}, size={sizes:?}): the number of sizes provided ({given}) must be greater or equal to the number of \
             dimensions in the tensor ({ndim})",
            name(),
            self.dtype(),
            self.sizes()
        );
        let wrong = || {
            let leading = given - ndim;
            let differs = |&dim: &usize| self.sizes()[dim] != 1 && self.sizes()[dim] != sizes[leading + dim];
            let dim = (0..self.ndim()).rev().find(differs).unwrap_or(0);
            let (wanted, own, place) = (sizes[leading + dim], self.sizes()[dim], leading + dim);
            CallError::Invalid(format!(
                "The expanded size of the tensor ({wanted}) must match the existing size ({own}) at non-singleton dimension {place}.  \
                 Target sizes: {sizes:?}.  Tensor sizes: {:?}",
                self.sizes()
            ))
        };
        self.expand(sizes).ok_or_else(wrong)
    }

    /// `count` elements of a dimension, from index `begin`. Panics if the range is out of bounds.
    pub fn section(self, dim: usize, begin: i64, count: i64) -> Self {
        let is_within = begin >= 0 && count >= 0 && begin + count <= self.sizes()[dim];
        assert!(is_within, "{count} elements from {begin} of dimension {dim} of {self:?}");
        let address = self.address() + begin as usize * self.strides()[dim] as usize * self.dtype().size();
        let sizes = self.0.arena.keep_all(self.ndim(), |other| if other == dim { count } else { self.sizes()[other] });
        Self(self.0.arena.keep(Parts { address, sizes, ..*self.0 }))
    }

    /// The tensor with an additional dimension of size 1 before `dim`.
    pub fn unsqueeze(self, dim: usize) -> Self {
        let inserted = |values: &'a [i64]| {
            let value_of = |place: usize| if place == dim { 1 } else { values[place - usize::from(place > dim)] };
            self.0.arena.keep_all(values.len() + 1, value_of)
        };
        self.with(inserted(self.sizes()), inserted(self.strides()))
    }
}

/// The strides, in elements, that PyTorch's TensorIterator gives to the output of operands of the same sizes. Panics if there are
/// no operands.
pub fn joint_strides(operands: &[Tensor<'_>]) -> Dims {
    let first = operands[0];
    let are_dense = |&format: &Format| operands.iter().all(|operand| operand.is_dense(format));
    if let Some(format) = [Format::Contiguous, Format::ChannelsLast].into_iter().find(are_dense) {
        return format.strides(first.sizes());
    }
    let are_alike = operands.iter().all(|operand| operand.strides() == first.strides());
    if are_alike { first.like_strides() } else { dense_strides(operands) }
}

/// The strides of a dense tensor with the order of dimensions of others of the same sizes. The first tensor that distinguishes
/// two dimensions decides which one is inner.
pub fn dense_strides(tensors: &[Tensor<'_>]) -> Dims {
    let sizes = tensors[0].sizes();
    let operands: SmallVec<[&[i64]; 4]> = tensors.iter().map(|tensor| tensor.strides()).collect();
    strides_in_order(&dims(sizes, |size| size.max(1)), &iteration_order(sizes, &operands))
}

/// The strides of a dense tensor whose dimensions, from the innermost one outwards, are in this order. As in a TensorIterator,
/// those around a dimension of size 0 are 0.
pub fn strides_in_order(sizes: &[i64], order: &[usize]) -> Dims {
    let (mut strides, mut stride): (Dims, i64) = (smallvec![0; sizes.len()], 1);
    for &dim in order {
        strides[dim] = stride;
        stride *= sizes[dim];
    }
    strides
}

const SHARED: &str = "Please clone() the tensor before performing the operation.";

/// Checks for overlapping memory, like PyTorch's: undecided cases pass.
impl Tensor<'_> {
    /// An error if an element of this written tensor shares memory with another of its elements.
    pub fn check_no_internal_overlap(self) -> Outcome {
        let text = "unsupported operation: more than one element of the written-to tensor refers to a single memory location.";
        ensure!(!self.is_expanded() || self.numel() == 0, "{text} {SHARED}");
        Ok(())
    }

    /// An error if this written tensor shares memory with an input.
    pub fn check_no_overlap(self, input: Tensor<'_>) -> Outcome {
        let text =
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location.";
        ensure!(!self.overlaps(input), "{text} {SHARED}");
        Ok(())
    }

    /// True if both are the same PyTorch tensor with the same address, sizes and strides.
    pub fn is_identical(self, other: Tensor<'_>) -> bool {
        let parts = |tensor: Tensor<'_>| (tensor.handle(), tensor.address());
        self.handle() != 0 && parts(self) == parts(other) && self.sizes() == other.sizes() && self.strides() == other.strides()
    }

    /// An error if this written tensor shares memory with an input, unless both have the same elements.
    pub fn check_no_partial_overlap(self, input: Tensor<'_>) -> Outcome {
        let place = |tensor: Tensor<'_>| (tensor.address(), tensor.dtype().size());
        let is_same = place(self) == place(input) && self.sizes() == input.sizes() && self.strides() == input.strides();
        if is_same { Ok(()) } else { self.check_no_overlap(input) }
    }

    /// True if the address ranges of both tensors, gaps included, intersect.
    pub fn may_share_memory(self, other: Tensor<'_>) -> bool {
        let (own, others) = (self.reach(), other.reach());
        own.start < others.end && others.start < own.end
    }

    /// The address range from the first to the last element.
    fn reach(self) -> Range<usize> {
        let last: i64 = self.sizes().iter().zip(self.strides()).map(|(size, stride)| (size - 1) * stride).sum();
        let elements = if self.numel() == 0 { 0 } else { last as usize + 1 };
        self.address()..self.address() + elements * self.dtype().size()
    }

    fn overlaps(self, other: Tensor<'_>) -> bool {
        if self.is_identical(other) {
            return true;
        }
        let (Some(own), Some(others)) = (self.dense_bytes(), other.dense_bytes()) else { return false };
        own.start < others.end && others.start < own.end
    }

    /// The address range of a tensor whose elements fill it, each once; else `None`.
    fn dense_bytes(self) -> Option<Range<usize>> {
        let mut dims: SmallVec<[(i64, i64); 6]> =
            self.strides().iter().copied().zip(self.sizes().iter().copied()).filter(|&(_, size)| size != 1).collect();
        dims.sort_unstable();
        let mut expected = 1;
        for (stride, size) in dims {
            if stride != expected {
                return None;
            }
            expected *= size;
        }
        let bytes = self.numel() as usize * self.dtype().size();
        (bytes > 0).then(|| self.address()..self.address() + bytes)
    }
}

#[cfg(test)]
impl Tensor<'static> {
    /// For tests: the tensor at another address.
    pub fn at(self, address: usize) -> Self {
        Self(Box::leak(Box::new(Parts { address, ..*self.0 })))
    }

    /// For tests: the tensor with other flags.
    pub fn with_flags(self, flags: Flags) -> Self {
        Self(Box::leak(Box::new(Parts { flags, ..*self.0 })))
    }

    /// For tests: a tensor in an arena that is leaked.
    pub fn leaked(handle: usize, dtype: DType, device: i32, sizes: &[i64], strides: &[i64]) -> Self {
        let arena = Box::leak(Box::<BumpArena>::default());
        Self::new(arena, (handle, 64), dtype, device, Flags(0), copied(arena, sizes), copied(arena, strides))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(sizes: &[i64], strides: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, DType::Float, 0, sizes, strides)
    }

    fn panics(body: impl FnOnce() -> Tensor<'static>) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err()
    }

    #[test]
    fn views_stay_within_the_tensor() {
        let last = tensor(&[2, 3, 4, 5], &[60, 1, 15, 3]);
        assert!(!last.is_dense(Format::Contiguous) && last.is_dense(Format::ChannelsLast));
        let ordered = last.in_memory_order(Format::ChannelsLast);
        assert_eq!((ordered.sizes(), ordered.strides()), (&[2, 4, 5, 3][..], &[60, 15, 3, 1][..]));
        assert_eq!(ordered.view(&[2, 60]).strides(), [60, 1]);
        assert!(panics(|| ordered.view(&[2, 61])));
        assert!(panics(|| last.view(&[120])));
        assert_eq!(last.unsqueeze(0).sizes(), [1, 2, 3, 4, 5]);
        let rows = tensor(&[2, 3], &[3, 1]);
        assert_eq!(rows.within(&[2, 7], &[3, 0]).sizes(), [2, 7]);
        assert!(panics(|| rows.within(&[3, 3], &[3, 1])));
        assert_eq!((rows.diagonal().sizes(), rows.diagonal().strides()), (&[2][..], &[4][..]));
        assert!(panics(|| last.diagonal()));
        let columns = rows.section(1, 1, 2);
        assert_eq!((columns.sizes(), columns.strides(), columns.address()), (&[2, 2][..], &[3, 1][..], rows.address() + 4));
        assert!(panics(|| rows.section(1, 2, 2)) && panics(|| rows.section(1, -1, 2)));
        assert_eq!(rows.expand(&[4, 2, 3]).unwrap().strides(), [0, 3, 1]);
        assert!(rows.expand(&[3, 3]).is_none() && rows.expand(&[3]).is_none());
        let text = "The expanded size of the tensor (5) must match the existing size (2) at non-singleton dimension 1.  Target sizes: [4, 5, 3].  \
                    Tensor sizes: [2, 3]";
        assert_eq!(rows.expanded(&[4, 5, 3]).unwrap_err(), CallError::Invalid(text.into()));
        let text = "expand(rustdevFloatType{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or equal to the number of \
                    dimensions in the tensor (2)";
        assert_eq!(rows.expanded(&[3]).unwrap_err(), CallError::Invalid(text.into()));
    }

    #[test]
    fn shared_memory_is_seen() {
        let (rows, expanded) = (tensor(&[2, 3], &[3, 1]), tensor(&[2, 3], &[0, 1]));
        assert!(rows.check_no_internal_overlap().is_ok() && expanded.check_no_internal_overlap().is_err());
        let at = |address| Tensor(Box::leak(Box::new(Parts { address, ..*rows.0 })));
        let behind = at(rows.address() + 24);
        assert!(rows.check_no_overlap(rows).is_err() && rows.check_no_overlap(behind).is_ok());
        assert!(rows.check_no_partial_overlap(rows).is_ok() && rows.check_no_partial_overlap(tensor(&[3, 2], &[2, 1])).is_err());
        let behind = at(rows.address() + 20);
        assert!(rows.check_no_overlap(behind).is_err() && rows.check_no_overlap(expanded).is_ok());
    }
}
