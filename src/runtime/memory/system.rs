//! System calls of the pools: reserving address ranges, committing and releasing physical memory.
//!
//! A [`Reservation`] is a private anonymous mapping without access rights, which costs only address space. Committing a part maps
//! fresh readable and writable memory over it, with the system's ordinary accounting: if the machine refuses to promise that much,
//! the call fails, as `malloc` would. Releasing a part maps inaccessible memory over it again, which frees its pages immediately
//! and makes any later access through a stale pointer fault. A part can be backed by a file instead, which other processes may map,
//! too; this can also replace memory that is in use.

use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;

#[cfg(not(loom))]
use super::access;
use super::device_memory::DeviceMemory;
use crate::runtime::observers;

/// The size of the machine's huge pages; segments are aligned to it.
pub const HUGE_PAGE: usize = 2 << 20;

/// The unit in which [`Reservation::replace`] copies.
const PAGE: usize = 4096;

/// A reserved address range, released when dropped.
#[derive(Debug)]
pub struct Reservation {
    base: usize,
    length: usize,
}

impl Reservation {
    /// Reserves `length` bytes, aligned to [`HUGE_PAGE`]; `length` is a multiple of it.
    pub fn new(length: usize) -> Result<Self> {
        debug_assert!(length.is_multiple_of(HUGE_PAGE));
        let whole = map(0, length + HUGE_PAGE, libc::PROT_NONE, libc::MAP_NORESERVE)?;
        let base = whole.next_multiple_of(HUGE_PAGE);
        unmap(whole, base - whole);
        unmap(base + length, whole + HUGE_PAGE - base);
        Ok(Self { base, length })
    }

    fn part(&self, offset: usize, length: usize) -> usize {
        assert!(offset <= self.length && length <= self.length - offset, "a part of a reservation lies inside it");
        self.base + offset
    }
}

impl DeviceMemory for Reservation {
    fn base(&self) -> usize {
        self.base
    }

    fn length(&self) -> usize {
        self.length
    }

    /// Commits zeroed memory to a part of the range, in huge pages if the system grants them. In a dry run the system promises no
    /// memory, and a page that is written takes no others along.
    fn commit(&mut self, offset: usize, length: usize) -> Result<()> {
        let start = self.part(offset, length);
        let (access, is_dry) = (libc::PROT_READ | libc::PROT_WRITE, observers::is_dry());
        map(start, length, access, libc::MAP_FIXED | if is_dry { libc::MAP_NORESERVE } else { 0 })?;
        if !is_dry {
            advise_huge_pages(start, length);
        }
        note_committed(start, length);
        Ok(())
    }

    /// Maps the first `length` bytes of a file to a part of the range, in huge pages if the system grants them for files.
    fn map_file(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        let start = self.part(offset, length);
        map_file(start, length, libc::MAP_FIXED, file)?;
        advise_huge_pages(start, length);
        note_committed(start, length);
        Ok(())
    }

    /// Replaces the memory of a committed part by an empty file of `length` bytes and keeps the contents. Zero pages, such as those
    /// never used, take no memory in the file.
    ///
    /// # Safety
    /// Nothing writes to the part meanwhile.
    unsafe fn replace(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        let start = self.part(offset, length);
        #[cfg(not(loom))]
        let _access = access::Access::open();
        let copy = map_file(0, length, 0, file)?;
        advise_huge_pages(copy, length);
        for page in (0..length).step_by(PAGE) {
            let (from, to) = ((start + page) as *const [u64; PAGE / 8], (copy + page) as *mut [u64; PAGE / 8]);
            // SAFETY: the page is committed, and the caller promises that nothing writes to it.
            let from = unsafe { &*from };
            if from.iter().any(|word| *word != 0) {
                // SAFETY: the page belongs to the mapping made above, which nobody else accesses; the file covers it.
                unsafe { to.write(*from) };
            }
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the copy is moved over a part of this reservation with the same contents, so that no access sees a difference.
        let moved = unsafe { libc::mremap(copy as *mut libc::c_void, length, length, flags, start as *mut libc::c_void) };
        if moved == libc::MAP_FAILED {
            let error = Error::last_os_error();
            unmap(copy, length);
            return Err(error);
        }
        Ok(())
    }

    /// Releases the memory of a part of the range; its contents are lost, unless they are in a file.
    fn decommit(&mut self, offset: usize, length: usize) -> Result<()> {
        let start = self.part(offset, length);
        #[cfg(not(loom))]
        access::remove(start);
        map(start, length, libc::PROT_NONE, libc::MAP_FIXED | libc::MAP_NORESERVE).map(|_| ())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        unmap(self.base, self.length);
    }
}

/// Memory outside any reservation, for the host pool: zeroed, page-aligned, released by [`unmap`].
pub fn map_pages(length: usize) -> Result<usize> {
    map(0, length, libc::PROT_READ | libc::PROT_WRITE, 0)
}

/// Locks a range into physical memory; `false` if the system refuses (the limit is often some megabytes).
pub fn lock_pages(start: usize, length: usize) -> bool {
    // SAFETY: mlock changes no contents and fails for ranges that are not mapped.
    unsafe { libc::mlock(start as *const libc::c_void, length) == 0 }
}

fn map(start: usize, length: usize, protection: libc::c_int, flags: libc::c_int) -> Result<usize> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: without MAP_FIXED the kernel picks unused addresses; with it, the callers above pass only parts of their own
    // reservation, in which the pool keeps no live block.
    let start = unsafe { libc::mmap(start as *mut libc::c_void, length, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(start as usize) }
}

/// Maps the first `length` bytes of a file, which the mapping keeps alive; with `MAP_FIXED` over a part of a reservation.
pub(in crate::runtime) fn map_file(start: usize, length: usize, flags: libc::c_int, file: &File) -> Result<usize> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_SHARED);
    // SAFETY: as in `map`.
    let start = unsafe { libc::mmap(start as *mut libc::c_void, length, access, flags, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(start as usize) }
}

/// Sets whether committed memory is accessible. If the system refuses (too many mappings), nothing changes.
#[cfg(not(loom))]
pub fn protect(start: usize, length: usize, accessible: bool) {
    let rights = if accessible { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: the range is committed memory of a reservation. An access while it is inaccessible faults, which is intended.
    unsafe { libc::mprotect(start as *mut libc::c_void, length, rights) };
}

/// Notes that memory is accessible.
#[cfg_attr(loom, allow(unused_variables, reason = "the models have no access rights"))]
fn note_committed(start: usize, length: usize) {
    #[cfg(not(loom))]
    access::add(start, length);
}

fn advise_huge_pages(start: usize, length: usize) {
    // SAFETY: the callers just mapped the range. The advice changes no contents; after a refusal the range has ordinary pages.
    unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_HUGEPAGE) };
}

/// Releases a mapping of this module; it contains no live block.
pub fn unmap(start: usize, length: usize) {
    if length > 0 {
        // SAFETY: the callers own the mapping and hand it over.
        unsafe { libc::munmap(start as *mut libc::c_void, length) };
    }
}

/// A zeroed array of `u32` of fixed length, whose pages take memory only once they are written.
#[derive(Debug)]
pub struct SparseArray {
    base: usize,
    length: usize,
}

impl SparseArray {
    /// An array of `length` zeros.
    pub fn new(length: usize) -> Result<Self> {
        let bytes = length * size_of::<u32>();
        let base = map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_NORESERVE)?;
        Ok(Self { base, length })
    }

    /// The element at `index`; `None` past the end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u32> {
        if index >= self.length {
            return None;
        }
        let base = self.base as *const u32;
        // SAFETY: the index is below the length of the mapping, checked above.
        let element = unsafe { base.add(index) };
        // SAFETY: the mapping is readable, aligned and initialised by the kernel; `&self` excludes `set`.
        Some(unsafe { element.read() })
    }

    /// Stores the element at `index`, which is below the length.
    #[inline]
    pub fn set(&mut self, index: usize, value: u32) {
        assert!(index < self.length);
        let base = self.base as *mut u32;
        // SAFETY: the index is below the length of the mapping, checked above.
        let element = unsafe { base.add(index) };
        // SAFETY: the mapping is writable and aligned; `&mut self` excludes other accesses.
        unsafe { element.write(value) };
    }
}

impl Drop for SparseArray {
    fn drop(&mut self) {
        unmap(self.base, self.length * size_of::<u32>());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_memory_is_zero_again_after_it_was_given_back() {
        let mut range = Reservation::new(4 * HUGE_PAGE).unwrap();
        let byte = (range.base() + HUGE_PAGE) as *mut u8;
        for _ in 0..2 {
            range.commit(HUGE_PAGE, HUGE_PAGE).unwrap();
            // SAFETY: the page was committed above and nothing else uses it.
            assert_eq!(unsafe { byte.read() }, 0);
            // SAFETY: as above.
            unsafe { byte.write(7) };
            range.decommit(HUGE_PAGE, HUGE_PAGE).unwrap();
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn memory_that_a_file_replaces_keeps_address_and_contents() {
        let length = 3 * HUGE_PAGE;
        let file = crate::runtime::memory::memory_tests::file(length);
        let mut range = Reservation::new(8 * HUGE_PAGE).unwrap();
        range.commit(HUGE_PAGE, length).unwrap();
        let word = |offset: usize| (range.base() + offset) as *mut u64;
        let (first, last, other) = (word(HUGE_PAGE), word(4 * HUGE_PAGE - 8), word(8 * HUGE_PAGE - 8));
        // SAFETY: the word was committed above and nothing else uses it.
        unsafe { first.write(3) };
        // SAFETY: as above.
        unsafe { last.write(4) };
        // SAFETY: nothing else knows the memory.
        unsafe { range.replace(HUGE_PAGE, length, &file) }.unwrap();
        range.map_file(5 * HUGE_PAGE, length, &file).unwrap();
        // SAFETY: a word of the second mapping.
        assert_eq!(unsafe { other.read_volatile() }, 4);
        // SAFETY: as above.
        unsafe { other.write_volatile(5) };
        // SAFETY: a word of the first mapping, as the next.
        assert_eq!(unsafe { first.read_volatile() }, 3);
        // SAFETY: as above.
        assert_eq!(unsafe { last.read_volatile() }, 5);
        let bytes = 512 * std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap());
        assert!(bytes <= 2 * HUGE_PAGE as u64, "{bytes} bytes are used, though the middle was never written");
    }

    #[test]
    fn a_sparse_array_is_zero_and_bounded() {
        let mut array = SparseArray::new(1 << 20).unwrap();
        array.set((1 << 20) - 1, 5);
        assert_eq!((array.get(0), array.get((1 << 20) - 1), array.get(1 << 20)), (Some(0), Some(5), None));
    }

    #[test]
    #[should_panic(expected = "inside it")]
    fn a_part_outside_the_range_is_refused() {
        let mut range = Reservation::new(HUGE_PAGE).unwrap();
        let _ = range.commit(HUGE_PAGE, HUGE_PAGE);
    }
}
