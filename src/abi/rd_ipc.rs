//! C ABI for memory shared between processes: received memory, and host writes to device memory.

use super::{consume, shield};
use crate::runtime::gate;
use crate::runtime::shared::received::Received;

/// Memory received from another process, opaque to C.
pub struct rd_received(Received);

impl rd_received {
    /// Passes ownership to C, which returns it to [`rd_received_let_go`].
    pub fn hand_over(received: Received) -> *mut Self {
        Box::into_raw(Box::new(Self(received)))
    }
}

/// Releases received memory when all tasks that are queued now are done. Never waits, never fails; null is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rd_received_let_go(received: Option<Box<rd_received>>) {
    consume(received, |received| received.into_iter().for_each(|received| received.0.let_go()));
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
