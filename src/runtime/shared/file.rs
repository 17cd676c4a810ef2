//! Anonymous memory files (`memfd`), and futex waits on their words.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::process::Process;
use crate::runtime::sync::Unlocked;

/// The address of a file for other processes: the process, its descriptor, and the device and inode that identify the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub process: Process,
    pub descriptor: u32,
    pub device: u64,
    pub inode: u64,
}

impl Place {
    /// The length of a place in words.
    pub const WORDS: usize = 4;

    /// The place of a file of this process, which must keep it open.
    pub fn of(file: &File, process: Process) -> Result<Self> {
        let facts = file.metadata()?;
        Ok(Self { process, descriptor: file.as_raw_fd() as u32, device: facts.dev(), inode: facts.ino() })
    }

    pub fn words(&self) -> [u64; Self::WORDS] {
        [self.process.word(), u64::from(self.descriptor), self.device, self.inode]
    }

    pub fn of_words(words: [u64; Self::WORDS]) -> Self {
        let [process, descriptor, device, inode] = words;
        Self { process: Process::of_word(process), descriptor: descriptor as u32, device, inode }
    }

    /// Opens the file. Fails with `NotFound` if the process has ended or closed the file; other kinds if the system refuses.
    pub fn open(&self) -> Result<File> {
        let path = PathBuf::from(format!("/proc/{}/fd/{}", self.process.id, self.descriptor));
        let is_it = |facts: std::fs::Metadata| (facts.dev(), facts.ino()) == (self.device, self.inode);
        // Checked before opening, because opening another kind of file might block, and again afterwards, because the descriptor
        // may have been reused meanwhile.
        if is_it(std::fs::metadata(&path)?) {
            let file = File::options().read(true).write(true).open(path)?;
            if is_it(file.metadata()?) {
                return Ok(file);
            }
        }
        Err(ErrorKind::NotFound.into())
    }
}

/// Creates a file of `length` zero bytes; a page takes memory only when it is written.
pub fn create(name: &CStr, length: usize) -> Result<File> {
    // SAFETY: the name is NUL-terminated.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(length as u64)?;
    Ok(file)
}

/// Sleeps while a word equals `expected`, until [`wake`] or the timeout; wakes spuriously.
pub fn sleep_while(word: &AtomicU32, expected: u32, time: Duration, _: &Unlocked) {
    let limit = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: the word and the time are valid during the call, which does not write to them.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const limit) };
}

/// Wakes all sleepers on a word, in any process.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word is valid during the call, which does not write to it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::memory::system::Words;

    #[test]
    fn a_file_that_is_too_short_is_not_mapped() {
        assert!(Words::map(&create(c"test", 4096).unwrap(), 8192).is_err());
    }
}
