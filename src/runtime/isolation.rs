//! Isolation: protection of device memory from the host, and guarded blocks. Off by default.
//!
//! `RUSTDEV_SANITIZE=memory` turns three checks on:
//! - Device memory is inaccessible except while a task or a CPU fallback runs ([`super::memory::access`]). A host access through a
//!   raw pointer faults, and the report names the block ([`fault`]).
//! - Each block ends with a guard, which is checked when the block is freed ([`guarded_blocks`]): a write past the end is an error.
//! - A freed block is poisoned and kept for a while ([`quarantine`]): a task that accesses its memory is refused, and other writes
//!   are found when the block leaves the quarantine.
//!
//! `RUSTDEV_FILL=nan` alone fills each new block with bytes of ones, which are NaN in every floating-point dtype and -1 in the
//! signed integers, so that a read of uninitialised memory shows in the result.

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

/// Turns on what the environment asks for; called before the first allocation.
pub(super) fn start(config: &Config) {
    set(DebugMode::Fill, config.fill_nan || config.sanitize_memory);
    if config.sanitize_memory {
        set(DebugMode::Guards, true);
        fault::install();
    }
}

/// Sets the function that returns the user's current source line; only the first call has an effect.
pub fn set_place(place: fn() -> Option<String>) {
    let _ = PLACE.set(place);
}

/// The user's current source line on this thread.
fn place() -> String {
    PLACE.get().and_then(|place| place()).unwrap_or_else(|| "no Python frame".to_owned())
}
