//! Open loops: the running parallel loops that idle threads can help with.
#![forbid(unsafe_code)]

use std::cell::Cell;

use super::affinity;
use super::slot::{Claim, Slot};
use super::sync::{AtomicUsize, Ordering};

static SLOTS: [Slot; 8] = [const { Slot::new() }; 8];
/// The number of loops that are open to helpers.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// The number of waiting threads that help with loops meanwhile, except searching drainers.
static ONLOOKERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IN_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// True if this thread runs a chunk of a loop.
#[inline]
pub fn is_inside() -> bool {
    IN_LOOP.get()
}

/// True if a loop is open to helpers.
#[inline]
pub fn is_open() -> bool {
    OPEN.load(Ordering::Relaxed) > 0
}

/// True if a waiting thread helps with loops.
pub fn has_onlookers() -> bool {
    ONLOOKERS.load(Ordering::Relaxed) > 0
}

/// Helps with the open loops; returns true if it ran a chunk.
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

/// One in a count, until dropped.
pub struct Counted(&'static AtomicUsize);

impl Counted {
    pub fn new(count: &'static AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts this thread as one that waits and helps with loops meanwhile.
pub fn look_on() -> Counted {
    Counted::new(&ONLOOKERS)
}

pub fn open() -> Counted {
    Counted::new(&OPEN)
}

/// Marks this thread as inside a loop until dropped.
pub struct InLoop(());

impl InLoop {
    /// Marks this thread.
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
