//! Device memory and pinned host memory.
//!
//! Each device has one reserved address range ([`arena`]), committed in segments, and one caching pool over it ([`caching_pool`])
//! behind one lock ([`device_pool`]). Reuse is *stream-ordered*: a freed block goes to the free lists of the stream it was
//! allocated for, while tasks that use it may still be queued there; the tasks of the next user come later on the same stream. Uses
//! by other streams are declared with [`DevicePool::record_stream`](device_pool::DevicePool::record_stream). Such a block is reused
//! only after those streams have completed the tasks they had when it was freed ([`Timeline`]). Memory is released to the system
//! only after the device was synchronised.
//!
//! A capturing stream uses a memory pool of its graph, and a program may choose a pool for a thread: [`super::pools`].
//!
//! Pinned host memory ([`pinned_pool`]) is cached by size and waits for streams in the same way.

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
#[cfg(not(loom))]
pub mod process_pools;
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

/// A stream as the pools see it: the numbers of submitted and completed tasks.
pub trait Timeline: fmt::Debug + Sync {
    fn device(&self) -> usize;
    /// Its id, unique within the device.
    fn id(&self) -> i64;
    /// Device and id, which no other stream has.
    fn key(&self) -> (usize, i64) {
        (self.device(), self.id())
    }
    fn submitted(&self) -> u64;
    /// The number of completed tasks; they end in order.
    fn completed(&self) -> u64;
    /// Waits for all submitted tasks. If the caller runs a task itself, gives up when they may be waiting for that task.
    fn finish(&'static self);
}
