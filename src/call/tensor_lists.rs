//! Lists of tensors that one launch handles together. An entry is the tensors at one position of all lists. They are dense with
//! the same sizes and strides, so that the kernel can treat each one as a contiguous array.

use std::ops::Range;

use smallvec::SmallVec;

use super::tensors::Tensor;

pub type List<'a> = &'a [Tensor<'a>];
/// Several lists; up to six need no allocation.
pub type Lists<'a> = SmallVec<[List<'a>; 6]>;

/// The most tensors of a list in one launch, because a launch has a limited number of operands. Longer lists take several
/// launches.
const TENSORS_PER_LAUNCH: usize = 4096;

/// The ranges into which lists of this length are divided, one for each launch.
pub fn parts(tensors: usize) -> impl Iterator<Item = Range<usize>> {
    (0..tensors).step_by(TENSORS_PER_LAUNCH).map(move |begin| begin..tensors.min(begin + TENSORS_PER_LAUNCH))
}

/// True if one launch can handle lists of the same length together. They are not empty. All tensors are dense and on one
/// rustdev device. Each list has one dtype, and each entry has the same sizes and strides.
pub fn are_alike(lists: &[List<'_>]) -> bool {
    let is_on_device = lists[0].first().is_some_and(|first| first.device() >= 0);
    is_on_device
        && (0..lists[0].len()).all(|place| {
            let (model, device) = (lists[0][place], lists[0][0].device());
            let is_plain = |tensor: Tensor<'_>| tensor.device() == device && tensor.flags().0 == 0;
            let fits = |list: &List<'_>| {
                is_plain(list[place]) && list[place].dtype() == list[0].dtype() && has_layout_of(list[place], model)
            };
            model.fills_memory() && lists.iter().all(fits)
        })
}

/// True if both have the same sizes and, apart from dimensions of size 1, the same strides.
fn has_layout_of(tensor: Tensor<'_>, model: Tensor<'_>) -> bool {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let is_same = |dim: usize| sizes[dim] == model.sizes()[dim] && (sizes[dim] == 1 || strides[dim] == model.strides()[dim]);
    tensor.ndim() == model.ndim() && (0..tensor.ndim()).all(is_same)
}

pub fn have_one_dtype(lists: &[List<'_>]) -> bool {
    lists.iter().all(|list| list[0].dtype() == lists[0][0].dtype())
}

/// True if a tensor of the first `written` lists partially overlaps another tensor of the same entry.
pub fn overlap_in_part(lists: &[List<'_>], written: usize) -> bool {
    (0..lists[0].len()).any(|place| {
        let overlap = |own: usize, other: usize| {
            let (one, other) = (lists[own][place], lists[other][place]);
            one.may_share_memory(other)
                && !(one.address() == other.address()
                    && one.strides() == other.strides()
                    && one.dtype().size() == other.dtype().size())
        };
        (0..written).any(|own| (own + 1..lists.len()).any(|other| overlap(own, other)))
    })
}
