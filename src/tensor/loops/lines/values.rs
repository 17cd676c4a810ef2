//! Vector operands of loops over lines: statistics, weights, steps.

use std::marker::PhantomData;

use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::loops::cast;
use crate::tensor::number::{Hub, Number};
use crate::tensor::view::View;

/// A vector operand with elements of any dtype. The threads of a loop read and write it by index.
pub struct Values<'a, T> {
    view: View<'a>,
    count: usize,
    value: PhantomData<fn(T) -> T>,
}

impl<'a, T: Number> Values<'a, T> {
    /// The elements of a contiguous operand.
    pub fn new(view: View<'a>) -> Result<Self, Error> {
        if !view.is_contiguous() {
            return Err(Error::operands("an operand is not contiguous"));
        }
        if !view.dtype().is_convertible() {
            return Err(Error::dtype(view.dtype(), format!("{:?} has no conversions", view.dtype())));
        }
        Ok(Self { count: view.numel(), view, value: PhantomData })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn address(&self, index: usize) -> *mut u8 {
        assert!(index < self.count, "element {index} of {}", self.count);
        self.view.data().wrapping_add(index * self.view.dtype().size())
    }

    /// An element.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get(&self, index: usize) -> T {
        let (dtype, address) = (self.view.dtype(), self.address(index));
        let value: Result<T, Error> = dispatch!(dtype in EVERY, E => {
            // SAFETY: `address` checks the index, and the launch guarantees the operand's memory.
            let element = unsafe { address.cast::<E>().read_unaligned() };
            Ok(element.load().hub().to())
        });
        value.unwrap_or_default()
    }

    /// Every element.
    pub fn to_vec(&self) -> Vec<T>
    where
        T: Element,
    {
        let mut values = vec![T::default(); self.count];
        // SAFETY: the operand is contiguous and has as many elements; `values` is new memory.
        let cast = unsafe { cast::cast(self.view.data(), self.view.dtype(), values.as_mut_ptr().cast(), T::DTYPE, self.count) };
        debug_assert!(cast.is_ok(), "new checks that the dtype is convertible");
        values
    }

    /// Writes an element. Different lines must write different elements.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn set(&self, index: usize, value: T) {
        let (dtype, address) = (self.view.dtype(), self.address(index));
        let stored: Result<(), Error> = dispatch!(dtype in EVERY, E => {
            // SAFETY: as in `get`; the launch may write an output operand.
            unsafe { address.cast::<E>().write_unaligned(E::store(value.hub().to())) };
            Ok(())
        });
        debug_assert!(stored.is_ok(), "new checks that the dtype is convertible");
    }
}
