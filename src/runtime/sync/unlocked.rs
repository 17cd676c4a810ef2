//! Waits without the GIL: whatever a thread waits for may need it on another thread.
//!
//! Each sleeping primitive requires an [`Unlocked`], and the lock guard that it returns cannot outlive that. It is therefore
//! impossible to wait while holding the GIL, or to wait for the GIL while holding a lock of the runtime.
#![forbid(unsafe_code)]

use super::OnceLock;

/// Calls its argument without the GIL, if this thread holds it, and takes the GIL back before returning.
pub type Unlock = fn(&mut dyn FnMut());

/// How waits release the GIL of this process's interpreter, if there is one.
pub static UNLOCK: OnceLock<Unlock> = OnceLock::new();

/// Proof that this thread does not hold the GIL.
#[derive(Debug)]
pub struct Unlocked(());

/// Runs a body that may wait. The GIL is taken back at the end, so the caller must hold no lock of the runtime.
#[inline]
pub fn unlocked<R>(body: impl FnOnce(&Unlocked) -> R) -> R {
    let Some(unlock) = UNLOCK.get() else { return body(&Unlocked(())) };
    let (mut body, mut result) = (Some(body), None);
    unlock(&mut || result = body.take().map(|body| body(&Unlocked(()))));
    result.expect("what unlocks calls what it is given")
}
