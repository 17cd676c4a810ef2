//! Latch: opens once, and then returns all values that were waiting for it.
#![forbid(unsafe_code)]

use std::mem::take;

use super::sync::{AtomicBool, Mutex, Ordering};

/// The gate; `W` is what waits.
#[derive(Debug)]
pub struct Latch<W> {
    open: AtomicBool,
    waiting: Mutex<Vec<W>>,
}

impl<W> Default for Latch<W> {
    /// A closed gate.
    fn default() -> Self {
        Self { open: AtomicBool::new(false), waiting: Mutex::new(Vec::new()) }
    }
}

impl<W> Latch<W> {
    /// Whether it is open. Acquire: pairs with the store in [`Latch::open`].
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Leaves `waiter` here until the gate opens.
    ///
    /// # Errors
    /// Returns the value if the latch is open.
    pub fn wait(&self, waiter: W) -> Result<(), W> {
        let mut waiting = self.waiting.lock();
        if self.is_open() {
            return Err(waiter);
        }
        waiting.push(waiter);
        Ok(())
    }

    /// Opens the gate and returns what waited.
    pub fn open(&self) -> Vec<W> {
        let mut waiting = self.waiting.lock();
        // Under the lock, so that a waiter is either in the list now or sees the gate open.
        self.open.store(true, Ordering::Release);
        take(&mut waiting)
    }
}
