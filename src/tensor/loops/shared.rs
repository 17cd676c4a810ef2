//! [`Shared`]: memory that the threads of a loop write at places which only the loop knows to be apart, as when they sort.

use std::marker::PhantomData;

/// Elements that several threads read and write.
pub struct Shared<'a, T> {
    data: *mut T,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

// SAFETY: whoever accesses elements promises that no two threads do so with the same one, where one of them writes.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T: Copy> Shared<'a, T> {
    /// The elements of a slice.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { data: slice.as_mut_ptr(), len: slice.len(), memory: PhantomData }
    }

    /// The element at a place.
    ///
    /// # Safety
    /// The place is inside, and no thread writes it meanwhile.
    #[inline(always)]
    pub unsafe fn get(&self, place: usize) -> T {
        debug_assert!(place < self.len);
        // SAFETY: the caller's promise.
        unsafe { self.data.wrapping_add(place).read() }
    }

    /// Sets the element at a place.
    ///
    /// # Safety
    /// The place is inside, and no other thread accesses it meanwhile.
    #[inline(always)]
    pub unsafe fn set(&self, place: usize, value: T) {
        debug_assert!(place < self.len);
        // SAFETY: the caller's promise.
        unsafe { self.data.wrapping_add(place).write(value) };
    }
}
