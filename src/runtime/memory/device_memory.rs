//! [`DeviceMemory`]: the memory of one device, as the pool asks for it.

use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};

/// The address range of one device, and the memory behind parts of it.
///
/// The pool ([`super::caching_pool`]) asks for it once for each device and keeps it to the end of the process. It commits **segments** and
/// cuts blocks from them by itself: one call here for many allocations. It calls with its lock held, from any thread, one call at a time, and
/// for a part that is committed never `commit` again before `decommit`. No call may wait for a stream.
///
/// An address of the range is what a tensor's `data_ptr()` is, and what tasks name. The processor's kernels
/// ([`HardwareTask::run`](crate::runtime::hardware::HardwareTask::run)), `item()` and operators of the CPU fallback read and write through
/// it as through any pointer, from `commit` to `decommit`, so committed memory is mapped into the process.
pub trait DeviceMemory: fmt::Debug + Send {
    /// The first address: a multiple of [`HUGE_PAGE`](super::system::HUGE_PAGE), the same at each call.
    fn base(&self) -> usize;

    /// The length in bytes: what was asked for, the same at each call. No other mapping of the process lies in it.
    fn length(&self) -> usize;

    /// Puts memory behind a part of the range: `length` bytes from `offset` bytes behind the base, both multiples of
    /// [`HUGE_PAGE`](super::system::HUGE_PAGE). What it holds does not matter.
    ///
    /// # Errors
    /// There is not so much: the allocation gives cached segments back and tries again, and then fails as out of memory.
    fn commit(&mut self, offset: usize, length: usize) -> Result<()>;

    /// Takes the memory behind a part away that was committed or mapped as a whole. No task uses it any more; its contents may be lost.
    ///
    /// # Errors
    /// It cannot be taken away now: the segment stays committed and cached.
    fn decommit(&mut self, offset: usize, length: usize) -> Result<()>;

    /// Puts the first `length` bytes of a file behind a part of the range: a tensor that another process has sent.
    ///
    /// # Errors
    /// `Unsupported` unless the memory can be a file's; the process that receives the tensor gets the error.
    fn map_file(&mut self, offset: usize, length: usize, file: &File) -> Result<()> {
        let _ = (offset, length, file);
        Err(no_files())
    }

    /// Puts an empty file of `length` bytes in the place of the memory behind a committed part, with its contents: the first tensor in it is
    /// sent to another process.
    ///
    /// # Errors
    /// `Unsupported` unless the memory can be a file's; the process that sends gets the error. Nothing has changed then.
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
