//! Observers of submissions and of memory, one bit each in one word, so that a launch without observers reads it once.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU16, Ordering};

/// Bit: tasks are marked for a trace ([`super::trace`]).
pub const TRACE: u16 = 1;
/// Bit: tasks are checked for races ([`super::sanitizer`]).
pub const RACES: u16 = 2;
/// Bit: faults are injected ([`super::debugging::faults`]).
pub const FAULTS: u16 = 4;
/// Bit: a watchdog runs ([`super::debugging::watchdog`]).
pub const WATCHDOG: u16 = 8;
/// Bit: an order of tasks is on ([`super::debugging::schedule`]).
pub const SCHEDULE: u16 = 16;
/// Bit: device memory is inaccessible to the host, and blocks are guarded ([`super::isolation`]).
pub const GUARDS: u16 = 32;
/// Bit: new blocks are filled ([`super::isolation`]).
pub const FILL: u16 = 64;
/// Bit: tasks go to installed hardware ([`super::hardware`]).
pub const HARDWARE: u16 = 128;
/// Bit: kernels do not run ([`super::debugging::dry_run`]).
pub const DRY: u16 = 256;
/// Bit: failures of tasks stay ([`super::debugging::sticky`]).
pub const STICKY: u16 = 512;
/// Bit: the clock of a profile runs ([`super::debugging::clock`]).
pub const CLOCK: u16 = 1024;
/// Bit: allocations and frees have an observer ([`super::memory::observe`]). Submissions do not ask for it.
pub const USAGE: u16 = 2048;

static WORD: AtomicU16 = AtomicU16::new(0);

/// True if submissions have any observer.
#[inline]
pub fn any() -> bool {
    has(!USAGE)
}

/// Bits: the debugging modes.
pub const DEBUGGING: u16 = FAULTS | WATCHDOG | SCHEDULE | GUARDS | FILL | DRY | STICKY;

#[inline]
pub fn is_debugging() -> bool {
    has(DEBUGGING)
}

#[inline]
pub fn is_scheduled() -> bool {
    has(SCHEDULE)
}

#[inline]
pub fn is_watched() -> bool {
    has(WATCHDOG)
}

#[inline]
pub fn is_dry() -> bool {
    has(DRY)
}

/// True if one of these bits is set.
#[inline]
pub fn has(observer: u16) -> bool {
    WORD.load(Ordering::Relaxed) & observer != 0
}

pub fn set(observer: u16, is_on: bool) {
    if is_on {
        WORD.fetch_or(observer, Ordering::SeqCst);
    } else {
        WORD.fetch_and(!observer, Ordering::SeqCst);
    }
}
