//! Functions of the shim that Rust calls, registered when the shim is loaded.
//!
//! The core is loaded first, without torch's libraries; then the shim that fits the installed torch. Tests and benches of this
//! crate have no shim and hence no PyTorch.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

use crate::runtime::debugging::clock;

/// A callback that receives an operator's name and its tier.
pub type rd_shim_visit_tier = unsafe extern "C" fn(context: *mut c_void, name: *const c_char, tier: *const c_char);

/// The functions of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rd_shim {
    /// True if PyTorch computes matrix products with MKL.
    pub has_mkl: extern "C" fn() -> bool,
    /// True if the processor has AMX and PyTorch uses it.
    pub has_amx: extern "C" fn() -> bool,
    /// True if this PyTorch has a complex dtype of two bfloat16.
    pub has_complex_bfloat16: extern "C" fn() -> bool,
    /// True if the program asked for deterministic algorithms.
    pub is_deterministic: extern "C" fn() -> bool,
    /// True if the program permits a GPU to use TF32 in matrix products of float32, or in convolutions.
    pub allows_tf32: extern "C" fn(is_convolution: bool) -> bool,
    /// The number (`c10::ScalarType`) of PyTorch's default dtype.
    pub default_dtype: extern "C" fn() -> i32,
    /// Registers the fallback for every operator that has a CPU kernel and no kernel on the device. Called once, after all other
    /// registrations.
    pub register_fallback: extern "C" fn(),
    /// Visits every operator whose kernel for the device's dispatch key is not from the operator table.
    pub visit_tiers: unsafe extern "C" fn(visit: rd_shim_visit_tier, context: *mut c_void),
    /// Replaces the bits in `mask` (`RD_WAIT_MODE`, `RD_WAIT_OBSERVED`, `RD_WAIT_DRY`) of the wait flags by `bits`; returns the new
    /// flags.
    pub change_wait_flags: extern "C" fn(mask: i32, bits: i32) -> i32,
    /// Sets the Python exception type for races, which is never freed.
    pub set_race_type: extern "C" fn(kind: *mut c_void),
}

static SHIM: OnceLock<rd_shim> = OnceLock::new();

#[inline]
pub fn shim() -> Option<&'static rd_shim> {
    SHIM.get()
}

/// Registers the shim's functions. The shim calls this once, before anything else.
///
/// # Safety
/// `functions` points to a valid table; its functions may be called at any time until the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_shim_register(functions: *const rd_shim) {
    // SAFETY: the caller promises a table.
    let _ = SHIM.set(unsafe { *functions });
    let _ = clock::FLOAT32.set(|is_convolution| shim().is_some_and(|shim| (shim.allows_tf32)(is_convolution)));
}

/// Identifies the interface between core and shim: the 64-bit FNV-1a hash (Fowler, Noll, Vo) of the headers. The file name of a
/// shim contains it, so that a shim for another interface is not loaded. The header paths are symbolic links to shim/, which is a
/// crate of its own, because cargo packages only files below `src/` for this crate.
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
