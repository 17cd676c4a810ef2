//! A gate that opens once and then gives back everything that was left to wait at it.
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
    /// Gives it back if the gate is open.
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
