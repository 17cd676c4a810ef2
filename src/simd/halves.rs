//! Conversions of runs of binary16 numbers by the processor's instructions, if it has them. Compilers do not generate them from the
//! arithmetic of [`convert`](super::convert), which takes several times as long.

use half::f16;

use super::convert::{f16_to_f32, f32_to_f16};

/// Widens as many numbers as both slices have.
pub fn widen_slice(from: &[f16], to: &mut [f32]) {
    // SAFETY: both have that many elements, and they do not overlap, since one is borrowed mutably.
    unsafe { widen(from.as_ptr(), to.as_mut_ptr(), from.len().min(to.len())) };
}

/// Rounds as many numbers as both slices have to the nearest, ties to even.
pub fn narrow_slice(from: &[f32], to: &mut [f16]) {
    // SAFETY: as above.
    unsafe { narrow(from.as_ptr(), to.as_mut_ptr(), from.len().min(to.len())) };
}

/// Widens `count` numbers.
///
/// # Safety
/// `from` must have `count` readable elements and `to` as many writable ones, at any alignment; they must not overlap.
pub unsafe fn widen(from: *const f16, to: *mut f32, count: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::isa() >= super::Isa::Avx2 {
        // SAFETY: the caller's promise; F16C is part of `Isa::Avx2`.
        return unsafe { f16c::widen(from, to, count) };
    }
    // SAFETY: the caller's promise.
    unsafe { widen_each(from, to, 0, count) };
}

/// Rounds `count` numbers.
///
/// # Safety
/// As [`widen`].
pub unsafe fn narrow(from: *const f32, to: *mut f16, count: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::isa() >= super::Isa::Avx2 {
        // SAFETY: the caller's promise; F16C is part of `Isa::Avx2`.
        return unsafe { f16c::narrow(from, to, count) };
    }
    // SAFETY: the caller's promise.
    unsafe { narrow_each(from, to, 0, count) };
}

/// [`widen`] for the numbers from `begin` on, one by one.
#[inline(always)]
unsafe fn widen_each(from: *const f16, to: *mut f32, begin: usize, count: usize) {
    for index in begin..count {
        // SAFETY: the promise of `widen`'s caller.
        let bits = unsafe { from.wrapping_add(index).read_unaligned() }.to_bits();
        // SAFETY: as above.
        unsafe { to.wrapping_add(index).write_unaligned(f16_to_f32(bits)) };
    }
}

/// [`narrow`] for the numbers from `begin` on, one by one.
#[inline(always)]
unsafe fn narrow_each(from: *const f32, to: *mut f16, begin: usize, count: usize) {
    for index in begin..count {
        // SAFETY: the promise of `narrow`'s caller.
        let value = unsafe { from.wrapping_add(index).read_unaligned() };
        // SAFETY: as above.
        unsafe { to.wrapping_add(index).write_unaligned(f16::from_bits(f32_to_f16(value))) };
    }
}

#[cfg(target_arch = "x86_64")]
mod f16c {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_loadu_ps,
        _mm256_storeu_ps,
    };

    use half::f16;

    /// Numbers that one instruction converts.
    const LANES: usize = 8;

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn widen(from: *const f16, to: *mut f32, count: usize) {
        let whole = count / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            // SAFETY: the promise of `super::widen`'s caller.
            let halves = unsafe { _mm_loadu_si128(from.wrapping_add(first).cast()) };
            let values = _mm256_cvtph_ps(halves);
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(to.wrapping_add(first), values) };
        }
        // SAFETY: as above.
        unsafe { super::widen_each(from, to, whole, count) };
    }

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn narrow(from: *const f32, to: *mut f16, count: usize) {
        let whole = count / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            // SAFETY: the promise of `super::narrow`'s caller.
            let values = unsafe { _mm256_loadu_ps(from.wrapping_add(first)) };
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(to.wrapping_add(first).cast(), halves) };
        }
        // SAFETY: as above.
        unsafe { super::narrow_each(from, to, whole, count) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::for_each_isa;

    #[test]
    fn instructions_and_arithmetic_agree() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let values: Vec<f32> = (0..=u16::MAX)
            .flat_map(|high| [0u32, 0x0fff, 0x1000, 0x1001, 0x3000].map(|low| (high as u32) << 16 | low))
            .map(f32::from_bits)
            .collect();
        for_each_isa(|isa| {
            // All numbers but the last: whole vectors and a rest.
            for count in [halves.len(), halves.len() - 3] {
                let mut wide = vec![0.0f32; count];
                // SAFETY: both have `count` elements.
                unsafe { widen(halves.as_ptr(), wide.as_mut_ptr(), count) };
                let is_same = |(half, wide): (&f16, &f32)| half.to_f32() == *wide || half.is_nan() && wide.is_nan();
                assert!(halves.iter().zip(&wide).all(is_same), "{isa:?}");
            }
            let mut narrowed = vec![f16::ZERO; values.len()];
            // SAFETY: both have as many elements.
            unsafe { narrow(values.as_ptr(), narrowed.as_mut_ptr(), values.len()) };
            for (value, half) in values.iter().zip(&narrowed) {
                let expected = f16::from_f32_const(*value);
                assert!(expected.to_bits() == half.to_bits() || expected.is_nan() && half.is_nan(), "{isa:?}: {value:e}");
            }
        });
    }
}
