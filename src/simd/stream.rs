//! Stores that leave the caches as they are: for results so large that nothing of them would still be there when they are read.
//!
//! An ordinary store first reads the line that it writes to; these do not. docs/decisions/011-streaming-stores.md has what that gives.

/// Bytes of a result from which it is written past the caches: what the last cache of common processors holds.
const BEYOND_CACHES: usize = 32 << 20;

/// Bytes that a streamed block is aligned to, and a multiple of.
const ALIGNMENT: usize = 16;

/// How a loop writes its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    Cached,
    Streaming,
}

impl Stores {
    /// What is best for a result of so many bytes at an address that the loop does not read from.
    #[inline(always)]
    pub fn of(address: *const u8, bytes: usize) -> Self {
        let streams = cfg!(target_arch = "x86_64") && bytes >= BEYOND_CACHES && address.addr().is_multiple_of(ALIGNMENT);
        if streams { Self::Streaming } else { Self::Cached }
    }

    /// Writes a block, a whole number of [`ALIGNMENT`] long. A loop that has written some ends with [`Stores::finish`].
    ///
    /// # Safety
    /// The block's bytes may be written, and start at a multiple of [`ALIGNMENT`] if these are streaming stores.
    #[inline(always)]
    pub unsafe fn write<B: Copy>(self, to: *mut B, block: B) {
        const { assert!(size_of::<B>().is_multiple_of(ALIGNMENT)) };
        match self {
            // SAFETY: the caller's promise.
            Self::Cached => unsafe { to.write_unaligned(block) },
            // SAFETY: the caller's promise.
            Self::Streaming => unsafe { stream(to, &block) },
        }
    }

    /// Lets other threads see what was written.
    #[inline(always)]
    pub fn finish(self) {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Streaming {
            // SAFETY: SSE is part of the architecture.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

/// # Safety
/// As [`Stores::write`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream<B: Copy>(to: *mut B, block: &B) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (from, to) = ((&raw const *block).cast::<__m128i>(), to.cast::<__m128i>());
    for word in 0..size_of::<B>() / ALIGNMENT {
        // SAFETY: inside the block; SSE2 is part of the architecture.
        let bits = unsafe { _mm_loadu_si128(from.wrapping_add(word)) };
        // SAFETY: the caller promises that the bytes may be written and are aligned.
        unsafe { _mm_stream_si128(to.wrapping_add(word), bits) };
    }
}

/// # Safety
/// As [`Stores::write`].
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn stream<B: Copy>(to: *mut B, block: &B) {
    // SAFETY: the caller's promise.
    unsafe { to.write_unaligned(*block) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_results_are_streamed_where_they_are_aligned() {
        let address = std::ptr::without_provenance::<u8>(1 << 20);
        assert_eq!(Stores::of(address, BEYOND_CACHES - 1), Stores::Cached);
        assert_eq!(Stores::of(address.wrapping_add(8), BEYOND_CACHES), Stores::Cached);
        assert_eq!(Stores::of(address, BEYOND_CACHES) == Stores::Streaming, cfg!(target_arch = "x86_64"));
    }

    #[test]
    fn both_write_the_same() {
        for stores in [Stores::Cached, Stores::Streaming] {
            let mut target = crate::simd::Aligned([0u32; 24]);
            let block: [u32; 8] = std::array::from_fn(|place| place as u32 + 1);
            // SAFETY: the second third of the array, 32 bytes from its beginning.
            unsafe { stores.write(target.0.as_mut_ptr().wrapping_add(8).cast(), block) };
            stores.finish();
            let expected: Vec<u32> = (0..24).map(|place| if (8..16).contains(&place) { place - 7 } else { 0 }).collect();
            assert_eq!(target.0.as_slice(), expected, "{stores:?}");
        }
    }
}
