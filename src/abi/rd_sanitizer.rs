//! C ABI of the sanitizers, for accesses of the host to device memory.

use std::ffi::c_void;

use super::{guard, rd_status, rd_text};
use crate::runtime::{isolation, sanitizer};

/// True if the race detector or memory isolation is on; host accesses to device memory must then be announced with
/// [`rd_sanitizer_host_access`].
#[unsafe(no_mangle)]
pub extern "C" fn rd_sanitizer_is_on() -> bool {
    sanitizer::is_on() || isolation::has_guards()
}

/// Reports a race if this thread may not yet access the device memory, given what it has waited for. `name`: the operator, for the
/// report. `begin` is only compared, never dereferenced.
#[unsafe(no_mangle)]
pub extern "C" fn rd_sanitizer_host_access(name: rd_text, begin: *const c_void, bytes: usize, write: bool) -> rd_status {
    guard(|| Ok(sanitizer::host_touches(&name.lossy(), begin.addr(), begin.addr() + bytes, write)?))
}
