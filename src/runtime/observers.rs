//! Observers of submissions, one bit each of one word: a launch that nobody observes reads it once. The debugging modes have bits of
//! their own ([`super::debugging`]).
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

/// Tasks are marked for a trace ([`super::trace`]).
pub const TRACE: u8 = 1;
/// Tasks are checked for races ([`super::sanitizer`]).
pub const RACES: u8 = 2;

/// Device memory is kept from the host, and blocks are guarded ([`super::isolation`]).
pub const GUARDS: u8 = 32;

/// Hardware was installed, which gets the tasks ([`super::hardware`]).
pub const HARDWARE: u8 = 128;

static WORD: AtomicU8 = AtomicU8::new(0);

/// Whether anything observes.
#[inline]
pub fn any() -> bool {
    WORD.load(Ordering::Relaxed) != 0
}

/// Whether that one observes.
#[inline]
pub fn has(observer: u8) -> bool {
    WORD.load(Ordering::Relaxed) & observer != 0
}

/// Lets it observe from now on, or no more.
pub fn set(observer: u8, is_on: bool) {
    if is_on {
        WORD.fetch_or(observer, Ordering::SeqCst);
    } else {
        WORD.fetch_and(!observer, Ordering::SeqCst);
    }
}
