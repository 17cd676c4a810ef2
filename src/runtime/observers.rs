//! Observers of submissions, one bit each in one word, so that a launch without observers reads it once.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

/// Bit: tasks are marked for a trace ([`super::trace`]).
pub const TRACE: u8 = 1;
/// Bit: tasks are checked for races ([`super::sanitizer`]).
pub const RACES: u8 = 2;
/// Bit: faults are injected ([`super::debugging::faults`]).
pub const FAULTS: u8 = 4;
/// Bit: a watchdog runs ([`super::debugging::watchdog`]).
pub const WATCHDOG: u8 = 8;
/// Bit: an order of tasks is on ([`super::debugging::schedule`]).
pub const SCHEDULE: u8 = 16;
/// Bit: device memory is inaccessible to the host, and blocks are guarded ([`super::isolation`]).
pub const GUARDS: u8 = 32;
/// Bit: new blocks are filled ([`super::isolation`]).
pub const FILL: u8 = 64;
/// Bit: tasks go to installed hardware ([`super::hardware`]).
pub const HARDWARE: u8 = 128;

static WORD: AtomicU8 = AtomicU8::new(0);

/// True if any bit is set.
#[inline]
pub fn any() -> bool {
    WORD.load(Ordering::Relaxed) != 0
}

/// Bits: the debugging modes.
pub const DEBUGGING: u8 = FAULTS | WATCHDOG | SCHEDULE | GUARDS | FILL;

/// True if a debugging mode is on.
#[inline]
pub fn is_debugging() -> bool {
    has(DEBUGGING)
}

/// True if an order of tasks is on.
#[inline]
pub fn is_scheduled() -> bool {
    has(SCHEDULE)
}

/// True if the watchdog runs.
#[inline]
pub fn is_watched() -> bool {
    has(WATCHDOG)
}

/// True if one of these bits is set.
#[inline]
pub fn has(observer: u8) -> bool {
    WORD.load(Ordering::Relaxed) & observer != 0
}

/// Sets or clears a bit.
pub fn set(observer: u8, is_on: bool) {
    if is_on {
        WORD.fetch_or(observer, Ordering::SeqCst);
    } else {
        WORD.fetch_and(!observer, Ordering::SeqCst);
    }
}
