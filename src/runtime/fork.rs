//! Fork: a child of a process that had started the runtime cannot use its parent's threads, locks and memory.
//!
//! A child of a process that had not started the runtime is an ordinary process.
#![forbid(unsafe_code)]

use super::Error;
use super::name::name;
use super::sync::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicBool = AtomicBool::new(false);

/// Notes that the runtime has started: children forked from here on cannot use it.
pub fn mark_started() {
    STARTED.store(true, Ordering::Relaxed);
}

/// True if the runtime runs in this process.
#[inline]
pub fn is_started() -> bool {
    STARTED.load(Ordering::Relaxed) && !is_child()
}

/// Must be called in the child of a fork; async-signal-safe.
pub fn in_child() {
    if STARTED.load(Ordering::Relaxed) {
        CHILD.store(true, Ordering::Relaxed);
    }
}

/// True in a forked child of a process that had started the runtime.
#[inline]
pub fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Fails in such a child with `InvalidArgument` and the text that PyTorch uses for CUDA.
#[inline]
pub fn check() -> Result<(), Error> {
    if is_child() { Err(refusal()) } else { Ok(()) }
}

#[cold]
fn refusal() -> Error {
    let name = name();
    let cannot = format!("Cannot re-initialize {name} in forked subprocess.");
    Error::InvalidArgument(format!("{cannot} To use {name} with multiprocessing, you must use the 'spawn' start method"))
}
