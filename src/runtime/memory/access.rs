//! Access to device memory by this process, for the time of a task or of an operator of the CPU fallback.
//!
//! Protection belongs to the process, not to a thread: while any task runs, every thread may touch the memory. So a touch by the host is
//! found when the device is idle, which it is after any wait.

use std::collections::BTreeMap;

use super::system::protect;
use crate::runtime::observers;
use crate::runtime::sync::Mutex;

static SEGMENTS: Mutex<Segments> = Mutex::new(Segments { users: 0, lengths: BTreeMap::new() });

struct Segments {
    /// How many hold an [`Access`].
    users: usize,
    /// Committed memory: address to length.
    lengths: BTreeMap<usize, usize>,
}

impl Segments {
    fn protect_all(&self, accessible: bool) {
        self.lengths.iter().for_each(|(&address, &length)| protect(address, length, accessible));
    }
}

/// Whether memory is kept from the host and blocks are guarded.
#[inline]
pub fn has_guards() -> bool {
    observers::has(observers::GUARDS)
}

/// The right to touch device memory, until dropped.
#[derive(Debug)]
pub struct Access(());

impl Access {
    /// Makes the memory accessible; `None` where isolation is off.
    #[inline]
    pub fn open() -> Option<Self> {
        if has_guards() { Some(Self::open_segments()) } else { None }
    }

    #[cold]
    fn open_segments() -> Self {
        let mut segments = SEGMENTS.lock();
        segments.users += 1;
        if segments.users == 1 {
            segments.protect_all(true);
        }
        Self(())
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let mut segments = SEGMENTS.lock();
        segments.users -= 1;
        if segments.users == 0 {
            segments.protect_all(false);
        }
    }
}

/// Notes memory that was just made accessible.
pub fn add(address: usize, length: usize) {
    if has_guards() {
        let mut segments = SEGMENTS.lock();
        segments.lengths.insert(address, length);
        protect(address, length, segments.users > 0);
    }
}

/// Forgets memory that is about to be given back.
pub fn remove(address: usize) {
    if has_guards() {
        SEGMENTS.lock().lengths.remove(&address);
    }
}
