//! Notes of the pools for the race detector: blocks handed out and taken back, memory mapped and unmapped.
//!
//! All but [`tell`] are called under the lock of the pool.
#![forbid(unsafe_code)]

use super::Timeline;
use super::caching_pool::{Pool, Use};
use super::history::Context;
use super::observe::watches_races;
use crate::runtime::sync::OnceLock;

/// What was found in a free: tells it, with the context of the free.
pub type Race = Box<dyn FnOnce(Option<Context>)>;

/// What looks for races.
pub trait RaceDetector: Sync {
    /// A block is handed out for a stream.
    fn allocated(&self, stream: &'static dyn Timeline, address: usize, size: usize);

    /// Memory is mapped anew, or unmapped.
    fn forget(&self, address: usize, size: usize);

    /// A block is taken back.
    fn freed(&self, block: &Use, address: usize) -> Option<Race>;

    /// A block of pinned memory with these users is taken back.
    fn host_freed(&self, address: usize, size: usize, users: &[&'static dyn Timeline]) -> Option<Race>;
}

static DETECTOR: OnceLock<&'static dyn RaceDetector> = OnceLock::new();

/// Sets what looks for races; the first one stays.
pub fn set_detector(detector: &'static dyn RaceDetector) {
    let _ = DETECTOR.set(detector);
}

fn detector() -> Option<&'static dyn RaceDetector> {
    if watches_races() { DETECTOR.get().copied() } else { None }
}

/// A block is handed out for a stream.
pub fn allocated(stream: &'static dyn Timeline, address: usize, size: usize) {
    if let Some(detector) = detector() {
        detector.allocated(stream, address, size);
    }
}

/// Memory is mapped anew, or unmapped.
pub fn remapped(address: usize, size: usize) {
    if let Some(detector) = detector() {
        detector.forget(address, size);
    }
}

/// A block is taken back. Memory of private pools and memory that was sent is not freed by what its owner does alone: nothing is
/// found there.
#[cold]
pub fn freed(pool: &Pool, address: usize) -> Option<Race> {
    let detector = detector()?;
    detector.freed(&pool.use_of(address)?, address)
}

/// A block of pinned memory with these users is taken back.
pub fn host_freed(address: usize, size: usize, users: &[&'static dyn Timeline]) -> Option<Race> {
    detector()?.host_freed(address, size, users)
}

/// Tells what was found, once the lock is released.
pub fn tell(race: Race, context: Option<Context>) {
    race(context);
}
