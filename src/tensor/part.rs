//! Views of parts of an operand, and of its elements in another order.
//!
//! A [`View`] borrows its sizes and strides. The types of this module own the ones that they change, and each index names an
//! element of the original view.

use super::{MAX_DIMS, View};

/// A view restricted to a range of indices of each dimension.
pub struct Narrowed<'a> {
    whole: View<'a>,
    /// The address of the first element.
    data: *mut u8,
    sizes: [i64; MAX_DIMS],
}

impl<'a> Narrowed<'a> {
    #[inline]
    pub fn of(view: &View<'a>) -> Self {
        let mut sizes = [0; MAX_DIMS];
        sizes[..view.ndim()].copy_from_slice(view.sizes());
        Self { whole: *view, data: view.data(), sizes }
    }

    /// Keeps the indices `begin..end` of a dimension. Panics if the view does not have these indices or this dimension.
    #[inline]
    pub fn narrow(&mut self, dim: usize, begin: usize, end: usize) {
        let size = &mut self.sizes[..self.whole.ndim()][dim];
        assert!(begin <= end && end as i64 <= *size, "the indices {begin} to {end} of {size}");
        *size = (end - begin) as i64;
        self.data = self.data.wrapping_offset(begin as isize * self.whole.stride(dim));
    }

    #[inline]
    pub fn view(&self) -> View<'_> {
        // SAFETY: `narrow` has checked each range: an index of `sizes` plus the beginning of its range is an index of the original
        // view.
        unsafe { self.whole.reindexed(self.data, &self.sizes[..self.whole.ndim()], self.whole.strides()) }
    }
}

/// A view with some dimensions reversed.
pub struct Flipped<'a> {
    whole: View<'a>,
    /// The address of the first element.
    data: *mut u8,
    strides: [i64; MAX_DIMS],
}

impl<'a> Flipped<'a> {
    /// The view without a reversed dimension.
    #[inline]
    pub fn of(view: &View<'a>) -> Self {
        let mut strides = [0; MAX_DIMS];
        strides[..view.ndim()].copy_from_slice(view.strides());
        Self { whole: *view, data: view.data(), strides }
    }

    /// Reverses a dimension. Panics if the view does not have the dimension.
    #[inline]
    pub fn flip(&mut self, dim: usize) {
        let last = self.whole.size(dim) as isize - 1;
        let stride = &mut self.strides[dim];
        if last > 0 {
            self.data = self.data.wrapping_offset(last * *stride as isize);
        }
        *stride = -*stride;
    }

    #[inline]
    pub fn view(&self) -> View<'_> {
        // SAFETY: in a reversed dimension, `data` is at the last index, and index `i` names the element that is `i` before the
        // last.
        unsafe { self.whole.reindexed(self.data, self.whole.sizes(), &self.strides[..self.whole.ndim()]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    fn with_view<R>(body: impl FnOnce(&View<'_>) -> R) -> R {
        let (mut words, strides) = (std::array::from_fn::<u16, 12, _>(|at| at as u16), [6, 2]);
        let flat = View::of_words(&mut words, DType::Short, &[12]).unwrap();
        // SAFETY: the 4 x 3 elements are the 12 of `flat`.
        body(&unsafe { flat.reindexed(flat.data(), &[4, 3], &strides) })
    }

    fn values(view: &View<'_>) -> Vec<i16> {
        let count = view.numel();
        // SAFETY: `address` gives the address of an element, all of which are numbers of 16 bits.
        (0..count).map(|number| unsafe { (view.address(number) as *const i16).read() }).collect()
    }

    #[test]
    fn a_part_has_the_elements_of_its_indices() {
        with_view(|view| {
            let mut part = Narrowed::of(view);
            part.narrow(0, 1, 4);
            part.narrow(1, 1, 3);
            part.narrow(0, 1, 3);
            assert_eq!((part.view().sizes(), values(&part.view())), (&[2, 2][..], vec![7, 8, 10, 11]));
            part.narrow(1, 2, 2);
            assert_eq!(part.view().numel(), 0);
        });
    }

    #[test]
    fn what_a_view_does_not_have_is_no_part_of_it() {
        for (dim, begin, end) in [(0, 0, 5), (0, 3, 2), (1, 4, 4), (2, 0, 0)] {
            let narrow = || with_view(|view| Narrowed::of(view).narrow(dim, begin, end));
            assert!(std::panic::catch_unwind(narrow).is_err(), "{dim} {begin} {end}");
        }
        assert!(std::panic::catch_unwind(|| with_view(|view| Flipped::of(view).flip(2))).is_err());
    }

    #[test]
    fn flipped_twice_is_not_flipped() {
        with_view(|view| {
            let mut flipped = Flipped::of(view);
            flipped.flip(1);
            assert_eq!(values(&flipped.view())[..4], [2, 1, 0, 5]);
            flipped.flip(0);
            assert_eq!(values(&flipped.view())[..4], [11, 10, 9, 8]);
            flipped.flip(0);
            flipped.flip(1);
            assert_eq!(values(&flipped.view()), values(view));
        });
    }
}
