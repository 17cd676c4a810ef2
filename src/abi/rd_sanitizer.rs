//! C ABI of the sanitizers, for accesses of the host to device memory.

use std::ffi::{CStr, c_char, c_void};

use super::{guard, rd_status};
use crate::runtime::{isolation, sanitizer};

/// True if the race detector or memory isolation is on; host accesses to device memory must then be announced with
/// [`rd_sanitizer_host_access`].
#[unsafe(no_mangle)]
pub extern "C" fn rd_sanitizer_is_on() -> bool {
    sanitizer::is_on() || isolation::has_guards()
}

/// Reports a race if this thread may not yet access the device memory, given what it has waited for. `name`: the operator, for the
/// report.
///
/// # Safety
/// `name` is a NUL-terminated string; `begin` is only compared, never dereferenced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_sanitizer_host_access(
    name: *const c_char,
    begin: *const c_void,
    bytes: usize,
    write: bool,
) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(sanitizer::host_touches(&name.to_string_lossy(), begin.addr(), begin.addr() + bytes, write)?)
    })
}
