//! Tasks that fill a range with one byte, and that check that the range is unchanged.

use crate::runtime::error::Cause;
use crate::runtime::sync::{Arc, AtomicBool, Ordering};
use crate::runtime::task::{Access, Work};

/// A range of device memory.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    pub begin: usize,
    pub end: usize,
}

impl Bytes {
    fn access(self, write: bool) -> Access {
        Access { begin: self.begin, end: self.end, write }
    }
}

/// Fills a range.
pub struct Fill {
    pub range: Bytes,
    pub value: u8,
    /// Becomes true when the range is filled; a failed stream skips the fill.
    pub done: Arc<AtomicBool>,
}

impl Work for Fill {
    fn run(&mut self) -> Result<(), Cause> {
        // SAFETY: the range is part of a block that the submitter holds, or keeps in quarantine, until the stream has passed this
        // task.
        unsafe { std::ptr::write_bytes(self.range.begin as *mut u8, self.value, self.range.end - self.range.begin) };
        self.done.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        visit(self.range.access(true));
    }
}

/// Fails if a filled range contains another byte.
pub struct Check {
    pub range: Bytes,
    pub value: u8,
    pub filled: Arc<AtomicBool>,
    /// Makes the failure's text from the offset of the first byte that differs.
    pub finding: Box<dyn Fn(usize) -> String + Send>,
}

impl Work for Check {
    fn run(&mut self) -> Result<(), Cause> {
        if !self.filled.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: as in `Fill::run`.
        let bytes = unsafe { std::slice::from_raw_parts(self.range.begin as *const u8, self.range.end - self.range.begin) };
        match bytes.iter().position(|byte| *byte != self.value) {
            None => Ok(()),
            Some(offset) => Err((self.finding)(offset).into()),
        }
    }

    fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        visit(self.range.access(false));
    }
}
