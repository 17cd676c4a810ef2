//! Latch: opens once, and then returns all values that waited for it.
#![forbid(unsafe_code)]

use std::mem::take;

use super::sync::{AtomicBool, Mutex, Ordering};

/// The latch; `W` is the type of waiters.
#[derive(Debug)]
pub struct Latch<W> {
    open: AtomicBool,
    waiting: Mutex<Vec<W>>,
}

impl<W> Default for Latch<W> {
    fn default() -> Self {
        Self { open: AtomicBool::new(false), waiting: Mutex::new(Vec::new()) }
    }
}

impl<W> Latch<W> {
    /// True if it is open. Acquire: pairs with the store in [`Latch::open`].
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Stores `waiter` until the latch opens. Fails with the value if the latch is open.
    pub fn wait(&self, waiter: W) -> Result<(), W> {
        let mut waiting = self.waiting.lock();
        if self.is_open() {
            return Err(waiter);
        }
        waiting.push(waiter);
        Ok(())
    }

    pub fn open(&self) -> Vec<W> {
        let mut waiting = self.waiting.lock();
        // Under the lock, so that a waiter is either in the list already or sees the latch open.
        self.open.store(true, Ordering::Release);
        take(&mut waiting)
    }
}
