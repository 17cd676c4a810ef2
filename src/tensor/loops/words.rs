//! Elements of 16 bits, loaded in words of two.
//!
//! Each element is widened and rounded in its half of the word, so that no vector instruction moves elements between lanes.

use crate::tensor::{Element, Number};

/// True if elements have 16 bits and a computing type of 32 bits.
pub const fn is_paired<E: Element>() -> bool {
    size_of::<E>() == 2 && size_of::<E::Acc>() == 4
}

/// The 16 bit element with these bits.
#[inline(always)]
pub fn from_bits<E: Copy>(bits: u16) -> E {
    debug_assert_eq!(size_of::<E>(), size_of::<u16>());
    // SAFETY: every bit pattern is an element of 16 bits; callers use no other types.
    unsafe { std::mem::transmute_copy(&bits) }
}

#[inline(always)]
pub fn to_bits<E: Copy>(element: E) -> u16 {
    debug_assert_eq!(size_of::<E>(), size_of::<u16>());
    // SAFETY: elements of 16 bits have no padding.
    unsafe { std::mem::transmute_copy(&element) }
}

/// Widens adjacent elements: in order or, for 16 bit elements, those at even indices before those at odd ones. Their number is
/// even.
#[inline(always)]
pub fn widen<E: Element, const N: usize>(elements: &[E; N]) -> [E::Acc; N] {
    let mut values = [E::Acc::ZERO; N];
    if const { is_paired::<E>() } {
        let (low, high) = values.split_at_mut(N / 2);
        for (position, (low, high)) in low.iter_mut().zip(high).enumerate() {
            // SAFETY: two elements of 16 bits are a word.
            let word = unsafe { elements.as_ptr().cast::<u32>().wrapping_add(position).read_unaligned() };
            (*low, *high) = (from_bits::<E>(word as u16).load(), from_bits::<E>((word >> 16) as u16).load());
        }
    } else {
        for (value, element) in values.iter_mut().zip(elements) {
            *value = element.load();
        }
    }
    values
}

/// Rounds values into adjacent elements; the values are in the order of [`widen`].
#[inline(always)]
pub fn narrow<E: Element, const N: usize>(values: &[E::Acc; N], elements: &mut [E; N]) {
    if const { is_paired::<E>() } {
        // All results are computed before the first is written.
        let mut words = [0u32; N];
        let (low, high) = values.split_at(N / 2);
        for (word, (&low, &high)) in words.iter_mut().zip(low.iter().zip(high)) {
            *word = to_bits(E::store(low)) as u32 | (to_bits(E::store(high)) as u32) << 16;
        }
        for (position, &word) in words[..N / 2].iter().enumerate() {
            // SAFETY: as in `widen`.
            unsafe { elements.as_mut_ptr().cast::<u32>().wrapping_add(position).write_unaligned(word) };
        }
    } else {
        for (element, &value) in elements.iter_mut().zip(values) {
            *element = E::store(value);
        }
    }
}
