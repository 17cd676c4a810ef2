//! C ABI of the CPU fallback's rules and statistics.

use std::ffi::{CStr, c_char};

use super::rd_stream::give;
use super::{Failure, RD_INVALID_ARGUMENT, guard, rd_status, shield};
use crate::runtime::fallback::FallbackOperator;

/// An operator that the fallback was asked for; it lives forever.
#[allow(non_camel_case_types)]
pub type rd_fallback = FallbackOperator;

/// The operator of a name with namespace and overload, `aten::sort.stable`.
///
/// # Safety
/// `name` is NUL-terminated, `found` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fallback_find(name: *const c_char, found: *mut *const rd_fallback) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        // SAFETY: as above.
        unsafe { give(found, FallbackOperator::find(&name)) };
        Ok(())
    })
}

/// Refuses a call that the rules forbid (`RD_UNSUPPORTED`), or says whether it deserves a warning.
///
/// # Safety
/// `op` came from [`rd_fallback_find`], `warns` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fallback_check(op: *const rd_fallback, warns: *mut bool) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let op = unsafe { op.as_ref() }.ok_or_else(|| Failure::new(RD_INVALID_ARGUMENT, "no operator"))?;
        // SAFETY: as above.
        unsafe { give(warns, op.check()?) };
        Ok(())
    })
}

/// Counts a call, whose kernel took so long.
///
/// # Safety
/// `op` came from [`rd_fallback_find`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_fallback_count(op: *const rd_fallback, nanoseconds: u64) {
    shield((), || {
        // SAFETY: the caller's promise.
        if let Some(op) = unsafe { op.as_ref() } {
            op.count(nanoseconds);
        }
    });
}
