//! rustdev: a PyTorch accelerator that runs on any CPU.
//!
//! The crate holds the runtime (memory pools, streams, events, threads, random numbers) and the kernels. `shim/` (C++)
//! registers it with PyTorch. The feature `python-bindings` adds the content of the extension module `rustdev._rustdev`.
//! [`hardware`] is the interface to the hardware of the devices, by default this processor. The crate needs neither torch nor a
//! C++ compiler.
//!
//! docs/architecture.md says which part may call which. The modules are public with the feature `internals`, for benchmarks,
//! tests and crates that provide hardware. Without it, the compiler reports functions that nothing calls.

// Some functions are only called by the Python module.
#![cfg_attr(not(feature = "python-bindings"), allow(dead_code, unused_imports))]

#[cfg(all(feature = "internals", not(loom)))]
pub mod abi;
#[cfg(not(any(feature = "internals", loom)))]
mod abi;
#[cfg(all(feature = "internals", not(loom)))]
pub mod call;
#[cfg(not(any(feature = "internals", loom)))]
mod call;
#[cfg(not(loom))]
pub mod hardware_kernels;
#[cfg(all(feature = "internals", not(loom)))]
pub mod ops;
#[cfg(not(any(feature = "internals", loom)))]
mod ops;
#[cfg(feature = "python-bindings")]
pub mod python;
#[cfg(any(feature = "internals", loom))]
pub mod runtime;
#[cfg(not(any(feature = "internals", loom)))]
mod runtime;
#[cfg(all(feature = "internals", not(loom)))]
pub mod simd;
#[cfg(not(any(feature = "internals", loom)))]
mod simd;
#[cfg(all(feature = "internals", not(loom)))]
pub mod tensor;
#[cfg(not(any(feature = "internals", loom)))]
mod tensor;
#[cfg(any(feature = "internals", loom))]
pub mod tuning;
#[cfg(not(any(feature = "internals", loom)))]
mod tuning;

#[cfg(not(loom))]
pub use runtime::{Error, hardware, name};
