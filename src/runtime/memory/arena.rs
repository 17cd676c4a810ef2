//! Arena: one device's address range, its segments, and a map from addresses to the blocks that start there.
//!
//! The range is a few times as large as the device's budget, so that placing a segment never fails for fragmentation while the
//! budget has room. Free parts are ordered by address and allocated first-fit. Segments are few, so the search is negligible beside
//! the system call.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};

use super::block::{BlockId, NONE};
use super::device_memory::DeviceMemory;
use super::free_list::UNIT;
use super::system::{HUGE_PAGE, Reservation, Words};
use crate::runtime::sync::Ordering;

/// The size of the range as a multiple of the budget, if the address space allows.
const GENEROSITY: usize = 4;
/// The largest range, unless the budget is larger: 64 devices fit into 47 bits of addresses.
const LARGEST: usize = 1 << 40;

/// A function that reserves an address range of that length for a device.
pub type Reserve<'a> = &'a dyn Fn(usize) -> Result<Box<dyn DeviceMemory>>;

/// Reserves a range for host memory. Fails if the process may not have that much address space.
pub fn reserve(length: usize) -> Result<Box<dyn DeviceMemory>> {
    Ok(Box::new(Reservation::new(length)?))
}

/// True if the address space has room for this many devices of that budget.
pub fn can_reserve(budget: u64, devices: usize) -> bool {
    let Some(budget) = usize::try_from(budget).ok().filter(|budget| isize::try_from(*budget).is_ok()) else { return false };
    // Collected, so that all ranges are held at the same time.
    (0..devices).map(|_| Arena::new(budget, &reserve)).collect::<Result<Vec<_>>>().is_ok()
}

/// A device's address range with its segments.
#[derive(Debug)]
pub struct Arena {
    range: Box<dyn DeviceMemory>,
    /// The first address of the range, and its length.
    base: usize,
    length: usize,
    /// Free parts: offset to length.
    free: BTreeMap<usize, usize>,
    /// For each unit of the range, the id of the block that starts there. Entries of removed blocks stay until overwritten.
    starts: Words,
}

impl Arena {
    /// Reserves a range for `budget` bytes, smaller than usual if the address space is limited.
    pub fn new(budget: usize, reserve: Reserve<'_>) -> Result<Self> {
        let least = budget.max(HUGE_PAGE).next_multiple_of(HUGE_PAGE);
        let mut length = least.max(least.saturating_mul(GENEROSITY).min(LARGEST));
        loop {
            match Self::with_length(length, reserve) {
                Ok(arena) => return Ok(arena),
                Err(error) if length == least => return Err(error),
                Err(_) => length = least.max((length / 2).next_multiple_of(HUGE_PAGE)),
            }
        }
    }

    fn with_length(length: usize, reserve: Reserve<'_>) -> Result<Self> {
        let range = reserve(length)?;
        let (base, starts) = (range.base(), Words::zeros(length / UNIT * size_of::<BlockId>())?);
        Ok(Self { range, base, length, free: BTreeMap::from([(0, length)]), starts })
    }

    /// The first address and the length of the range.
    pub fn bounds(&self) -> (usize, usize) {
        (self.base, self.length)
    }

    /// Commits `size` bytes, a multiple of the huge page, and returns their address. Fails if the range has no free part of that
    /// size, or the machine refuses the memory.
    pub fn commit(&mut self, size: usize) -> Result<usize> {
        self.place(size, |range, offset, size| range.commit(offset, size))
    }

    /// Maps the first `size` bytes of a file, a multiple of the huge page, and returns their address.
    pub fn map_file(&mut self, size: usize, file: &File) -> Result<usize> {
        self.place(size, |range, offset, size| range.map_file(offset, size, file))
    }

    /// Replaces a segment's memory by an empty file. Fails if the system refuses; nothing has changed then.
    ///
    /// # Safety
    /// Nothing writes to the segment meanwhile.
    pub unsafe fn replace(&mut self, address: usize, size: usize, file: &File) -> Result<()> {
        let offset = address - self.base;
        // SAFETY: the caller's promise.
        unsafe { self.range.replace(offset, size, file) }
    }

    fn place(&mut self, size: usize, put: impl FnOnce(&mut dyn DeviceMemory, usize, usize) -> Result<()>) -> Result<usize> {
        debug_assert!(size > 0 && size.is_multiple_of(HUGE_PAGE));
        let part = self.free.iter().find(|&(_, &length)| length >= size).map(|(&offset, &length)| (offset, length));
        let (offset, length) = part.ok_or_else(|| Error::from(ErrorKind::OutOfMemory))?;
        put(&mut *self.range, offset, size)?;
        self.free.remove(&offset);
        if length > size {
            self.free.insert(offset + size, length - size);
        }
        Ok(self.base + offset)
    }

    /// Releases the memory of a segment, or a mapped file, and makes its addresses free. Fails if the system refuses (too many
    /// mappings); the segment stays committed.
    pub fn decommit(&mut self, address: usize, size: usize) -> Result<()> {
        let mut offset = address - self.base;
        self.range.decommit(offset, size)?;
        let mut length = size + self.free.remove(&(offset + size)).unwrap_or(0);
        let before = self.free.range(..offset).next_back().map(|(&start, &length)| (start, length));
        if let Some((start, before)) = before.filter(|&(start, before)| start + before == offset) {
            self.free.remove(&start);
            offset = start;
            length += before;
        }
        self.free.insert(offset, length);
        Ok(())
    }

    /// Notes that a block starts at `address`, which is in the range.
    #[inline]
    pub fn set_start(&mut self, address: usize, id: BlockId) {
        self.starts.short((address - self.base) / UNIT).store(id, Ordering::Relaxed);
    }

    /// The block last noted to start at `address`; [`NONE`] if there is none. The entry may be stale, so the caller must compare
    /// the block's address.
    #[inline]
    pub fn start(&self, address: usize) -> BlockId {
        let offset = address.wrapping_sub(self.base);
        if offset >= self.length {
            return NONE;
        }
        self.starts.short(offset / UNIT).load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_parts_merge_and_are_used_again() {
        let mut arena = Arena::new(8 * HUGE_PAGE, &reserve).unwrap();
        let (base, length) = arena.bounds();
        assert_eq!(length, GENEROSITY * 8 * HUGE_PAGE);
        let parts = [1, 2, 1].map(|pages| (arena.commit(pages * HUGE_PAGE).unwrap(), pages * HUGE_PAGE));
        for index in [0, 2, 1] {
            arena.decommit(parts[index].0, parts[index].1).unwrap();
        }
        assert_eq!(arena.free, BTreeMap::from([(0, length)]));
        assert_eq!(arena.commit(length).unwrap(), base);
        assert!(arena.commit(HUGE_PAGE).is_err());
    }

    #[test]
    fn starts_are_found_by_address_only_where_noted() {
        let mut arena = Arena::new(HUGE_PAGE, &reserve).unwrap();
        let base = arena.bounds().0;
        arena.set_start(base + 512, 3);
        assert_eq!((arena.start(base + 512), arena.start(base), arena.start(base - 512), arena.start(0)), (3, NONE, NONE, NONE));
    }
}
