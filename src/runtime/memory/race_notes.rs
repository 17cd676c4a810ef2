//! Notifications from the pools to the race detector: blocks allocated and freed, memory mapped and unmapped.
//!
//! The detector is called under the lock of the pool; a [`Race`] is reported after the lock is released.
#![forbid(unsafe_code)]

use super::Timeline;
use super::caching_pool::Use;
use super::history::Context;
use crate::runtime::observers::{self, RACES};
use crate::runtime::sync::OnceLock;

/// Reports a race found in a free, with the context of the free.
pub type Race = Box<dyn FnOnce(Option<Context>)>;

/// The race detector's interface for the pools.
pub trait RaceDetector: Sync {
    /// A block was allocated for a stream.
    fn allocated(&self, stream: &'static dyn Timeline, address: usize, size: usize);

    /// Memory was mapped or unmapped.
    fn forget(&self, address: usize, size: usize);

    /// A block is being freed; returns a race.
    fn freed(&self, block: &Use, address: usize) -> Option<Race>;

    /// A block of pinned memory with these users is being freed; returns a race.
    fn host_freed(&self, address: usize, size: usize, users: &[&'static dyn Timeline]) -> Option<Race>;
}

pub static DETECTOR: OnceLock<&'static dyn RaceDetector> = OnceLock::new();

pub fn detector() -> Option<&'static dyn RaceDetector> {
    if observers::has(RACES) { DETECTOR.get().copied() } else { None }
}

/// Notes that memory was mapped or unmapped.
pub fn remapped(address: usize, size: usize) {
    if let Some(detector) = detector() {
        detector.forget(address, size);
    }
}
