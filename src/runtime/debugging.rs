//! Debugging modes: injected [`faults`], a [`watchdog`], adversarial task orders ([`schedule`]), and [isolation](super::isolation)
//! of memory.
//!
//! All are off by default. The active modes are bits in the word of the [`observers`], which a launch reads.
#![forbid(unsafe_code)]

pub mod faults;
pub mod schedule;
pub mod watchdog;

use super::config::Config;
use super::{isolation, observers};

/// A debugging mode; its value is its bit among the observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum DebugMode {
    Faults = 4,
    Watchdog = 8,
    Schedule = 16,
    /// Device memory is inaccessible to the host, and blocks are guarded.
    Guards = observers::GUARDS,
    /// New blocks are filled.
    Fill = 64,
}

const ANY: u8 = !(observers::TRACE | observers::RACES | observers::HARDWARE);

/// True if a mode is on.
#[inline]
pub(super) fn is_any_on() -> bool {
    observers::has(ANY)
}

/// True if this mode is on.
#[inline]
pub(super) fn is_on(mode: DebugMode) -> bool {
    observers::has(mode as u8)
}

/// Turns a mode on or off.
pub(super) fn set(mode: DebugMode, on: bool) {
    observers::set(mode as u8, on);
}

/// Turns on the modes that the environment asks for; called once, when the runtime starts.
pub(super) fn start(config: &Config) {
    isolation::start(config);
    if let Some(faults) = &config.faults {
        // The environment was validated when it was read.
        let _ = faults::push(faults);
    }
    if let Some(timeout) = config.timeout {
        watchdog::start(timeout);
    }
    if let Some(order) = config.schedule {
        schedule::begin(order, config.schedule_log.as_deref());
    }
}
