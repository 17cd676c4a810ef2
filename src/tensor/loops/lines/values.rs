//! Vector operands of loops over lines: statistics, weights, steps.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tensor::loops::{cast, rows};
use crate::tensor::{Element, Error, Hub, Number, Output, View, dispatch};

/// A vector operand with elements of any dtype, which are read by index.
pub struct Values<'a, T> {
    view: View<'a>,
    count: usize,
    value: PhantomData<fn(T) -> T>,
}

impl<'a, T: Number> Values<'a, T> {
    /// The elements of a contiguous operand.
    pub fn new(view: View<'a>) -> Result<Self, Error> {
        if !view.is_contiguous() {
            return Err(Error::new("an operand is not contiguous"));
        }
        if !view.dtype().is_convertible() {
            return Err(Error::new(format!("{:?} has no conversions", view.dtype())));
        }
        Ok(Self { count: view.numel(), view, value: PhantomData })
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn address(&self, index: usize) -> *mut u8 {
        assert!(index < self.count, "element {index} of {}", self.count);
        self.view.data().wrapping_add(index * self.view.dtype().size())
    }

    /// An element. Panics if `index` is out of range.
    pub fn get(&self, index: usize) -> T {
        let (dtype, address) = (self.view.dtype(), self.address(index));
        let value: Result<T, Error> = dispatch!(dtype in EVERY, E => {
            // SAFETY: `address` checks the index, and the launch guarantees the operand's memory.
            let element = unsafe { address.cast::<E>().read_unaligned() };
            Ok(element.load().hub().to())
        });
        value.unwrap_or_default()
    }

    /// Every element of an optional operand, or `count` times `default`.
    pub fn or(view: Option<View<'a>>, count: usize, default: T) -> Result<Vec<T>, Error>
    where
        T: Element,
    {
        view.map_or_else(|| Ok(vec![default; count]), |view| Ok(Self::new(view)?.to_vec()))
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
}

/// A vector output with elements of any dtype.
pub struct ValuesMut<'a, T>(Values<'a, T>);

impl<'a, T: Number> ValuesMut<'a, T> {
    /// The elements of a contiguous output.
    pub fn new(output: Output<'a>) -> Result<Self, Error> {
        Ok(Self(Values::new(output.into_view())?))
    }

    /// Writes an element. Panics if `index` is out of range.
    pub fn set(&mut self, index: usize, value: T) {
        let (dtype, address) = (self.view.dtype(), self.address(index));
        let stored: Result<(), Error> = dispatch!(dtype in EVERY, E => {
            // SAFETY: `address` checks the index, and the elements of an output are written through this value alone.
            unsafe { address.cast::<E>().write_unaligned(E::store(value.hub().to())) };
            Ok(())
        });
        debug_assert!(stored.is_ok(), "new checks that the dtype is convertible");
    }
}

impl<'a, T> Deref for ValuesMut<'a, T> {
    type Target = Values<'a, T>;

    fn deref(&self) -> &Values<'a, T> {
        &self.0
    }
}

/// A number for each line, such as its mean, which the threads of a loop set.
pub struct Statistics(Vec<AtomicU64>);

impl Statistics {
    pub fn new(lines: usize) -> Self {
        Self((0..lines).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets the number of a line. Panics if there is no such line.
    #[inline]
    pub fn set<T: Number>(&self, line: usize, value: T) {
        self.0[line].store(value.hub().to::<f64>().to_bits(), Ordering::Relaxed);
    }

    /// Writes the numbers to a contiguous output.
    pub fn assign(self, output: Output<'_>) -> Result<(), Error> {
        let numbers: Vec<f64> = self.0.into_iter().map(|bits| f64::from_bits(bits.into_inner())).collect();
        rows::assign(output, &numbers)
    }
}
