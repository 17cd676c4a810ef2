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
    is_on_device && (0..lists[0].len()).all(|place| are_alike_at(lists, place))
}

fn are_alike_at(lists: &[List<'_>], place: usize) -> bool {
    let (model, device) = (lists[0][place], lists[0][0].device());
    let fits = |list: &List<'_>| {
        let tensor = list[place];
        let is_plain = tensor.device() == device && tensor.flags().0 == 0 && tensor.dtype() == list[0].dtype();
        is_plain && has_layout_of(tensor, model)
    };
    model.fills_memory() && lists.iter().all(fits)
}

/// True if both have the same sizes and, apart from dimensions of size 1, the same strides.
fn has_layout_of(tensor: Tensor<'_>, model: Tensor<'_>) -> bool {
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    let is_same = |dim: usize| sizes[dim] == model.sizes()[dim] && (sizes[dim] == 1 || strides[dim] == model.strides()[dim]);
    tensor.ndim() == model.ndim() && (0..tensor.ndim()).all(is_same)
}

/// True if all tensors of similar lists have one dtype.
pub fn have_one_dtype(lists: &[List<'_>]) -> bool {
    lists.iter().all(|list| list[0].dtype() == lists[0][0].dtype())
}

/// True if a tensor of the first `written` lists partially overlaps another tensor of the same entry.
pub fn overlap_in_part(lists: &[List<'_>], written: usize) -> bool {
    (0..lists[0].len()).any(|place| {
        let numel = lists[0][place].numel() as usize;
        let overlaps = |own: usize, other: usize| share_in_part(lists[own][place], lists[other][place], numel);
        (0..written).any(|own| (own + 1..lists.len()).any(|other| overlaps(own, other)))
    })
}

/// True if two dense tensors with `numel` elements overlap but are not the same elements.
fn share_in_part(one: Tensor<'_>, other: Tensor<'_>, numel: usize) -> bool {
    let [own, others] = [one, other].map(|tensor| tensor.address()..tensor.address() + numel * tensor.dtype().size());
    let meet = own.start < others.end && others.start < own.end;
    meet && (own != others || one.strides() != other.strides())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dtype::DType;

    fn tensor(sizes: &[i64], strides: &[i64]) -> Tensor<'static> {
        Tensor::leaked(1, DType::Float, 0, sizes, strides)
    }

    #[test]
    fn long_lists_have_parts() {
        assert_eq!(parts(5000).collect::<Vec<_>>(), [0..4096, 4096..5000]);
        assert_eq!((parts(0).count(), parts(4096).count()), (0, 1));
    }

    #[test]
    fn lists_are_alike_where_their_tensors_lie_alike() {
        let (rows, columns) = (tensor(&[2, 3], &[3, 1]), tensor(&[2, 3], &[1, 2]));
        let (line, other) = (tensor(&[1, 3], &[7, 1]), tensor(&[1, 3], &[3, 1]));
        assert!(are_alike(&[&[rows, line]]) && are_alike(&[&[columns, line], &[columns, other]]));
        assert!(!are_alike(&[&[rows], &[columns]]));
        assert!(!are_alike(&[&[tensor(&[2, 3], &[4, 1])]]) && !are_alike(&[&[]]));
        assert!(!are_alike(&[&[rows], &[tensor(&[3, 2], &[2, 1])]]));
        assert!(!are_alike(&[&[rows], &[Tensor::leaked(2, DType::Float, 1, &[2, 3], &[3, 1])]]));
        let double = Tensor::leaked(2, DType::Double, 0, &[2, 3], &[3, 1]);
        assert!(are_alike(&[&[rows], &[double]]) && !are_alike(&[&[rows, double]]) && !have_one_dtype(&[&[rows], &[double]]));
    }

    #[test]
    fn elements_that_are_others_overlap() {
        let memory = tensor(&[12], &[1]);
        let (first, second, rest) = (memory.section(0, 0, 4), memory.section(0, 1, 4), memory.section(0, 8, 4));
        assert!(overlap_in_part(&[&[first], &[second]], 1) && !overlap_in_part(&[&[first], &[first]], 1));
        assert!(!overlap_in_part(&[&[first], &[rest]], 1) && !overlap_in_part(&[&[rest], &[first], &[second]], 1));
        assert!(overlap_in_part(&[&[rest], &[first], &[second]], 2));
    }
}
