//! What the shim tells of PyTorch when it is loaded: the functions that Rust calls.
//!
//! The core is loaded first, without torch's libraries; a shim for the torch of the process comes after it. Without one, in tests and benches
//! of this crate, there is no PyTorch.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

/// Told an operator's name and its tier.
#[allow(non_camel_case_types)]
pub type rd_shim_visit_tier = unsafe extern "C" fn(context: *mut c_void, name: *const c_char, tier: *const c_char);

/// The functions of the shim.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rd_shim {
    /// Whether PyTorch computes products with MKL.
    pub has_mkl: extern "C" fn() -> bool,
    /// Whether the processor has AMX, and PyTorch uses it.
    pub has_amx: extern "C" fn() -> bool,
    /// Whether this PyTorch has complex numbers of two bfloat16.
    pub has_complex_bfloat16: extern "C" fn() -> bool,
    /// Whether the program asked for deterministic algorithms.
    pub is_deterministic: extern "C" fn() -> bool,
    /// The number of PyTorch's default dtype.
    pub default_dtype: extern "C" fn() -> i32,
    /// Registers the fallback for every operator that has a CPU kernel and no kernel on the device. Called once, behind all registrations.
    pub register_fallback: extern "C" fn(),
    /// Visits every operator whose kernel on the device's key is not one of the operator table.
    pub visit_tiers: unsafe extern "C" fn(visit: rd_shim_visit_tier, context: *mut c_void),
    /// Sets the bits among `mask` of the flags of waits, `RD_WAIT_MODE` and `RD_WAIT_OBSERVED`, and returns the flags as they are then.
    pub change_wait_flags: extern "C" fn(mask: i32, bits: i32) -> i32,
    /// Takes the Python type of errors about races, which is never freed.
    pub set_race_type: extern "C" fn(kind: *mut c_void),
}

static SHIM: OnceLock<rd_shim> = OnceLock::new();

/// The functions of the shim, if one is loaded.
#[inline]
pub fn shim() -> Option<&'static rd_shim> {
    SHIM.get()
}

/// Takes the functions of the shim, which calls this once, before anything else of its own runs.
///
/// # Safety
/// `functions` points to a table of them; each may be called at any time to the end of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_shim_register(functions: *const rd_shim) {
    // SAFETY: the caller promises a table.
    let _ = SHIM.set(unsafe { *functions });
}

/// The interface between core and shim, by a number of the headers that say it: FNV-1a of 64 bits (Fowler, Noll, Vo). A shim's file has it in
/// its name, so that one for another interface is not loaded. The headers are links to those of shim/, which is a crate of its own: cargo's
/// package of this one has files of `src/` alone.
pub const INTERFACE: u64 = {
    let headers: [&[u8]; 3] = [
        include_bytes!("headers/rustdev.h"),
        include_bytes!("headers/rustdev_operators.h"),
        include_bytes!("headers/rustdev_completion.h"),
    ];
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut header = 0;
    while header < headers.len() {
        let mut index = 0;
        while index < headers[header].len() {
            hash = (hash ^ headers[header][index] as u64).wrapping_mul(0x0100_0000_01b3);
            index += 1;
        }
        header += 1;
    }
    hash
};
