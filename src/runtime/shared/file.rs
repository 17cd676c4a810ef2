//! Files of memory without a name, their mappings, and waiting for a word in one.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use super::process::Process;
use crate::runtime::sync::Unlocked;

/// Where a file of another process is found: the process, its descriptor, and which file that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub process: Process,
    pub descriptor: u32,
    pub device: u64,
    pub inode: u64,
}

impl Place {
    /// How many words a place is.
    pub const WORDS: usize = 4;

    /// Where others find a file of this process, which keeps it open.
    pub fn of(file: &File, process: Process) -> Result<Self> {
        let facts = file.metadata()?;
        Ok(Self { process, descriptor: file.as_raw_fd() as u32, device: facts.dev(), inode: facts.ino() })
    }

    /// The place as words.
    pub fn words(&self) -> [u64; Self::WORDS] {
        [self.process.word(), u64::from(self.descriptor), self.device, self.inode]
    }

    /// The place of such words.
    pub fn of_words(words: [u64; Self::WORDS]) -> Self {
        let [process, descriptor, device, inode] = words;
        Self { process: Process::of_word(process), descriptor: descriptor as u32, device, inode }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// `NotFound` where the process has ended or closed it; others where the system refuses.
    pub fn open(&self) -> Result<File> {
        let path = PathBuf::from(format!("/proc/{}/fd/{}", self.process.id(), self.descriptor));
        let is_it = |facts: std::fs::Metadata| (facts.dev(), facts.ino()) == (self.device, self.inode);
        // Asked before, because to open something else might wait, and afterwards, because the number may be another file's by then.
        if is_it(std::fs::metadata(&path)?) {
            let file = File::options().read(true).write(true).open(path)?;
            if is_it(file.metadata()?) {
                return Ok(file);
            }
        }
        Err(ErrorKind::NotFound.into())
    }
}

/// A new file of `length` zeroed bytes, which takes memory only where it is written.
pub fn create(name: &CStr, length: usize) -> Result<File> {
    // SAFETY: the name is a string that ends with 0.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(length as u64)?;
    Ok(file)
}

/// Words of a file, shared with every process that maps it; unmapped when dropped.
#[derive(Debug)]
pub struct Words {
    base: usize,
    length: usize,
}

impl Words {
    /// Maps the first `length` bytes of a file.
    ///
    /// # Errors
    /// The file is shorter, or the system refuses.
    pub fn map(file: &File, length: usize) -> Result<Self> {
        if file.metadata()?.len() < length as u64 {
            return Err(ErrorKind::InvalidData.into());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel picks unused addresses; the file stays as long as the mapping.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED { Err(Error::last_os_error()) } else { Ok(Self { base: base as usize, length }) }
    }

    /// The word of 8 bytes at `index`, in words.
    pub fn long(&self, index: usize) -> &AtomicU64 {
        // SAFETY: `address` checked that the word is inside; it is mapped, aligned and initialised by the kernel, and every process uses it
        // as an atomic alone.
        unsafe { &*(self.address(index, size_of::<AtomicU64>()) as *const AtomicU64) }
    }

    /// The word of 4 bytes at `index`, in words.
    pub fn short(&self, index: usize) -> &AtomicU32 {
        // SAFETY: as in `long`.
        unsafe { &*(self.address(index, size_of::<AtomicU32>()) as *const AtomicU32) }
    }

    fn address(&self, index: usize, size: usize) -> usize {
        assert!(index < self.length / size, "a word lies inside its file");
        self.base + index * size
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and borrows of its words have ended.
        unsafe { libc::munmap(self.base as *mut libc::c_void, self.length) };
    }
}

/// Sleeps until a word is another than `expected` and its process says so by [`wake`], or for a time; wakes without reason at times.
pub fn sleep_while(word: &AtomicU32, expected: u32, time: Duration, _: &Unlocked) {
    let limit = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: word and time live through the call; it does not write to them.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const limit) };
}

/// Wakes all that sleep at a word, in any process.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word lives through the call, which does not write to it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_place_leads_to_the_same_memory_and_to_nothing_once_closed() {
        let file = create(c"test", 4096).unwrap();
        let place = Place::of(&file, Process::current().unwrap()).unwrap();
        assert_eq!(Place::of_words(place.words()), place);
        let (one, other) = (Words::map(&file, 4096).unwrap(), Words::map(&place.open().unwrap(), 4096).unwrap());
        one.long(511).store(7, Ordering::Relaxed);
        assert_eq!(other.long(511).load(Ordering::Relaxed), 7);
        drop(file);
        assert!(place.open().is_err());
        assert_eq!(other.short(1022).load(Ordering::Relaxed), 7, "mappings outlive the file's descriptor");
    }

    #[test]
    fn a_file_that_is_too_short_is_not_mapped() {
        assert!(Words::map(&create(c"test", 4096).unwrap(), 8192).is_err());
    }
}
