//! Sort keys: elements as unsigned integers in the same order, and pairs of a key and an index.
//!
//! NaN is the greatest. All NaNs are equal, and so are the two zeros. Equal elements keep the order of their indices.

#![forbid(unsafe_code)]

use half::{bf16, f16};

use crate::tensor::inlined::inlined;
use crate::tensor::{Bool, Element};

/// An element that can be sorted.
pub trait Key: Element {
    /// Bits of a key.
    const WIDTH: u32;

    /// The key: an unsigned integer that is ordered as the elements are.
    fn key(self) -> u64;

    /// The element of a key. Of elements with one key it is the positive zero, or any NaN.
    fn of_key(key: u64) -> Self;

    /// True if the element is not a number.
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }

    /// True if the element is greater than another one or, without `STRICT`, equal to it. False if either is NaN.
    #[inline(always)]
    fn is_behind<const STRICT: bool>(self, other: Self) -> bool {
        if STRICT { self.key() > other.key() } else { self.key() >= other.key() }
    }

    /// True if [`Key::of_key`] of this element's key may give another element.
    #[inline(always)]
    fn is_ambiguous(self) -> bool {
        false
    }
}

macro_rules! unsigned_keys {
    ($($type:ty),*) => {$(
        impl Key for $type {
            const WIDTH: u32 = <$type>::BITS;

            inlined! {
                fn key(self) -> u64 = u64::from(self);
                fn of_key(key: u64) -> Self = key as $type;
            }
        }
    )*};
}

macro_rules! signed_keys {
    ($($type:ty: $unsigned:ty),*) => {$(
        impl Key for $type {
            const WIDTH: u32 = <$type>::BITS;

            inlined! {
                fn key(self) -> u64 = u64::from(self as $unsigned ^ (1 << (<$type>::BITS - 1)));
                fn of_key(key: u64) -> Self = (key as $unsigned ^ (1 << (<$type>::BITS - 1))) as $type;
            }
        }
    )*};
}

macro_rules! float_keys {
    ($($type:ty: $unsigned:ty, $infinity:expr),*) => {$(
        impl Key for $type {
            const WIDTH: u32 = <$unsigned>::BITS;

            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                let bits = self.to_bits();
                let magnitude = bits & !SIGN;
                let ordered = if bits & SIGN == 0 { magnitude + SIGN } else { SIGN - magnitude };
                u64::from(if magnitude > $infinity { <$unsigned>::MAX } else { ordered })
            }

            #[inline(always)]
            fn of_key(key: u64) -> Self {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                let ordered = key as $unsigned;
                Self::from_bits(if ordered >= SIGN { ordered - SIGN } else { (SIGN - ordered) | SIGN })
            }

            #[inline(always)]
            fn is_ambiguous(self) -> bool {
                const SIGN: $unsigned = 1 << (<$unsigned>::BITS - 1);
                let bits = self.to_bits();
                bits == SIGN || bits & !SIGN > $infinity
            }

            #[inline(always)]
            fn is_behind<const STRICT: bool>(self, other: Self) -> bool {
                // For 16 bit floats a comparison in `f32` is one instruction; their own comparison takes several.
                let (own, other) = (self.load(), other.load());
                if STRICT { own > other } else { own >= other }
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.to_bits() & (<$unsigned>::MAX >> 1) > $infinity
            }
        }
    )*};
}

unsigned_keys! { u8, u16, u32, u64 }
signed_keys! { i8: u8, i16: u16, i32: u32, i64: u64 }
float_keys! { f16: u16, 0x7c00, bf16: u16, 0x7f80, f32: u32, 0x7f80_0000, f64: u64, 0x7ff0_0000_0000_0000 }

impl Key for Bool {
    const WIDTH: u32 = 8;

    inlined! {
        fn key(self) -> u64 = u64::from(self.get());
        fn of_key(key: u64) -> Self = Self(key as u8);
    }
}

/// A key and a position in one integer, ordered by the key, then by the position.
pub trait Pair: Copy + Ord + Default + Send + Sync {
    /// Bits of a key.
    const KEY_BITS: u32;
    /// True if indices up to this number fit.
    fn holds(indices: usize) -> bool;
    /// Makes a pair. The key has at most [`Pair::KEY_BITS`] bits, and the position as many as are left.
    fn new(key: u64, position: usize) -> Self;
    fn key(self) -> u64;
    fn position(self) -> usize;
    /// The low 64 bits, to store the pair in the memory of an index.
    fn as_position(self) -> i64;
    /// The pair that [`Pair::as_position`] has stored.
    fn from_position(position: i64) -> Self;
}

/// Keys and indices of 32 bits.
impl Pair for u64 {
    const KEY_BITS: u32 = 32;

    inlined! {
        fn holds(indices: usize) -> bool = u32::try_from(indices).is_ok();
        fn new(key: u64, position: usize) -> Self = key << 32 | position as Self;
        fn key(self) -> u64 = self >> 32;
        fn position(self) -> usize = (self & 0xffff_ffff) as usize;
        fn as_position(self) -> i64 = self as i64;
        fn from_position(position: i64) -> Self = position as Self;
    }
}

/// Keys and indices of 64 bits.
impl Pair for u128 {
    const KEY_BITS: u32 = 64;

    inlined! {
        fn holds(_: usize) -> bool = true;
        fn new(key: u64, position: usize) -> Self = Self::from(key) << 64 | position as Self;
        fn key(self) -> u64 = (self >> 64) as u64;
        fn position(self) -> usize = self as usize;
        fn as_position(self) -> i64 = self as i64;
        fn from_position(position: i64) -> Self = position as Self;
    }
}

/// The mapping of elements to the keys of pairs: direction, and an offset that all keys have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// A mask of all key bits for descending order, else 0.
    flip: u64,
    /// The least key, which is subtracted.
    base: u64,
}

impl Order {
    /// The order of all elements of `T`.
    pub fn of<T: Key>(descending: bool) -> Self {
        Self { flip: if descending { u64::MAX >> (64 - T::WIDTH) } else { 0 }, base: 0 }
    }

    /// The same order, with `base` as the least key.
    pub fn from(self, base: u64) -> Self {
        Self { base, ..self }
    }

    /// The key in this order.
    #[inline(always)]
    pub fn key<T: Key>(self, value: T) -> u64 {
        (value.key() ^ self.flip).wrapping_sub(self.base)
    }

    /// The element of a key.
    #[inline(always)]
    pub fn value<T: Key>(self, key: u64) -> T {
        T::of_key(key.wrapping_add(self.base) ^ self.flip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_equal_and_nans_are_equal() {
        assert_eq!((-0.0f32).key(), 0.0f32.key());
        assert_eq!((-f64::NAN).key(), f64::NAN.key());
        assert!((-0.0f32).is_ambiguous() && f16::NAN.is_ambiguous() && !0.0f64.is_ambiguous() && !f32::INFINITY.is_ambiguous());
        assert_eq!(Bool(7).key(), Bool(1).key());
    }
}
