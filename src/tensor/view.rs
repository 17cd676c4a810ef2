//! [`View`]: a validated descriptor of one operand, and typed views of its memory.
//!
//! Views are made only by [`View::new`], which checks dtype, number of dimensions, sizes and null pointers, and from other views:
//! of parts of them ([`super::part`]). Whoever makes the first view guarantees that its memory is alive and large enough. In
//! `src/abi` this is the shim, which calls the launch and whose tensors PyTorch has validated, and the stream, in whose order
//! memory is reused.

use crate::tensor::{DType, Error};

/// The maximum number of dimensions of an operand (PyTorch's own limit).
pub const MAX_DIMS: usize = 64;

/// Flags of an operand, with the values of `RD_OPERAND_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Values are the conjugates of the memory's contents.
    pub const CONJ: Self = Self(1);
    /// Values are the negatives of the memory's contents.
    pub const NEG: Self = Self(2);
    /// The memory is outside the device.
    pub const HOST: Self = Self(4);
    /// One host element, which is read when the launch is made.
    pub const IMMEDIATE: Self = Self(8);
    /// A flag of a call's tensor, not of an operand: the tensor wraps a number of the Python program.
    pub const WRAPPED_NUMBER: Self = Self(16);
    /// The optional operand is not given.
    pub const ABSENT: Self = Self(32);

    /// True if all flags of `other` are set.
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One operand: the address, dtype, sizes and strides of its elements.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    data: *mut u8,
    dtype: DType,
    flags: Flags,
    /// True if it is an output of a launch. References to an output's elements come from [`super::output::Output`] alone.
    is_output: bool,
    sizes: &'a [i64],
    strides: &'a [i64],
}

// SAFETY: a view by itself accesses nothing; `View::new` guarantees that the threads that run the kernel may use the memory.
unsafe impl Send for View<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    /// The place of an optional operand that is not given. It has no elements, so that no walk over memory visits it.
    pub const ABSENT: Self =
        Self { data: std::ptr::null_mut(), dtype: DType::Byte, flags: Flags::ABSENT, is_output: false, sizes: &[0], strides: &[1] };

    /// The view of `data` with `sizes` (elements) and `strides` (bytes).
    ///
    /// ```compile_fail
    /// use rustdev::tensor::{dtype::DType, view::{Flags, View}};
    /// let mut value = 1f32;
    /// let view = View::new((&raw mut value).cast(), DType::Float, Flags::default(), &[], &[]);
    /// ```
    ///
    /// The caller is responsible for the memory at the address:
    ///
    /// ```
    /// use rustdev::tensor::{dtype::DType, view::{Flags, View}};
    /// let mut value = 1f32;
    /// // SAFETY: `value` is the only element, and outlives the view.
    /// let view = unsafe { View::new((&raw mut value).cast(), DType::Float, Flags::default(), &[], &[]) };
    /// assert_eq!(view.unwrap().numel(), 1);
    /// ```
    ///
    /// # Errors
    /// If there are more than [`MAX_DIMS`] dimensions, the lengths differ, a size is negative, or `data` is null and there are
    /// elements.
    ///
    /// # Safety
    /// As long as the view or anything made from it is used, from any thread: each element that an index names, and the element at
    /// `data` with [`Flags::IMMEDIATE`], must be readable, and writable if the view becomes an output. Nothing but these uses may
    /// write this memory, nor read what they write.
    #[inline]
    pub unsafe fn new(data: *mut u8, dtype: DType, flags: Flags, sizes: &'a [i64], strides: &'a [i64]) -> Result<Self, Error> {
        if sizes.len() > MAX_DIMS || sizes.len() != strides.len() {
            return Err(Error::new(format!(
                "an operand has {} sizes and {} strides; at most {MAX_DIMS} dimensions",
                sizes.len(),
                strides.len()
            )));
        }
        if sizes.iter().any(|&size| size < 0) {
            return Err(Error::new(format!("an operand has a negative size: {sizes:?}")));
        }
        let view = Self { data, dtype, flags, is_output: false, sizes, strides };
        if data.is_null() && view.numel() > 0 {
            return Err(Error::new(format!("an operand of sizes {sizes:?} has no memory")));
        }
        Ok(view)
    }

    /// [`View::new`] without its checks.
    ///
    /// # Safety
    /// As for [`View::new`], which would accept the arguments.
    #[inline(always)]
    pub(crate) unsafe fn from_checked(data: *mut u8, dtype: DType, flags: Flags, sizes: &'a [i64], strides: &'a [i64]) -> Self {
        debug_assert_eq!(sizes.len(), strides.len());
        Self { data, dtype, flags, is_output: false, sizes, strides }
    }

    /// A view of elements of this view at other indices.
    ///
    /// # Safety
    /// From `data`, each index of `sizes` must name an element of this view. No size may be negative, and there must be as many
    /// strides.
    #[inline(always)]
    pub(super) unsafe fn reindexed<'b>(&self, data: *mut u8, sizes: &'b [i64], strides: &'b [i64]) -> View<'b>
    where
        'a: 'b,
    {
        debug_assert_eq!(sizes.len(), strides.len());
        View { data, sizes, strides, ..*self }
    }

    /// The same view, marked as an output of a launch or not.
    #[inline(always)]
    pub(super) fn as_output(self, is_output: bool) -> Self {
        Self { is_output, ..self }
    }

    /// True if the launch writes the operand.
    #[inline(always)]
    pub fn is_output(&self) -> bool {
        self.is_output
    }

    /// The only element of this view at each index of `sizes`, without flags. `strides` has as many zeros.
    pub fn broadcast<'b>(&self, sizes: &'b [i64], strides: &'b [i64]) -> Result<View<'b>, Error>
    where
        'a: 'b,
    {
        if self.numel() != 1 || strides.iter().any(|&stride| stride != 0) {
            return Err(Error::new(format!("{:?} as {sizes:?} with strides {strides:?}", self.sizes)));
        }
        // SAFETY: every index names the only element of this view, which upholds the other conditions.
        let view = unsafe { View::new(self.data, self.dtype, Flags::default(), sizes, strides) }?;
        Ok(view.as_output(self.is_output))
    }

    /// Words of 16 bits as a writable operand of one dimension. `size` is their number.
    pub fn of_words(words: &'a mut [u16], dtype: DType, size: &'a [i64; 1]) -> Result<Self, Error> {
        if dtype.size() != size_of::<u16>() || size[0] != words.len() as i64 {
            return Err(Error::new(format!("{} words as {size:?} of {dtype:?}", words.len())));
        }
        // SAFETY: only the view uses the words meanwhile; they are as many elements of the dtype, for which every bit pattern is
        // valid.
        unsafe { Self::new(words.as_mut_ptr().cast(), dtype, Flags::default(), size, dtype.size_word()) }
    }

    /// The address of the first element.
    #[inline(always)]
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    #[inline(always)]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    #[inline(always)]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    #[inline(always)]
    pub fn ndim(&self) -> usize {
        self.sizes.len()
    }

    /// The number of elements of each dimension.
    #[inline(always)]
    pub fn sizes(&self) -> &'a [i64] {
        self.sizes
    }

    /// Bytes from one element to the next, for each dimension.
    #[inline(always)]
    pub fn strides(&self) -> &'a [i64] {
        self.strides
    }

    #[inline(always)]
    pub fn size(&self, dim: usize) -> usize {
        self.sizes[dim] as usize
    }

    /// The stride of a dimension in bytes.
    #[inline(always)]
    pub fn stride(&self, dim: usize) -> isize {
        self.strides[dim] as isize
    }

    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.sizes.iter().map(|&size| size as usize).product()
    }

    /// True if every index names the same element.
    #[inline]
    pub fn is_constant(&self) -> bool {
        self.strides.iter().all(|&stride| stride == 0)
    }

    /// True if the only dimension is contiguous.
    #[inline(always)]
    pub fn is_dense_1d(&self) -> bool {
        self.strides.len() == 1 && self.strides[0] == self.dtype.size() as i64
    }

    /// True if the operand is contiguous in PyTorch's sense; always true without elements.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = self.dtype.size() as i64;
        for (&size, &stride) in self.sizes.iter().zip(self.strides).rev() {
            if size != 1 && stride != expected {
                return self.sizes.contains(&0);
            }
            expected *= size;
        }
        true
    }

    /// True if the operands' memory may overlap.
    #[inline]
    pub fn overlaps(&self, other: &View<'_>) -> bool {
        match (self.extent(), other.extent()) {
            (Some((begin, end)), Some((other_begin, other_end))) => begin < other_end && other_begin < end,
            _ => false,
        }
    }

    /// The range of the elements' bytes: begin and end addresses. `None` if there are no elements.
    pub fn extent(&self) -> Option<(usize, usize)> {
        if self.sizes.contains(&0) {
            return None;
        }
        let (mut begin, mut end) = (self.data as usize, self.data as usize + self.dtype.size());
        for (&size, &stride) in self.sizes.iter().zip(self.strides) {
            let reach = (size - 1) * stride;
            if reach < 0 {
                begin = begin.wrapping_add_signed(reach as isize);
            } else {
                end += reach as usize;
            }
        }
        Some((begin, end))
    }

    /// The address of the element with the given number, in the order of the indices.
    pub fn address(&self, mut number: usize) -> usize {
        let mut address = self.data as usize;
        for (&size, &stride) in self.sizes.iter().zip(self.strides).rev() {
            let size = (size as usize).max(1);
            address = address.wrapping_add_signed((number % size) as isize * stride as isize);
            number /= size;
        }
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A view of floats at an address that nothing reads.
    fn at<'a>(address: usize, sizes: &'a [i64], strides: &'a [i64]) -> Result<View<'a>, Error> {
        // SAFETY: nothing reads the elements.
        unsafe { View::new(std::ptr::without_provenance_mut(address), DType::Float, Flags::default(), sizes, strides) }
    }

    #[test]
    fn bad_descriptors_are_refused() {
        assert!(at(4096, &[1, 1], &[4]).is_err() && at(4096, &[-1], &[4]).is_err() && at(4096, &[1; 65], &[4; 65]).is_err());
        assert!(at(0, &[1], &[4]).is_err() && at(0, &[0], &[4]).is_ok() && at(4096, &[1; 64], &[4; 64]).is_ok());
    }

    #[test]
    fn extent_covers_the_elements() {
        let extent = |sizes: &'static [i64], strides| at(4096, sizes, strides).unwrap().extent();
        assert_eq!(extent(&[], &[]), Some((4096, 4100)));
        assert_eq!(extent(&[3, 2], &[4, 100]), Some((4096, 4096 + 8 + 100 + 4)));
        assert_eq!(extent(&[3], &[-4]), Some((4088, 4100)));
        assert_eq!(extent(&[3, 0], &[4, 4]), None);
    }

    #[test]
    fn contiguous_is_what_has_no_gaps_or_no_elements() {
        let is_contiguous = |sizes: &[i64], strides: &[i64]| at(4096, sizes, strides).unwrap().is_contiguous();
        assert!(is_contiguous(&[5, 3, 4], &[48, 16, 4]) && is_contiguous(&[5, 1, 4], &[16, 100, 4]));
        assert!(!is_contiguous(&[5, 3, 4], &[48, 4, 12]));
        for sizes in [[0, 3, 4], [5, 0, 4], [5, 3, 0]] {
            assert!(is_contiguous(&sizes, &[16, 16, 4]) && is_contiguous(&sizes, &[4, 20, 400]));
        }
    }

    #[test]
    fn only_one_element_is_broadcast() {
        let mut words = [7u16, 8];
        let view = View::of_words(&mut words, DType::Half, &[2]).unwrap();
        assert!(view.broadcast(&[3], &[0]).is_err());
        assert!(
            View::of_words(&mut [7, 8], DType::Float, &[2]).is_err() && View::of_words(&mut [7, 8], DType::Half, &[3]).is_err()
        );
        let mut word = [7u16];
        let one = View::of_words(&mut word, DType::Half, &[1]).unwrap();
        assert!(one.broadcast(&[3], &[2]).is_err() && one.broadcast(&[3, 4], &[0]).is_err());
        assert_eq!(one.broadcast(&[3], &[0]).unwrap().extent(), one.extent());
    }
}
