//! Scalar conversions as in [`convert`](super::convert). A value stays in vector registers between memory and arithmetic: through
//! general purpose registers, a sum of two bfloat16 and its store take 1.4 ns on Zen 5, instead of 0.6 ns.

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        _mm_add_epi32, _mm_and_si128, _mm_andnot_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpunord_ps, _mm_cvtss_f32,
        _mm_extract_epi16, _mm_insert_epi16, _mm_or_si128, _mm_set_ss, _mm_set1_epi32, _mm_setzero_si128, _mm_srli_epi32,
    };

    #[target_feature(enable = "sse2")]
    #[inline]
    pub fn bf16_to_f32(bits: u16) -> f32 {
        _mm_cvtss_f32(_mm_castsi128_ps(_mm_insert_epi16::<1>(_mm_setzero_si128(), bits as i32)))
    }

    #[target_feature(enable = "sse2")]
    #[inline]
    pub fn f32_to_bf16(value: f32) -> u16 {
        let value = _mm_set_ss(value);
        let bits = _mm_castps_si128(value);
        let odd = _mm_and_si128(_mm_srli_epi32::<16>(bits), _mm_set1_epi32(1));
        let rounded = _mm_add_epi32(bits, _mm_add_epi32(odd, _mm_set1_epi32(0x7fff)));
        let is_nan = _mm_castps_si128(_mm_cmpunord_ps(value, value));
        let nan = _mm_and_si128(is_nan, _mm_set1_epi32(0x7fc0_0000));
        _mm_extract_epi16::<1>(_mm_or_si128(_mm_andnot_si128(is_nan, rounded), nan)) as u16
    }
}

/// The value of a bfloat16.
#[inline(always)]
pub fn bf16_to_f32(bits: u16) -> f32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { sse2::bf16_to_f32(bits) };
    #[cfg(not(target_arch = "x86_64"))]
    super::convert::bf16_to_f32(bits)
}

/// The bfloat16 nearest to `value`, ties to even; NaN stays NaN.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { sse2::f32_to_bf16(value) };
    #[cfg(not(target_arch = "x86_64"))]
    super::convert::f32_to_bf16(value)
}
