//! Allocation history for `_record_memory_history`, with a stack for each entry.
//!
//! The pool does not depend on Python: a *context* is an opaque value (a Python stack) that a function set by the front end
//! captures and that the snapshot returns. Contexts are captured before the pool's lock is taken, because capturing may wait for
//! the interpreter.

#![forbid(unsafe_code)]

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::runtime::sync::OnceLock;

/// The captured stack of an allocation or a free.
pub type Context = Arc<dyn Any + Send + Sync>;

/// Which events capture contexts; each level includes the previous ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Detail {
    #[default]
    Never,
    /// Allocations, for the live blocks.
    State,
    /// Allocations, in the history, too.
    Alloc,
    /// Frees in the history, too.
    All,
}

/// The kind of event; the names are those of PyTorch's memory snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    Alloc,
    /// A block was freed by the caller.
    FreeRequested,
    /// A freed block became reusable.
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    /// A request failed; `address` holds the device's free bytes.
    OutOfMemory,
    Snapshot,
}

impl Action {
    /// The names in snapshots, in the order of the variants.
    pub const NAMES: [&str; 7] = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One event of the history.
#[derive(Clone)]
pub struct Entry {
    pub action: Action,
    /// The block's or segment's address; for [`Action::OutOfMemory`] the device's free bytes.
    pub address: usize,
    /// The block's or segment's bytes; for [`Action::OutOfMemory`] the requested bytes.
    pub size: usize,
    pub stream: i64,
    /// Microseconds since 1970.
    pub time: u64,
    pub context: Option<Context>,
}

#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// True to record events, not only the contexts of live blocks.
    pub events: bool,
    pub detail: Detail,
    /// The most events kept; the oldest are dropped first.
    pub max_entries: usize,
    /// The names of actions that are not recorded.
    pub skip: Vec<String>,
}

#[derive(Default)]
pub struct History {
    recording: Recording,
    /// The events kept, oldest first.
    pub(super) entries: VecDeque<Entry>,
}

impl History {
    /// Starts, changes or stops recording. `clear` discards the recorded events.
    pub fn configure(&mut self, recording: Recording, clear: bool) {
        self.recording = recording;
        if clear {
            self.entries.clear();
        }
    }

    #[inline]
    pub fn records_events(&self) -> bool {
        self.recording.events
    }

    /// Records an event, if events are recorded. Its context is stored if the detail is at least [`Detail::Alloc`].
    #[inline]
    pub fn record(&mut self, action: Action, address: usize, size: usize, stream: i64, context: Option<&Context>) {
        if self.recording.events {
            self.push(action, address, size, stream, context);
        }
    }

    #[cold]
    fn push(&mut self, action: Action, address: usize, size: usize, stream: i64, context: Option<&Context>) {
        if self.recording.skip.iter().any(|name| name == action.name()) || self.recording.max_entries == 0 {
            return;
        }
        while self.entries.len() >= self.recording.max_entries {
            self.entries.pop_front();
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_micros() as u64);
        let context = context.filter(|_| self.recording.detail >= Detail::Alloc).cloned();
        self.entries.push_back(Entry { action, address, size, stream, time, context });
    }
}

// Plain std atomics: loom's cannot be built in a constant, and no loom model records history.
static DETAIL: AtomicU8 = AtomicU8::new(Detail::Never as u8);
/// The function that captures contexts.
pub static CAPTURE: OnceLock<fn() -> Option<Context>> = OnceLock::new();

pub fn set_detail(detail: Detail) {
    DETAIL.store(detail as u8, Ordering::Relaxed);
}

/// Captures a context if the current detail is at least `detail`.
#[inline]
pub fn capture(detail: Detail) -> Option<Context> {
    if DETAIL.load(Ordering::Relaxed) < detail as u8 {
        return None;
    }
    capture_now()
}

/// Captures a context regardless of the detail.
pub fn capture_now() -> Option<Context> {
    CAPTURE.get().and_then(|capture| capture())
}
