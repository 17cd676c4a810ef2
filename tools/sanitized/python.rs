//! A Python that holds a sanitizer's runtime. `rustc -Zsanitizer` links the runtime into programs and not into libraries: those, such as
//! the module, find it in the program that loads them, and an ordinary Python has none.
//!
//! The program's entry is C's and not Rust's, whose own would install handlers of signals that the module's are then mixed with.
#![no_main]

use std::ffi::{c_char, c_int};

unsafe extern "C" {
    fn Py_BytesMain(count: c_int, arguments: *mut *mut c_char) -> c_int;
}

/// Runs Python.
#[unsafe(no_mangle)]
pub extern "C" fn main(count: c_int, arguments: *mut *mut c_char) -> c_int {
    // SAFETY: the C runtime calls this function once, with the count and the list that Python's own `main` would be given.
    unsafe { Py_BytesMain(count, arguments) }
}
