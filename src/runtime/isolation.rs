//! Isolation: protection of device memory from the host, and guarded blocks. Off by default.
//!
//! `RUSTDEV_SANITIZE=memory` turns three checks on:
//! - Device memory is inaccessible except while a task or a CPU fallback runs ([`super::memory::access`]). A host access through a
//!   raw pointer faults, and the report names the block.
//! - Each block ends with a guard, which is checked when the block is freed ([`guarded_blocks`]): a write past the end is an error.
//! - A freed block is poisoned and kept for a while: a task that accesses its memory is refused, and other writes
//!   are found when the block leaves the quarantine.
//!
//! `RUSTDEV_FILL=nan` alone fills each new block with bytes of ones, which are NaN in every floating-point dtype and -1 in the
//! signed integers, so that a read of uninitialised memory shows in the result.

mod guarded_blocks;

use std::mem::MaybeUninit;

use super::config::Config;
use super::memory::process_pools;
use super::name;
use super::observers::{self, FILL, GUARDS};
use super::sync::OnceLock;

pub use super::memory::access::has_guards;
pub use guarded_blocks::{allocate, check_accesses, empty_quarantine, free};

/// The function that returns the user's current source line.
pub static PLACE: OnceLock<fn() -> Option<String>> = OnceLock::new();

/// Turns on what the environment asks for; called before the first allocation.
pub(super) fn start(config: &Config) {
    observers::set(FILL, config.fill_nan || config.sanitize_memory);
    if config.sanitize_memory {
        observers::set(GUARDS, true);
        watch_faults();
    }
}

/// The user's current source line on this thread.
fn place() -> String {
    PLACE.get().and_then(|place| place()).unwrap_or_else(|| "no Python frame".to_owned())
}

static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs a SIGSEGV handler that reports faults in device memory; only the first call has an effect.
fn watch_faults() {
    BEFORE.get_or_init(|| {
        // SAFETY: all zeros is a valid `sigaction`: no handler, no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut before = action;
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = report;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both structures are valid, and the handler has the signature that SA_SIGINFO asks for.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before) };
        before
    });
}

/// Writes the report, then restores the previous handler, which gets the signal when the instruction faults again.
///
/// The handler allocates memory. This is safe here: no allocator accesses device memory, so the faulting thread is not inside an
/// allocator.
extern "C" fn report(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes valid signal information.
    let info = unsafe { &*info };
    // SAFETY: the signal is SIGSEGV, whose information has an address.
    let address = unsafe { info.si_addr() } as usize;
    if let Some(device) = process_pools::device_of(address as *const u8) {
        let known = guarded_blocks::describe(address).unwrap_or_else(|| "nothing more is known of it".to_owned());
        let text = format!(
            "{}: the host touched memory of device {} at {address:#x}: {known}. Copy it to the host first, for example with tensor.cpu()\n",
            name::name(),
            name::Device(device),
        );
        // SAFETY: the text is valid for its length.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: the action came from `sigaction`.
        unsafe { libc::sigaction(libc::SIGSEGV, before, std::ptr::null_mut()) };
    }
}
