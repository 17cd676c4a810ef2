//! [`DisjointSlice`]: a slice that several threads write, each element by one thread at a time.

use std::marker::PhantomData;

/// A slice that several threads read and write.
pub struct DisjointSlice<'a, T> {
    data: *mut T,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: callers of `get` and `set` promise that no two threads access an element at the same time if one of them writes it.
unsafe impl<T: Send> Send for DisjointSlice<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for DisjointSlice<'_, T> {}

impl<'a, T: Copy> DisjointSlice<'a, T> {
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { data: slice.as_mut_ptr(), len: slice.len(), memory: PhantomData }
    }

    /// The element at a position.
    ///
    /// # Safety
    /// The position must be inside, and no thread may write it meanwhile.
    #[inline(always)]
    pub unsafe fn get(&self, position: usize) -> T {
        debug_assert!(position < self.len);
        // SAFETY: the caller's promise.
        unsafe { self.data.wrapping_add(position).read() }
    }

    /// Sets the element at a position.
    ///
    /// # Safety
    /// The position must be inside, and no other thread may access it meanwhile.
    #[inline(always)]
    pub unsafe fn set(&self, position: usize, value: T) {
        debug_assert!(position < self.len);
        // SAFETY: the caller's promise.
        unsafe { self.data.wrapping_add(position).write(value) };
    }

    /// The `len` elements from a position on. Panics if they are not inside.
    ///
    /// # Safety
    /// No other reference to these elements may be used, and no other thread may access them, while the result lives.
    #[allow(clippy::mut_from_ref, reason = "the caller promises that nobody else has these elements")]
    pub unsafe fn part(&self, position: usize, len: usize) -> &mut [T] {
        assert!(position <= self.len && len <= self.len - position);
        // SAFETY: the assertion has checked the range; the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.data.wrapping_add(position), len) }
    }
}
