//! Tests of the pools against streams that are mere counters.

mod invariants;
#[cfg(loom)]
mod loom_pool;
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod policy;

use std::any::Any;

use super::Timeline;
use super::caching_pool::Settings;
use crate::runtime::sync::{AtomicU64, Ordering};

/// Keeps a value to the end of the process, in reach of the leak checker.
fn leak<T: Any + Sync>(value: T) -> &'static T {
    static KEPT: std::sync::Mutex<Vec<&'static (dyn Any + Sync)>> = std::sync::Mutex::new(Vec::new());
    let kept = Box::leak(Box::new(value));
    KEPT.lock().unwrap().push(kept);
    kept
}

/// An empty file of memory.
#[cfg(not(loom))]
pub fn file(length: usize) -> std::fs::File {
    crate::runtime::shared::file::create(c"test", length).unwrap()
}

/// A stream whose tasks are submitted and completed by hand.
#[derive(Debug, Default)]
pub struct Counter {
    id: i64,
    submitted: AtomicU64,
    completed: AtomicU64,
}

impl Counter {
    /// A stream of device 0.
    pub fn leak(id: i64) -> &'static Self {
        leak(Self { id, ..Self::default() })
    }

    pub fn submit(&self) {
        self.submitted.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends the oldest task, if there is one.
    pub fn complete(&self) {
        if self.completed() < self.submitted() {
            self.completed.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Timeline for Counter {
    fn device(&self) -> usize {
        0
    }

    fn id(&self) -> i64 {
        self.id
    }

    fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    fn finish(&'static self) {
        self.completed.fetch_max(self.submitted(), Ordering::AcqRel);
    }
}

const MIB: usize = 1 << 20;

/// Settings without limits other than the budget.
fn budget(bytes: usize) -> Settings {
    Settings { budget: bytes, fraction: 1.0, max_split_size: usize::MAX, garbage_collection_threshold: 0.0 }
}
