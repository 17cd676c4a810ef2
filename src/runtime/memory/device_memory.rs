//! [`DeviceMemory`]: the memory of one device, as the pool uses it.

use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};

/// The address range of one device, and the memory committed to parts of it.
///
/// The pool ([`super::caching_pool`]) obtains one for each device and keeps it to the end of the process. It commits **segments**
/// and divides them into blocks itself, so one call here serves many allocations. Calls are made with the pool's lock held, from
/// any thread, one at a time; a committed part is never committed again before `decommit`. No call may wait for a stream.
///
/// Addresses in the range are what a tensor's `data_ptr()` returns and what tasks refer to. The processor's kernels
/// ([`HardwareTask::run`](crate::runtime::hardware::HardwareTask::run)), `item()` and the CPU fallback dereference them from
/// `commit` to `decommit`, so committed memory must be mapped into the process.
pub trait DeviceMemory: fmt::Debug + Send {
    /// The first address: a multiple of [`HUGE_PAGE`](super::system::HUGE_PAGE), the same at each call.
    fn base(&self) -> usize;

    /// The length in bytes as requested, the same at each call. No other mapping of the process overlaps the range.
    fn length(&self) -> usize;

    /// Commits memory to a part of the range: `length` bytes at `offset` from the base, both multiples of
    /// [`HUGE_PAGE`](super::system::HUGE_PAGE). The contents are arbitrary. Fails for lack of memory: the allocation releases
    /// cached segments and tries again, and then fails as out of memory.
    fn commit(&mut self, offset: usize, length: usize) -> Result<()>;

    /// Releases the memory of a part that was committed or mapped as a whole. No task uses it any more; its contents may be lost.
    /// Fails if it cannot be released now; the segment stays committed and cached.
    fn decommit(&mut self, offset: usize, length: usize) -> Result<()>;

    /// Maps the first `length` bytes of a file to a part of the range; used for a tensor that another process has sent. Fails with
    /// `Unsupported` unless the memory can be backed by a file; the process that receives the tensor gets the error.
    fn map_file(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        let _ = (offset, length, file);
        Err(no_files())
    }

    /// Replaces the memory of a committed part by an empty file of `length` bytes and keeps the contents; used when a tensor in it
    /// is first sent to another process. Fails with `Unsupported` unless the memory can be backed by a file; the sending process
    /// gets the error. Nothing has changed then.
    ///
    /// # Safety
    /// Nothing writes to the part meanwhile.
    unsafe fn replace(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        let _ = (offset, length, file);
        Err(no_files())
    }
}

fn no_files() -> Error {
    Error::new(ErrorKind::Unsupported, "the memory of this device cannot be shared with other processes")
}
