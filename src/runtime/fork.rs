//! Fork: a child of a process that had started the runtime cannot use the threads, locks and memory of its parent.
//!
//! A child of a process that had not started it yet is an ordinary process.
#![forbid(unsafe_code)]

use super::Error;
use super::sync::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicBool = AtomicBool::new(false);

/// Notes that the runtime runs in this process: what forks from now on inherits a broken one.
pub fn mark_started() {
    STARTED.store(true, Ordering::Relaxed);
}

/// Whether the runtime runs in this process.
#[inline]
pub fn is_started() -> bool {
    STARTED.load(Ordering::Relaxed) && !is_child()
}

/// Called in the child of a fork; safe to call in a signal-handler-like setting.
pub fn in_child() {
    if STARTED.load(Ordering::Relaxed) {
        CHILD.store(true, Ordering::Relaxed);
    }
}

/// Whether this process is a fork child of one that had started the runtime.
#[inline]
pub fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Refuses to go on in such a child.
///
/// # Errors
/// The text that PyTorch's users know, in a child.
#[inline]
pub fn check() -> Result<(), Error> {
    if is_child() { Err(refusal()) } else { Ok(()) }
}

#[cold]
fn refusal() -> Error {
    Error::InvalidArgument(
        "Cannot re-initialize rustdev in forked subprocess. To use rustdev with multiprocessing, you must use the 'spawn' start method"
            .to_owned(),
    )
}
