//! Device memory and pinned host memory.
//!
//! Each device has one reserved address range ([`arena`]), committed in segments, and one caching pool over it ([`caching_pool`]) behind one lock
//! ([`device_pool`]). Reuse is *stream-ordered*: a block that is freed goes to the free lists of the stream it was allocated for, while
//! tasks that use it may still be queued there; the next user puts its own tasks behind them on the same stream. Uses by other
//! streams are declared with [`DevicePool::record_stream`](device_pool::DevicePool::record_stream); such a block waits until those streams have completed what they had been given when it was
//! freed ([`Timeline`]). Memory leaves the pool only after the device was waited for.
//!
//! While a stream captures, its memory comes from a pool of the graph's own, and a program may choose one for a thread: [`super::pools`].
//!
//! Pinned host memory ([`pinned_pool`]) is cached by size and waits for streams in the same way.

#[cfg(not(loom))]
pub mod access;
pub mod arena;
pub mod block;
pub mod caching_pool;
pub mod deferred_free;
pub mod device_memory;
pub mod device_pool;
pub mod free_list;
mod front_cache;
pub mod history;
pub mod label;
pub mod lending;
pub mod observe;
pub mod pinned_pool;
pub mod race_notes;
pub mod release;
pub mod sent;
pub mod shared_budget;
pub mod snapshot;
pub mod stats;
pub mod system;
pub mod text;

#[cfg(test)]
mod memory_tests;

use std::fmt;

/// The pools' interface of a stream: how many tasks it was given, and how many of them are done.
pub trait Timeline: fmt::Debug + Sync {
    /// The index of its device.
    fn device(&self) -> usize;
    /// Its number, unique in the device.
    fn id(&self) -> i64;
    /// How many tasks it was given so far.
    fn submitted(&self) -> u64;
    /// How many of them are done; they end in order.
    fn completed(&self) -> u64;
    /// Waits for all of them; for a caller that is a task itself, only as long as they cannot be waiting for it.
    fn finish(&'static self);
}
