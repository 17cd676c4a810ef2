//! C ABI: see `shim/rustdev.h`.
