//! [`DisjointSlice`]: a slice whose elements several threads write, each element by one thread at a time.

use std::marker::PhantomData;

/// Elements that several threads read and write.
pub struct DisjointSlice<'a, T> {
    data: *mut T,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: the accessing code promises that no two threads do so with the same one, where one of them writes.
unsafe impl<T: Send> Send for DisjointSlice<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for DisjointSlice<'_, T> {}

impl<'a, T: Copy> DisjointSlice<'a, T> {
    /// The elements of a slice.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { data: slice.as_mut_ptr(), len: slice.len(), memory: PhantomData }
    }

    /// The element at a place.
    ///
    /// # Safety
    /// The place is inside, and no thread writes it meanwhile.
    #[inline(always)]
    pub unsafe fn get(&self, position: usize) -> T {
        debug_assert!(position < self.len);
        // SAFETY: the caller's promise.
        unsafe { self.data.wrapping_add(position).read() }
    }

    /// Sets the element at a place.
    ///
    /// # Safety
    /// The place is inside, and no other thread accesses it meanwhile.
    #[inline(always)]
    pub unsafe fn set(&self, position: usize, value: T) {
        debug_assert!(position < self.len);
        // SAFETY: the caller's promise.
        unsafe { self.data.wrapping_add(position).write(value) };
    }
}
