//! The runtime: devices, streams, events, memory, threads, random numbers. It knows no dtype and no kernel.
//!
//! Device work reaches it as a [`task::Task`]: a name, a cost, the byte ranges it reads and writes, and a [`task::Work`] to run.

pub mod config;
pub mod device;
pub mod error;
pub mod event;
pub mod fork;
pub mod memory;
pub mod rng;
pub mod stream;
pub mod sync;
pub mod task;
pub mod threads;

pub use error::Error;
