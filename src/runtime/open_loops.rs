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

/// A waiting thread that helps with loops; counted until dropped.
pub struct Onlooker(());

impl Onlooker {
    /// Counts this thread.
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

/// Counts a loop as open until dropped.
pub struct Open(());

impl Open {
    /// Counts a loop.
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
