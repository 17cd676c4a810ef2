//! Functions of the shim by which the core calls PyTorch.
//!
//! The core is loaded first, without torch's libraries; then the shim that fits the installed torch. Tests and benches of this
//! crate have no shim and hence no PyTorch.

use std::ffi::c_void;
use std::sync::OnceLock;

/// The functions of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shim {
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
    /// Replaces the bits in `mask` (`RD_WAIT_MODE`, `RD_WAIT_OBSERVED`, `RD_WAIT_DRY`) of the wait flags by `bits`; returns the new
    /// flags.
    pub change_wait_flags: extern "C" fn(mask: i32, bits: i32) -> i32,
    /// Sets the Python exception type for races, which is never freed.
    pub set_race_type: extern "C" fn(kind: *mut c_void),
}

pub static SHIM: OnceLock<Shim> = OnceLock::new();

#[inline]
pub fn shim() -> Option<&'static Shim> {
    SHIM.get()
}

/// True if PyTorch has MKL.
pub fn has_mkl() -> bool {
    shim().is_some_and(|shim| (shim.has_mkl)())
}

/// True if PyTorch's products of 16 bit floats use AMX.
pub fn has_amx() -> bool {
    shim().is_some_and(|shim| (shim.has_amx)())
}

/// True if the user asked for deterministic algorithms.
pub fn is_deterministic() -> bool {
    shim().is_some_and(|shim| (shim.is_deterministic)())
}
