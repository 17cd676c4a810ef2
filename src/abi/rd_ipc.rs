//! C ABI for memory shared between processes: received memory, and host writes to device memory.

use super::shield;
use crate::runtime::gate;
use crate::runtime::shared::received::Received;

/// Memory received from another process, opaque to C.
#[allow(non_camel_case_types)]
pub struct rd_received(Received);

impl rd_received {
    /// Passes ownership to C, which returns it to [`rd_received_let_go`].
    pub fn hand_over(received: Received) -> *mut Self {
        Box::into_raw(Box::new(Self(received)))
    }
}

/// Releases received memory when all tasks that are queued now are done. Never waits, never fails; null is allowed.
///
/// # Safety
/// `received` is null, or came from [`rd_received::hand_over`] and was not released before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_received_let_go(received: *mut rd_received) {
    shield((), || {
        if !received.is_null() {
            // SAFETY: the caller passes a pointer that `Box::into_raw` made.
            unsafe { Box::from_raw(received) }.0.let_go();
        }
    });
}

/// Begins writes of this thread to device memory outside of any stream, until [`rd_host_write_end`]. The thread must not wait for a
/// stream in between.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_write_begin() {
    shield((), gate::enter);
}

/// Ends writes that [`rd_host_write_begin`] began.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_write_end() {
    shield((), gate::leave);
}
