//! Private pools: memory of graphs, or of parts of a program, reserved as long as something uses the pool.
//!
//! A private pool is a separate set of free lists in the pool of each device ([`crate::runtime::memory::caching_pool`]). Several
//! graphs and users may share one. When the last of them is dropped, its free segments are released to the system: immediately if
//! the device is idle, else with the next `empty_cache` or when memory is short. Blocks that tensors still hold stay allocated, and
//! are released in the same way when freed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::Error;
use crate::runtime::memory::lending::Traits;
use crate::runtime::sync::Mutex;

static NEXT: AtomicU64 = AtomicU64::new(1);
/// The number of users of each pool.
static USES: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

pub fn new_number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One user of a private pool, until dropped.
#[derive(Debug)]
pub struct PrivatePool(u64);

impl PrivatePool {
    /// Uses the pool of that number, which is created on demand.
    pub fn new(number: u64) -> Self {
        *USES.lock().entry(number).or_default() += 1;
        Self(number)
    }

    /// Uses the pool of that number for a graph: its memory is never lent after this.
    pub fn for_graph(number: u64) -> Self {
        let pool = Self::new(number);
        for device in super::all() {
            device.lock().stop_lending(number);
        }
        pool
    }

    /// Uses a new pool with these traits, on every device.
    pub fn with_traits(traits: Traits) -> Result<Self, Error> {
        let devices = super::make_all()?;
        let pool = Self::new(new_number());
        if traits != Traits::default() {
            for device in devices {
                device.lock().set_traits(pool.0, traits);
            }
        }
        Ok(pool)
    }

    pub fn number(&self) -> u64 {
        self.0
    }

    /// The number of users of the pool.
    pub fn use_count(&self) -> usize {
        USES.lock().get(&self.0).copied().unwrap_or_default()
    }
}

impl Drop for PrivatePool {
    fn drop(&mut self) {
        // Locked to the end, so that the next user of the number comes after the release.
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
