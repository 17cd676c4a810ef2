//! rustdev: a PyTorch accelerator that runs on any CPU.
//!
//! The crate holds the runtime (memory pools, streams, events, threads, random numbers) and the kernels. `shim/` (C++, feature
//! `shim`) registers it with PyTorch, `python` (feature `python`) makes it the extension module `rustdev._rustdev`. [`hardware`] is the
//! interface to what the devices are made of, by default this processor.
//! Without features it needs neither torch nor a C++ compiler.
//!
//! docs/architecture.md says which part may call which.

#[cfg(not(loom))]
pub mod abi;
#[cfg(not(loom))]
pub mod kernels;
#[cfg(feature = "python-bindings")]
pub mod python;
pub mod runtime;
#[cfg(not(loom))]
pub mod simd;
#[cfg(not(loom))]
pub mod tensor;

#[cfg(not(loom))]
pub use runtime::hardware;
