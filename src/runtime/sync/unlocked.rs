//! Waits without the interpreter's lock: what a thread waits for may need it, on another thread.
//!
//! Each primitive by which a thread sleeps asks for an [`Unlocked`], and hands a lock back that is dropped before it. So a wait cannot be
//! written that holds the interpreter's lock, nor one that waits for it with a lock of ours.
#![forbid(unsafe_code)]

use super::OnceLock;

/// Calls what it is given, without the interpreter's lock if this thread holds it, and returns with it again.
pub type Unlock = fn(&mut dyn FnMut());

/// Of the interpreter in this process; none where there is no interpreter.
static UNLOCK: OnceLock<Unlock> = OnceLock::new();

/// This thread does not hold the interpreter's lock.
#[derive(Debug)]
pub struct Unlocked(());

/// Has waits let go of the interpreter's lock; the first caller says how.
pub fn unlock_by(unlock: Unlock) {
    // The module may be loaded again, with the same function.
    let _ = UNLOCK.set(unlock);
}

/// Does what may have to wait. The interpreter's lock is taken back at the end: the caller holds no lock of ours.
#[inline]
pub fn unlocked<R>(body: impl FnOnce(&Unlocked) -> R) -> R {
    let Some(unlock) = UNLOCK.get() else { return body(&Unlocked(())) };
    let (mut body, mut result) = (Some(body), None);
    unlock(&mut || result = body.take().map(|body| body(&Unlocked(()))));
    result.expect("what unlocks calls what it is given")
}
