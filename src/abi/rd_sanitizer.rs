//! C ABI of the sanitizers: what the host does to device memory itself.

use std::ffi::{CStr, c_char, c_void};

use super::{guard, rd_status};
use crate::runtime::{isolation, sanitizer};

/// Whether races are looked for, or memory is kept from the host: then what the host does to device memory is told beforehand.
#[unsafe(no_mangle)]
pub extern "C" fn rd_sanitizer_is_on() -> bool {
    sanitizer::is_on() || isolation::has_guards()
}

/// Checks that this thread may read or write device memory now, after what it has waited for, while races are looked for. `name`: the
/// operator, for the report.
///
/// # Safety
/// `name` is a NUL-terminated string; `begin` is only compared, never followed.
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
