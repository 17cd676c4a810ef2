//! Views of parts of an operand, also in reversed order.
//!
//! A [`View`] borrows its sizes and strides. A [`Part`] owns them, and each index names an element of the original view.

use smallvec::SmallVec;

use super::View;

/// A view with a range of indices of each dimension, in their order or reversed.
pub struct Part<'a> {
    whole: View<'a>,
    /// The address of the first element.
    data: *mut u8,
    sizes: Dims,
    strides: Dims,
}

type Dims = SmallVec<[i64; 8]>;

impl<'a> Part<'a> {
    /// The whole view.
    #[inline]
    pub fn of(view: &View<'a>) -> Self {
        Self { whole: *view, data: view.data(), sizes: Dims::from_slice(view.sizes()), strides: Dims::from_slice(view.strides()) }
    }

    /// Keeps the indices `begin..end` of a dimension. Panics if the part does not have these indices or this dimension.
    #[inline]
    pub fn narrow(&mut self, dim: usize, begin: usize, end: usize) {
        let size = &mut self.sizes[dim];
        assert!(begin <= end && end as i64 <= *size, "the indices {begin} to {end} of {size}");
        *size = (end - begin) as i64;
        self.data = self.data.wrapping_offset(begin as isize * self.strides[dim] as isize);
    }

    /// Reverses a dimension. Panics if the view does not have the dimension.
    #[inline]
    pub fn flip(&mut self, dim: usize) {
        let (last, stride) = (self.sizes[dim] as isize - 1, &mut self.strides[dim]);
        if last > 0 {
            self.data = self.data.wrapping_offset(last * *stride as isize);
        }
        *stride = -*stride;
    }

    #[inline]
    pub fn view(&self) -> View<'_> {
        // SAFETY: `narrow` has checked each range, and an index of `sizes` names an element of it: in a reversed dimension, the one
        // that is as far before the last.
        unsafe { self.whole.reindexed(self.data, &self.sizes, &self.strides) }
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
            let mut part = Part::of(view);
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
            let narrow = || with_view(|view| Part::of(view).narrow(dim, begin, end));
            assert!(std::panic::catch_unwind(narrow).is_err(), "{dim} {begin} {end}");
        }
        assert!(std::panic::catch_unwind(|| with_view(|view| Part::of(view).flip(2))).is_err());
    }

    #[test]
    fn flipped_twice_is_not_flipped() {
        with_view(|view| {
            let mut flipped = Part::of(view);
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
