//! Open loops: the parallel loops that run now, for threads that have nothing else to do to help with.
#![forbid(unsafe_code)]

use std::cell::Cell;

use super::affinity;
use super::slot::{Claim, Slot};
use super::sync::{AtomicUsize, Ordering};

static SLOTS: [Slot; 8] = [const { Slot::new() }; 8];
/// Loops that are open to helpers.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Threads that wait for others and help with loops meanwhile, searching drainers not counted.
static ONLOOKERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IN_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a chunk of a loop.
#[inline]
pub fn is_inside() -> bool {
    IN_LOOP.get()
}

/// Whether some loop is open to helpers.
#[inline]
pub fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed) > 0
}

/// Whether threads that wait look on.
pub fn has_onlookers() -> bool {
    ONLOOKERS.load(Ordering::Relaxed) > 0
}

/// Helps with the loops that are open now; returns whether it ran a chunk.
pub fn help() -> bool {
    if IN_LOOP.get() {
        return false;
    }
    let _loop = InLoop::enter();
    SLOTS.iter().filter(|slot| slot.help(affinity::share)).count() > 0
}

/// A slot for a loop of this thread, if one is free.
pub fn claim() -> Option<Claim<'static>> {
    SLOTS.iter().find_map(Slot::claim)
}

/// Counts this thread as one that waits for others and helps with loops meanwhile, until dropped.
pub struct Onlooker(());

impl Onlooker {
    /// Begins to look on.
    pub fn enter() -> Self {
        ONLOOKERS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        ONLOOKERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Marks this thread as inside a loop until dropped.
pub struct InLoop(());

impl InLoop {
    /// Goes inside.
    pub fn enter() -> Self {
        IN_LOOP.set(true);
        Self(())
    }
}

impl Drop for InLoop {
    fn drop(&mut self) {
        IN_LOOP.set(false);
    }
}

/// Counts a loop as open until dropped.
pub struct Open(());

impl Open {
    /// Opens it to helpers.
    pub fn new() -> Self {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}
