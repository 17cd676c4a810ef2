//! Device memory: its own address range, apart from the host's, backed by as many bytes as the device has.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rustdev::hardware::DeviceMemory;
use rustdev::runtime::memory::system::Reservation;

/// The address ranges of all devices.
#[derive(Debug, Default)]
pub struct Ranges(Mutex<Vec<Range<usize>>>);

impl Ranges {
    /// True if the bytes are within the memory of one device.
    pub fn contain(&self, begin: usize, end: usize) -> bool {
        let ranges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.iter().any(|range| range.start <= begin && end <= range.end)
    }
}

/// Memory of one device. A [`Reservation`] serves as the mapping; a driver would map its device's pages here.
#[derive(Debug)]
pub struct SlowMemory {
    device: usize,
    mapping: Reservation,
    /// Bytes that are backed by memory, and their limit.
    committed: usize,
    most: u64,
    ranges: Arc<Ranges>,
}

impl SlowMemory {
    /// Reserves the address range of a device.
    ///
    /// # Errors
    /// If the process may not have that much address space.
    pub fn reserve(device: usize, length: usize, most: u64, ranges: &Arc<Ranges>) -> Result<Self> {
        let mapping = Reservation::new(length)?;
        let range = mapping.base()..mapping.base() + mapping.length();
        ranges.0.lock().unwrap_or_else(PoisonError::into_inner).push(range);
        Ok(Self { device, mapping, committed: 0, most, ranges: Arc::clone(ranges) })
    }
}

impl DeviceMemory for SlowMemory {
    fn base(&self) -> usize {
        self.mapping.base()
    }

    fn length(&self) -> usize {
        self.mapping.length()
    }

    fn commit(&mut self, offset: usize, length: usize) -> Result<()> {
        if (self.committed + length) as u64 > self.most {
            let text = format!("slow device {} has {} bytes of memory", self.device, self.most);
            return Err(Error::new(ErrorKind::OutOfMemory, text));
        }
        self.mapping.commit(offset, length)?;
        self.committed += length;
        Ok(())
    }

    fn decommit(&mut self, offset: usize, length: usize) -> Result<()> {
        self.mapping.decommit(offset, length)?;
        // Memory that was mapped from a file of another process is not counted.
        self.committed = self.committed.saturating_sub(length);
        Ok(())
    }

    fn map_file(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        self.mapping.map_file(offset, length, file)
    }

    unsafe fn replace(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.mapping.replace(offset, length, file) }
    }
}

impl Drop for SlowMemory {
    fn drop(&mut self) {
        let base = self.mapping.base();
        self.ranges.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|range| range.start != base);
    }
}
