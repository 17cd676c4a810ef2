//! [`BumpArena`]: memory for the descriptors of one call, which is freed as a whole.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::slice;

use bumpalo::Bump;

/// The number of words of 8 bytes on the stack: enough for most calls.
const WORDS: usize = 192;

/// Memory of one call.
pub struct BumpArena {
    words: UnsafeCell<[MaybeUninit<u64>; WORDS]>,
    used: Cell<usize>,
    /// Memory on the heap, when the words are used up.
    more: Bump,
}

impl Default for BumpArena {
    #[inline(always)]
    fn default() -> Self {
        Self { words: UnsafeCell::new([MaybeUninit::uninit(); WORDS]), used: Cell::new(0), more: Bump::new() }
    }
}

impl BumpArena {
    /// New uninitialised memory for `count` values.
    #[inline]
    fn room<T>(&self, count: usize) -> *mut T {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let (used, bytes) = (self.used.get(), size_of::<T>() * count);
        let words = bytes.div_ceil(size_of::<u64>());
        if words > WORDS - used {
            return self.more.alloc_layout(layout(bytes)).as_ptr().cast();
        }
        self.used.set(used + words);
        self.words.get().cast::<u64>().wrapping_add(used).cast()
    }

    /// Stores `count` values.
    #[inline]
    pub fn keep_all<T: Copy>(&self, count: usize, mut value_of: impl FnMut(usize) -> T) -> &[T] {
        let room = self.room::<T>(count);
        for index in 0..count {
            let value = value_of(index);
            // SAFETY: `room` has memory for `count` values, to which nothing refers yet.
            unsafe { room.wrapping_add(index).write(value) };
        }
        // SAFETY: all of them are written and never change, and the arena outlives the result.
        unsafe { slice::from_raw_parts(room, count) }
    }

    /// Stores `count` values, or returns the first error.
    #[inline]
    pub fn try_keep_all<T: Copy, E>(&self, count: usize, mut value_of: impl FnMut(usize) -> Result<T, E>) -> Result<&[T], E> {
        let room = self.room::<T>(count);
        for index in 0..count {
            let value = value_of(index)?;
            // SAFETY: as in `keep_all`.
            unsafe { room.wrapping_add(index).write(value) };
        }
        // SAFETY: as in `keep_all`.
        Ok(unsafe { slice::from_raw_parts(room, count) })
    }

    /// Stores a value, which needs no destructor.
    #[inline]
    pub fn keep<T: Copy>(&self, value: T) -> &T {
        let room = self.room::<T>(1);
        // SAFETY: as in `keep_all`, for one value.
        unsafe { room.write(value) };
        // SAFETY: as in `keep_all`.
        unsafe { &*room }
    }
}

#[cold]
fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, align_of::<u64>()).expect("descriptors are small")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_are_behind_the_words_too() {
        let arena = BumpArena::default();
        let kept: Vec<(&[u8], &[i64], &u64)> = (0..100_u8)
            .map(|number| {
                let bytes = arena.keep_all(3, |index| number + index as u8);
                (
                    bytes,
                    arena.keep_all(usize::from(number), |index| index as i64 - i64::from(number)),
                    arena.keep(u64::from(number)),
                )
            })
            .collect();
        for (number, (bytes, list, single)) in (0..100_u8).zip(kept) {
            assert_eq!((bytes, *single), (&[number, number + 1, number + 2][..], u64::from(number)));
            assert!(list.iter().copied().eq(-i64::from(number)..0));
        }
    }

    #[test]
    fn the_first_failure_ends_a_list() {
        let arena = BumpArena::default();
        let outcome = arena.try_keep_all(4, |index| if index < 2 { Ok(index) } else { Err(index) });
        assert_eq!(outcome, Err(2));
        assert_eq!(arena.try_keep_all::<_, ()>(2, Ok), Ok(&[0, 1][..]));
    }
}
