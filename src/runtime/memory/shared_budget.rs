//! A memory budget that several pools share: each may reserve what the others leave.

#![forbid(unsafe_code)]

use crate::runtime::observers;
use crate::runtime::sync::{AtomicUsize, Ordering};

#[derive(Debug)]
pub struct SharedBudget {
    total: usize,
    reserved: AtomicUsize,
}

impl SharedBudget {
    /// A budget of which nothing is reserved.
    pub fn new(total: usize) -> Self {
        Self { total, reserved: AtomicUsize::new(0) }
    }

    /// Reserves bytes; `false` if the budget has fewer left, which in a dry run does not matter.
    pub fn take(&self, bytes: usize) -> bool {
        let add = |reserved: usize| reserved.checked_add(bytes).filter(|sum| *sum <= self.total || observers::is_dry());
        self.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    pub fn give_back(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The bytes that no pool has reserved.
    pub fn free(&self) -> usize {
        self.total.saturating_sub(self.reserved.load(Ordering::Relaxed))
    }
}
