//! [`View`]: a validated descriptor of one operand, and typed views of its memory.
//!
//! Views are made only by [`View::new`], which checks dtype, number of dimensions, sizes and null pointers. Their memory is alive and large
//! enough by the promise of the launch's caller: the shim, whose tensors PyTorch has validated, and the stream, in whose order memory is
//! reused.

use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn, ShapeBuilder};

use super::dtype::{DType, Element};

/// The most dimensions that an operand can have (PyTorch's own limit).
pub const MAX_DIMS: usize = 64;

/// Flags of an operand; the numbers are those of `RD_OPERAND_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Values are the conjugate of what memory holds.
    pub const CONJ: Self = Self(1);
    /// Values are the negative of what memory holds.
    pub const NEG: Self = Self(2);
    /// Memory outside the device.
    pub const HOST: Self = Self(4);
    /// One host element, read when the launch is made.
    pub const IMMEDIATE: Self = Self(8);

    /// Whether all of `other` are set.
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One operand: where its elements are and what they are.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    data: *mut u8,
    dtype: DType,
    flags: Flags,
    sizes: &'a [i64],
    strides: &'a [i64],
}

// SAFETY: a view by itself accesses nothing; who launches promises that the memory may be used from the threads that run the kernel.
unsafe impl Send for View<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for View<'_> {}

impl<'a> View<'a> {
    /// The view of `data` with `sizes` (elements) and `strides` (bytes).
    ///
    /// # Errors
    /// More than [`MAX_DIMS`] dimensions, lengths that differ, a negative size, or null where there are elements.
    #[inline]
    pub fn new(data: *mut u8, dtype: DType, flags: Flags, sizes: &'a [i64], strides: &'a [i64]) -> Result<Self, String> {
        if sizes.len() > MAX_DIMS || sizes.len() != strides.len() {
            return Err(format!(
                "an operand has {} sizes and {} strides; at most {MAX_DIMS} dimensions",
                sizes.len(),
                strides.len()
            ));
        }
        if sizes.iter().any(|&size| size < 0) {
            return Err(format!("an operand has a negative size: {sizes:?}"));
        }
        let view = Self { data, dtype, flags, sizes, strides };
        if data.is_null() && view.numel() > 0 {
            return Err(format!("an operand of sizes {sizes:?} has no memory"));
        }
        Ok(view)
    }

    /// A view made of parts that came from a checked one.
    #[inline(always)]
    pub(crate) fn from_checked(data: *mut u8, dtype: DType, flags: Flags, sizes: &'a [i64], strides: &'a [i64]) -> Self {
        debug_assert_eq!(sizes.len(), strides.len());
        Self { data, dtype, flags, sizes, strides }
    }

    /// The first element.
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

    /// Elements per dimension.
    #[inline(always)]
    pub fn sizes(&self) -> &'a [i64] {
        self.sizes
    }

    /// Bytes from one element to the next, per dimension.
    #[inline(always)]
    pub fn strides(&self) -> &'a [i64] {
        self.strides
    }

    /// The size of a dimension.
    #[inline(always)]
    pub fn size(&self, dim: usize) -> usize {
        self.sizes[dim] as usize
    }

    /// The stride of a dimension, bytes.
    #[inline(always)]
    pub fn stride(&self, dim: usize) -> isize {
        self.strides[dim] as isize
    }

    /// Number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.sizes.iter().map(|&size| size as usize).product()
    }

    /// Whether every index names the same element.
    #[inline]
    pub fn is_constant(&self) -> bool {
        self.strides.iter().all(|&stride| stride == 0)
    }

    /// Whether the only dimension is contiguous.
    #[inline(always)]
    pub fn is_dense_1d(&self) -> bool {
        self.strides.len() == 1 && self.strides[0] == self.dtype.size() as i64
    }

    /// Whether the operand is contiguous in PyTorch's sense; without elements always.
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

    /// Whether the operands' memory may have bytes in common.
    #[inline]
    pub fn overlaps(&self, other: &View<'_>) -> bool {
        match (self.extent(), other.extent()) {
            (Some((begin, end)), Some((other_begin, other_end))) => begin < other_end && other_begin < end,
            _ => false,
        }
    }

    /// The bytes between the first and the last element, both included: begin and end addresses. Nothing if there are no elements.
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

    /// The address of the element of that number in the order of the indices.
    pub fn address(&self, mut number: usize) -> usize {
        let mut address = self.data as usize;
        for (&size, &stride) in self.sizes.iter().zip(self.strides).rev() {
            let size = (size as usize).max(1);
            address = address.wrapping_add_signed((number % size) as isize * stride as isize);
            number /= size;
        }
        address
    }

    /// The elements as an `ndarray` view, for loops that are not hot.
    ///
    /// # Errors
    /// `T` is not the dtype's type, or strides that `ndarray` cannot express (negative, or no multiple of the element).
    pub fn array<T: Element>(&self) -> Result<ArrayViewD<'a, T>, String> {
        let shape = self.shape::<T>()?;
        // SAFETY: the dtype is T's and `shape` has non-negative strides; the launch promises the memory for as long as the kernel runs.
        Ok(unsafe { ArrayViewD::from_shape_ptr(shape, self.data.cast::<T>()) })
    }

    /// The elements as a mutable `ndarray` view, for loops that are not hot.
    ///
    /// # Errors
    /// As [`View::array`]; also a stride of 0, where two indices would name one element.
    ///
    /// # Safety
    /// No other view of the same elements is in use while this one lives.
    pub unsafe fn array_mut<T: Element>(&self) -> Result<ArrayViewMutD<'a, T>, String> {
        if self.sizes.iter().zip(self.strides).any(|(&size, &stride)| size > 1 && stride == 0) {
            return Err("an output operand has elements that share memory".into());
        }
        let shape = self.shape::<T>()?;
        // SAFETY: as in `array`; the caller promises that this view is the only one.
        Ok(unsafe { ArrayViewMutD::from_shape_ptr(shape, self.data.cast::<T>()) })
    }

    fn shape<T: Element>(&self) -> Result<ndarray::StrideShape<IxDyn>, String> {
        if self.dtype != T::DTYPE {
            return Err(format!("an operand is {:?} where {:?} is needed", self.dtype, T::DTYPE));
        }
        let size = size_of::<T>() as i64;
        if self.strides.iter().any(|&stride| stride < 0 || stride % size != 0) {
            return Err(format!("strides {:?} are not multiples of {size} bytes", self.strides));
        }
        let sizes: Vec<usize> = self.sizes.iter().map(|&size| size as usize).collect();
        let strides: Vec<usize> = self.strides.iter().map(|&stride| (stride / size) as usize).collect();
        Ok(IxDyn(&sizes).strides(IxDyn(&strides)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_descriptors_are_refused() {
        let mut value = 0f32;
        let data = (&raw mut value).cast::<u8>();
        let new = |data, sizes, strides| View::new(data, DType::Float, Flags::default(), sizes, strides);
        assert!(new(data, &[1, 1], &[4]).is_err());
        assert!(new(data, &[-1], &[4]).is_err());
        assert!(new(data, &[1; 65], &[4; 65]).is_err());
        assert!(new(std::ptr::null_mut(), &[1], &[4]).is_err());
        assert!(new(std::ptr::null_mut(), &[0], &[4]).is_ok());
        assert!(new(data, &[1; 64], &[4; 64]).is_ok());
    }

    #[test]
    fn extent_covers_the_elements() {
        let data = 4096 as *mut u8;
        let view =
            |sizes: &'static [i64], strides| View::new(data, DType::Float, Flags::default(), sizes, strides).unwrap().extent();
        assert_eq!(view(&[], &[]), Some((4096, 4100)));
        assert_eq!(view(&[3, 2], &[4, 100]), Some((4096, 4096 + 8 + 100 + 4)));
        assert_eq!(view(&[3], &[-4]), Some((4088, 4100)));
        assert_eq!(view(&[3, 0], &[4, 4]), None);
    }

    #[test]
    fn contiguous_is_what_has_no_gaps_or_no_elements() {
        let mut value = 0f32;
        let data = (&raw mut value).cast::<u8>();
        let is_contiguous = |sizes: &[i64], strides: &[i64]| {
            View::new(data, DType::Float, Flags::default(), sizes, strides).unwrap().is_contiguous()
        };
        assert!(is_contiguous(&[5, 3, 4], &[48, 16, 4]));
        assert!(is_contiguous(&[5, 1, 4], &[16, 100, 4]));
        assert!(!is_contiguous(&[5, 3, 4], &[48, 4, 12]));
        for sizes in [[0, 3, 4], [5, 0, 4], [5, 3, 0]] {
            assert!(is_contiguous(&sizes, &[16, 16, 4]));
            assert!(is_contiguous(&sizes, &[4, 20, 400]));
        }
    }

    #[test]
    fn array_is_typed_and_strided() {
        let mut values = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let view = View::new(values.as_mut_ptr().cast(), DType::Float, Flags::default(), &[2, 3], &[4, 8]).unwrap();
        assert_eq!(view.array::<f32>().unwrap(), ndarray::array![[1f32, 3.0, 5.0], [2.0, 4.0, 6.0]].into_dyn());
        assert!(view.array::<f64>().is_err());
        // SAFETY: no other view of `values` is in use.
        unsafe { view.array_mut::<f32>() }.unwrap()[[1, 2]] = 7.0;
        assert_eq!(values[5], 7.0);
        let shared = View::new(values.as_mut_ptr().cast(), DType::Float, Flags::default(), &[2], &[0]).unwrap();
        // SAFETY: no other view of `values` is in use.
        assert!(unsafe { shared.array_mut::<f32>() }.is_err());
    }
}
