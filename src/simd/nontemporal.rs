//! Non-temporal stores, which bypass the caches: for results so large that they would be evicted before they are read.
//!
//! An ordinary store first reads the cache line that it writes to; a non-temporal one does not.
//! docs/decisions/011-nontemporal-stores.md has the gains.

use crate::tuning::caches::BEYOND_CACHES_BYTES;

/// The alignment of a non-temporally stored block in bytes; its length is a multiple of this.
const ALIGNMENT: usize = 16;

/// How a loop writes its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    Cached,
    NonTemporal,
}

impl Stores {
    /// The faster kind of stores for a result of `bytes` bytes at an address from which the loop does not read.
    #[inline(always)]
    pub fn of(address: *const u8, bytes: usize) -> Self {
        let bypasses = cfg!(target_arch = "x86_64") && bytes >= BEYOND_CACHES_BYTES && address.addr().is_multiple_of(ALIGNMENT);
        if bypasses { Self::NonTemporal } else { Self::Cached }
    }

    /// Writes a block whose length is a multiple of [`ALIGNMENT`]. A loop that has written blocks must end with [`Stores::finish`].
    ///
    /// # Safety
    /// The block's bytes must be writable; for non-temporal stores its address must be a multiple of [`ALIGNMENT`].
    #[inline(always)]
    pub unsafe fn write<B: Copy>(self, to: *mut B, block: B) {
        const { assert!(size_of::<B>().is_multiple_of(ALIGNMENT)) };
        match self {
            // SAFETY: the caller's promise.
            Self::Cached => unsafe { to.write_unaligned(block) },
            // SAFETY: the caller's promise.
            Self::NonTemporal => unsafe { store_nontemporal(to, &block) },
        }
    }

    /// Makes the stores visible to other threads.
    #[inline(always)]
    pub fn finish(self) {
        #[cfg(target_arch = "x86_64")]
        if self == Self::NonTemporal {
            // SAFETY: SSE is part of the architecture.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }
}

/// # Safety
/// As for [`Stores::write`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn store_nontemporal<B: Copy>(to: *mut B, block: &B) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let (from, to) = ((&raw const *block).cast::<__m128i>(), to.cast::<__m128i>());
    for word in 0..size_of::<B>() / ALIGNMENT {
        // SAFETY: this is inside the block; SSE2 is part of the architecture.
        let bits = unsafe { _mm_loadu_si128(from.wrapping_add(word)) };
        // SAFETY: the caller promises that the bytes are writable and aligned.
        unsafe { _mm_stream_si128(to.wrapping_add(word), bits) };
    }
}

/// # Safety
/// As for [`Stores::write`].
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn store_nontemporal<B: Copy>(to: *mut B, block: &B) {
    // SAFETY: the caller's promise.
    unsafe { to.write_unaligned(*block) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_results_take_nontemporal_stores_where_they_are_aligned() {
        let address = std::ptr::without_provenance::<u8>(1 << 20);
        assert_eq!(Stores::of(address, BEYOND_CACHES_BYTES - 1), Stores::Cached);
        assert_eq!(Stores::of(address.wrapping_add(8), BEYOND_CACHES_BYTES), Stores::Cached);
        assert_eq!(Stores::of(address, BEYOND_CACHES_BYTES) == Stores::NonTemporal, cfg!(target_arch = "x86_64"));
    }

    #[test]
    fn both_write_the_same() {
        for stores in [Stores::Cached, Stores::NonTemporal] {
            let mut target = crate::simd::Aligned([0u32; 24]);
            let block: [u32; 8] = std::array::from_fn(|position| position as u32 + 1);
            // SAFETY: this is the second third of the array, 32 bytes from its beginning.
            unsafe { stores.write(target.0.as_mut_ptr().wrapping_add(8).cast(), block) };
            stores.finish();
            let expected: Vec<u32> = (0..24).map(|position| if (8..16).contains(&position) { position - 7 } else { 0 }).collect();
            assert_eq!(target.0.as_slice(), expected, "{stores:?}");
        }
    }
}
