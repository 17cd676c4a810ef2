//! Isolation: device memory that the host cannot touch, and blocks with guards. Off unless the environment asks for it.
//!
//! `RUSTDEV_SANITIZE=memory` turns three checks on:
//! - Device memory is inaccessible except while a task or an operator of the CPU fallback runs ([`super::memory::access`]). The host's touch through a
//!   raw pointer faults, and the fault names the block ([`fault`]).
//! - Each block ends with a guard, which is checked when the block is freed ([`guarded_blocks`]): a write past the end fails.
//! - A freed block is poisoned and kept for a while ([`quarantine`]): a task that names its memory is refused, and a write is found when
//!   the block leaves the quarantine.
//!
//! `RUSTDEV_FILL=nan` alone fills each new block with bytes of ones, which are NaN in every floating-point dtype and -1 in the integers,
//! so that a read of memory that was never written shows in the result.

mod fault;
mod guarded_blocks;
mod pattern;
mod quarantine;

use super::config::Config;
use super::debugging::{DebugMode, set};
use super::sync::OnceLock;

pub use super::memory::access::has_guards;
pub use guarded_blocks::{allocate, check_accesses, empty_quarantine, free};

static PLACE: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// Turns on what the environment asks for; called before the first block is made.
pub(super) fn start(config: &Config) {
    set(DebugMode::Fill, config.fill_nan || config.sanitize_memory);
    if config.sanitize_memory {
        set(DebugMode::Guards, true);
        fault::install();
    }
}

/// Sets the function that names the user's place in the program; the first one stays.
pub fn set_place(place: fn() -> Option<String>) {
    let _ = PLACE.set(place);
}

/// The user's place in the program, as far as this thread has one.
fn place() -> String {
    PLACE.get().and_then(|place| place()).unwrap_or_else(|| "no Python frame".to_owned())
}
