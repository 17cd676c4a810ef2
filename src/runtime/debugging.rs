//! Debugging modes: injected [`faults`], a [`watchdog`], unlikely orders of tasks ([`schedule`]), and [isolation](super::isolation) of memory.
//!
//! All are off by default. Which are on is one word, which a launch reads: off, they cost a relaxed load.
#![forbid(unsafe_code)]

mod fault_list;
pub mod faults;
pub mod schedule;
pub mod watchdog;

use super::config::Config;
use super::sync::{AtomicU64, Ordering};

/// One of the modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum DebugMode {
    Faults = 1,
    Watchdog = 2,
    Schedule = 4,
    /// Device memory is kept from the host, and blocks are guarded.
    Guards = 8,
    /// New blocks are filled.
    Fill = 16,
}

static ON: AtomicU64 = AtomicU64::new(0);

/// Whether any mode is on.
#[inline]
pub(super) fn is_any_on() -> bool {
    ON.load(Ordering::Relaxed) != 0
}

/// Whether a mode is on.
#[inline]
pub(super) fn is_on(mode: DebugMode) -> bool {
    ON.load(Ordering::Relaxed) & mode as u64 != 0
}

/// Turns a mode on or off.
pub(super) fn set(mode: DebugMode, on: bool) {
    if on {
        ON.fetch_or(mode as u64, Ordering::SeqCst);
    } else {
        ON.fetch_and(!(mode as u64), Ordering::SeqCst);
    }
}

/// Turns on what the environment asks for; called once, when the runtime starts.
pub(super) fn start(config: &Config) {
    if let Some(faults) = &config.faults {
        // The environment was checked when it was read.
        let _ = faults::push(faults);
    }
    if let Some(timeout) = config.timeout {
        watchdog::start(timeout);
    }
    if let Some(order) = config.schedule {
        schedule::begin(order, config.schedule_log.as_deref());
    }
}
