//! Observers of the pools: the profiler and the race detector are notified of each allocation and free, out-of-memory observers of
//! failed requests.

#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::runtime::observers;
use crate::runtime::sync::{PoisonError, RwLock};

/// One allocation (`bytes` positive) or free (`bytes` negative), and the totals after it.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub address: usize,
    pub bytes: i64,
    pub allocated: u64,
    pub reserved: u64,
    pub device: usize,
}

/// A request that could not be served. All sizes are bytes.
#[derive(Clone, Copy, Debug)]
pub struct Shortage {
    pub device: usize,
    pub asked: usize,
    /// The device's budget.
    pub total: usize,
    /// The bytes of the budget that are not reserved.
    pub free: usize,
    pub allocated: usize,
    pub reserved: usize,
}

/// Called for each allocation and free.
pub type UsageObserver = fn(&Usage);
/// Called for each out-of-memory error before it is raised.
pub type ShortageObserver = Arc<dyn Fn(&Shortage) + Send + Sync>;

static USAGE: RwLock<Option<UsageObserver>> = RwLock::new(None);
static SHORTAGE: RwLock<Vec<ShortageObserver>> = RwLock::new(Vec::new());

pub fn set_usage_observer(observer: Option<UsageObserver>) {
    *USAGE.write().unwrap_or_else(PoisonError::into_inner) = observer;
    observers::set(observers::USAGE, observer.is_some());
}

/// Notifies observers of an allocation or free.
pub fn report(usage: &Usage) {
    let observer = *USAGE.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(observer) = observer {
        observer(usage);
    }
}

pub fn attach_shortage_observer(observer: ShortageObserver) {
    SHORTAGE.write().unwrap_or_else(PoisonError::into_inner).push(observer);
}

pub fn out_of_memory(shortage: &Shortage) {
    let observers = SHORTAGE.read().unwrap_or_else(PoisonError::into_inner).clone();
    for observer in observers {
        observer(shortage);
    }
}
