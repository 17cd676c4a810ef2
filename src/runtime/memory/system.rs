//! System calls of the pools: reserving address ranges, committing and releasing physical memory.
//!
//! A [`Reservation`] is a private anonymous mapping without access rights, which costs only address space. Committing a part maps
//! fresh readable and writable memory over it, with the system's ordinary accounting: if the machine refuses to promise that much,
//! the call fails, as `malloc` would. Releasing a part maps inaccessible memory over it again, which frees its pages immediately
//! and makes any later access through a stale pointer fault. A part can be backed by a file instead, which other processes may map,
//! too; this can also replace memory that is in use.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, AtomicU64};

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
        access::add(start, length);
        Ok(())
    }

    /// Maps the first `length` bytes of a file to a part of the range, in huge pages if the system grants them for files.
    fn map_file(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        let start = self.part(offset, length);
        map_file(start, length, libc::MAP_FIXED, file)?;
        advise_huge_pages(start, length);
        access::add(start, length);
        Ok(())
    }

    /// Replaces the memory of a committed part by an empty file of `length` bytes and keeps the contents. Zero pages, such as those
    /// never used, take no memory in the file.
    ///
    /// # Safety
    /// Nothing writes to the part meanwhile.
    unsafe fn replace(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        let start = self.part(offset, length);
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
fn map_file(start: usize, length: usize, flags: libc::c_int, file: &File) -> Result<usize> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_SHARED);
    // SAFETY: as in `map`.
    let start = unsafe { libc::mmap(start as *mut libc::c_void, length, access, flags, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(start as usize) }
}

/// Sets whether committed memory is accessible. If the system refuses (too many mappings), nothing changes.
pub fn protect(start: usize, length: usize, accessible: bool) {
    let rights = if accessible { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: the range is committed memory of a reservation. An access while it is inaccessible faults, which is intended.
    unsafe { libc::mprotect(start as *mut libc::c_void, length, rights) };
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

/// A mapping as words, which are accessed only atomically; unmapped when dropped.
#[derive(Debug)]
pub struct Words {
    base: usize,
    length: usize,
}

impl Words {
    /// Words of `length` zero bytes, whose pages take memory only once they are written.
    pub fn zeros(length: usize) -> Result<Self> {
        Ok(Self { base: map(0, length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_NORESERVE)?, length })
    }

    /// Maps the first `length` bytes of a file, shared with every process that maps it. Fails if the file is shorter, or the system
    /// refuses.
    pub fn map(file: &File, length: usize) -> Result<Self> {
        if file.metadata()?.len() < length as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(Self { base: map_file(0, length, 0, file)?, length })
    }

    /// The 8-byte word at `index`, counted in words.
    pub fn long(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `address` checked that the word is inside; it is mapped, aligned and initialised by the kernel, and every process
        // accesses it only atomically.
        unsafe { &*(self.address(index, size_of::<AtomicU64>()) as *const AtomicU64) }
    }

    /// The 4-byte word at `index`, counted in words.
    #[inline]
    pub fn short(&self, index: usize) -> &AtomicU32 {
        // SAFETY: as in `long`.
        unsafe { &*(self.address(index, size_of::<AtomicU32>()) as *const AtomicU32) }
    }

    #[inline]
    fn address(&self, index: usize, size: usize) -> usize {
        assert!(index < self.length / size, "a word lies inside its mapping");
        self.base + index * size
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        unmap(self.base, self.length);
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
    #[should_panic(expected = "inside it")]
    fn a_part_outside_the_range_is_refused() {
        let mut range = Reservation::new(HUGE_PAGE).unwrap();
        let _ = range.commit(HUGE_PAGE, HUGE_PAGE);
    }
}
