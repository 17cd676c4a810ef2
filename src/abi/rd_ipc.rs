//! C ABI of what several processes use: memory that was received, and writes to device memory on the host.

use super::shield;
use crate::runtime::gate;
use crate::runtime::shared::received::Received;

/// Memory of another process, opaque to the other side.
#[allow(non_camel_case_types)]
pub struct rd_received(Received);

impl rd_received {
    /// Hands it over, to be given back by [`rd_received_let_go`].
    pub fn hand_over(received: Received) -> *mut Self {
        Box::into_raw(Box::new(Self(received)))
    }
}

/// Gives received memory back, once the tasks are done that are queued now. Never waits, never fails; null is allowed.
///
/// # Safety
/// `received` came from [`rd_received::hand_over`] and was not given back before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_received_let_go(received: *mut rd_received) {
    shield((), || {
        if !received.is_null() {
            // SAFETY: the caller hands back what `Box::into_raw` gave.
            unsafe { Box::from_raw(received) }.0.let_go();
        }
    });
}

/// Begins writes of this thread to device memory outside of any stream, which [`rd_host_write_end`] ends; it waits for no stream in between.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_write_begin() {
    shield((), gate::enter);
}

/// Ends what [`rd_host_write_begin`] began.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_write_end() {
    shield((), gate::leave);
}
