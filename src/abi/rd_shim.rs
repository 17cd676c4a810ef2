//! Functions of the shim that Rust calls, registered when the shim is loaded.

use crate::call::shim::SHIM;
pub use crate::call::shim::Shim as rd_shim;
pub use crate::call::shim::shim;
use crate::runtime::debugging::clock;

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
