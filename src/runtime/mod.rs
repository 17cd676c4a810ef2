//! The runtime: devices, streams, events, memory, threads, random numbers. It knows no dtype and no kernel.
//!
//! Device work reaches it as a [`task::Task`]: a name, a cost, the byte ranges it reads and writes, and a [`task::Work`] to run.

pub mod memory;
