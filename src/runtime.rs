//! The runtime: devices, streams, events, memory, threads, random numbers. It is independent of dtypes and kernels.
//!
//! Device work is a [`task::Task`]: a name, a cost, the byte ranges it reads and writes, and a [`task::Work`] to run.

pub mod latch;
pub mod passes;
pub mod queue;
mod ready_list;
pub mod slot;
pub mod standstill;
pub mod sync;
pub mod window;

#[cfg(not(loom))]
pub mod activities;
#[cfg(not(loom))]
pub(crate) mod affinity;
#[cfg(not(loom))]
mod blocking_pool;
#[cfg(not(loom))]
pub mod completion;
#[cfg(not(loom))]
pub mod config;
#[cfg(not(loom))]
pub mod debugging;
#[cfg(not(loom))]
pub mod device;
pub mod error;
#[cfg(not(loom))]
pub mod event;
#[cfg(not(loom))]
mod executor;
#[cfg(not(loom))]
pub mod exit;
#[cfg(not(loom))]
pub mod fallback;
#[cfg(not(loom))]
pub mod fork;
#[cfg(not(loom))]
pub mod gate;
#[cfg(not(loom))]
pub mod generator;
#[cfg(not(loom))]
pub mod graph;
#[cfg(not(loom))]
pub mod hardware;
#[cfg(not(loom))]
pub mod isolation;
pub mod memory;
pub mod name;
pub mod observers;
#[cfg(not(loom))]
mod open_loops;
#[cfg(not(loom))]
pub mod parallel_for;
#[cfg(not(loom))]
pub mod pools;
pub mod rng;
#[cfg(not(loom))]
pub mod sanitizer;
#[cfg(not(loom))]
pub mod shared;
#[cfg(not(loom))]
pub mod stream;
#[cfg(not(loom))]
pub mod task;
#[cfg(not(loom))]
mod thread_pool;
#[cfg(not(loom))]
mod timer;
#[cfg(not(loom))]
pub mod trace;

#[cfg(not(loom))]
pub mod vector_clock;

#[cfg(test)]
mod runtime_tests;

pub use error::Error;
