//! Private pools: memory of graphs, or of parts of a program, reserved as long as one of them uses it.
//!
//! A private pool is a separate set of free lists in the pool of each device ([`crate::runtime::memory::caching_pool`]). Several graphs and users may share one. When
//! the last of them is destroyed, the free segments go back to the system: at once where the device is idle, else with the next
//! `empty_cache` or when memory is short. Blocks that tensors still hold stay allocated, and are released in the same way after them.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::Error;
use crate::runtime::memory::lending::Traits;
use crate::runtime::sync::Mutex;

static NEXT: AtomicU64 = AtomicU64::new(1);
/// How often each pool is used.
static USES: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

/// A number that no pool has yet.
pub fn new_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A use of a private pool: it lasts until this is dropped.
#[derive(Debug)]
pub struct PrivatePool(u64);

impl PrivatePool {
    /// Uses the pool of that number, which need not exist yet.
    pub fn new(number: u64) -> Self {
        *USES.lock().entry(number).or_default() += 1;
        Self(number)
    }

    /// Uses the pool of that number for a graph: from now on its memory is never lent.
    pub fn for_graph(number: u64) -> Self {
        let pool = Self::new(number);
        for device in super::all() {
            device.stop_lending(number);
        }
        pool
    }

    /// Uses a new pool with such traits, on every device.
    ///
    /// # Errors
    /// As [`super::make_all`].
    pub fn with_traits(traits: Traits) -> Result<Self, Error> {
        let devices = super::make_all()?;
        let pool = Self::new(new_number());
        if traits != Traits::default() {
            for device in devices {
                device.set_traits(pool.0, traits);
            }
        }
        Ok(pool)
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.0
    }

    /// How often the pool is used.
    pub fn use_count(&self) -> usize {
        USES.lock().get(&self.0).copied().unwrap_or_default()
    }
}

impl Drop for PrivatePool {
    fn drop(&mut self) {
        // Locked to the end: the next user of the number comes afterwards.
        let mut uses = USES.lock();
        let count = uses.entry(self.0).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            uses.remove(&self.0);
            for pool in super::all() {
                pool.release_private(self.0);
            }
        }
    }
}
