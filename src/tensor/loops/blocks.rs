//! A loop over contiguous elements in blocks. All results of a block are computed before the first is written: an output may be one
//! of the inputs, and the compiler needs no check for aliasing.

use super::words::{from_bits, to_bits};
use crate::simd::nontemporal::Stores;

/// A function of the elements at one index of `N` inputs. Mark its methods `#[inline(always)]`.
pub(super) trait BlockFunction<E, R, const N: usize>: Copy {
    /// True if a block is read and written as words of two 16 bit elements: see [`words`](super::words).
    const PAIRED: bool;

    fn apply(self, inputs: [E; N]) -> R;

    /// [`Self::apply`] for an element outside whole blocks.
    #[inline(always)]
    fn apply_single(self, inputs: [E; N]) -> R {
        self.apply(inputs)
    }
}

/// The operands of a loop: pointers to their first elements.
#[derive(Clone, Copy)]
pub(super) struct Blocks<E, R, const N: usize> {
    pub inputs: [*const E; N],
    pub output: *mut R,
    /// The number of elements of each.
    pub count: usize,
    pub stores: Stores,
}

impl<E: Copy, R: Copy + Default, const N: usize> Blocks<E, R, N> {
    /// Applies a function to all elements, in blocks of `WORDS` pairs. Must be called within a [`Leaf`](crate::simd::Leaf).
    ///
    /// # Safety
    /// Each input must have `count` readable elements, and the output as many writable ones. Nothing else may use the output's
    /// memory, except that inputs may be the same memory index by index. The output must be aligned for [`Stores::write`] if it is
    /// stored non-temporally.
    #[inline(always)]
    pub unsafe fn run<F: BlockFunction<E, R, N>, const WORDS: usize>(&self, function: F) {
        let whole = self.count / (2 * WORDS) * (2 * WORDS);
        for first in (0..whole).step_by(2 * WORDS) {
            if const { F::PAIRED } {
                self.paired_block::<F, WORDS>(first, function);
            } else {
                self.block::<F, WORDS>(first, function);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.rest(whole, function) };
        self.stores.finish();
    }

    /// [`Self::run`] for the elements from `begin` on, one by one.
    ///
    /// # Safety
    /// As for [`Self::run`].
    #[inline(always)]
    pub unsafe fn rest<F: BlockFunction<E, R, N>>(&self, begin: usize, function: F) {
        for index in begin..self.count {
            // SAFETY: the caller's promise.
            let result = function.apply_single(unsafe { self.load(index) });
            // SAFETY: as above.
            unsafe { self.output.wrapping_add(index).write_unaligned(result) };
        }
    }

    /// The part of at most `limit` elements from `begin` on.
    #[inline(always)]
    pub fn part(&self, begin: usize, limit: usize) -> Self {
        let (inputs, output) = (self.inputs.map(|input| input.wrapping_add(begin)), self.output.wrapping_add(begin));
        Self { inputs, output, count: limit.min(self.count - begin), ..*self }
    }

    /// The elements at an index.
    ///
    /// # Safety
    /// The index must be below `count`, and each input must have `count` readable elements.
    #[inline(always)]
    pub unsafe fn load(&self, index: usize) -> [E; N] {
        // SAFETY: the caller's promise.
        self.inputs.map(|input| unsafe { input.wrapping_add(index).read_unaligned() })
    }

    #[inline(always)]
    fn block<F: BlockFunction<E, R, N>, const WORDS: usize>(&self, first: usize, function: F) {
        let mut block = [[R::default(); 2]; WORDS];
        for (lane, result) in block.as_flattened_mut().iter_mut().enumerate() {
            // SAFETY: the caller of `run` promises the elements of the block.
            *result = function.apply(unsafe { self.load(first + lane) });
        }
        // SAFETY: as above; blocks keep the alignment.
        unsafe { self.stores.write(self.output.wrapping_add(first).cast(), block) };
    }

    #[inline(always)]
    fn paired_block<F: BlockFunction<E, R, N>, const WORDS: usize>(&self, first: usize, function: F) {
        let mut block = [0u32; WORDS];
        for (lane, result) in block.iter_mut().enumerate() {
            // SAFETY: as in `block`: a word is two elements.
            let words =
                self.inputs.map(|input| unsafe { input.wrapping_add(first).cast::<u32>().wrapping_add(lane).read_unaligned() });
            let low = to_bits(function.apply(words.map(|word| from_bits(word as u16))));
            let high = to_bits(function.apply(words.map(|word| from_bits((word >> 16) as u16))));
            *result = low as u32 | (high as u32) << 16;
        }
        // SAFETY: as in `block`.
        unsafe { self.stores.write(self.output.wrapping_add(first).cast(), block) };
    }
}
