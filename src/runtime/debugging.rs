//! Debugging modes: injected [`faults`], a [`watchdog`], adversarial task orders ([`schedule`]), and [isolation](super::isolation)
//! of memory.
//!
//! All are off by default. The active modes are bits in the word of the [observers](super::observers), which a launch reads.
#![forbid(unsafe_code)]

pub mod faults;
pub mod schedule;
pub mod watchdog;

use super::config::Config;
use super::isolation;

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
