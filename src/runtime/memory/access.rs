//! Access of this process to device memory, for the duration of a task or of a CPU fallback.
//!
//! Protection applies to the process, not to a thread: while any task runs, every thread may access the memory. An access by the
//! host is therefore detected only while the device is idle, which it is after any wait.

use std::collections::BTreeMap;

use super::system::protect;
use crate::runtime::observers;
use crate::runtime::sync::{LazyLock, Mutex};

static SEGMENTS: LazyLock<Mutex<Segments>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Segments {
    /// The number of live [`Access`] values.
    users: usize,
    /// Committed memory: address to length.
    lengths: BTreeMap<usize, usize>,
}

impl Segments {
    fn protect_all(&self, accessible: bool) {
        self.lengths.iter().for_each(|(&address, &length)| protect(address, length, accessible));
    }
}

/// True if memory is protected from the host and blocks are guarded.
#[inline]
pub fn has_guards() -> bool {
    observers::has(observers::GUARDS)
}

/// The right to access device memory, until dropped.
#[derive(Debug)]
pub struct Access(());

impl Access {
    /// Makes the memory accessible; `None` if isolation is off.
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

/// Forgets memory that is about to be released.
pub fn remove(address: usize) {
    if has_guards() {
        SEGMENTS.lock().lengths.remove(&address);
    }
}
