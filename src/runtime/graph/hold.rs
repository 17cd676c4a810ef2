//! [`Hold`]: keeps freed pinned memory from being reused as long as a graph may access it.
//!
//! The pinned pool lets a freed block wait for the streams that use it. A graph appears to the pool as one more stream, with one
//! task that ends when the graph is destroyed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::memory::Timeline;
use crate::runtime::sync::Mutex;

/// The pseudo-device of graphs; no device has that index.
const DEVICE: usize = usize::MAX;

#[derive(Debug, Default)]
struct Line {
    submitted: AtomicU64,
    completed: AtomicU64,
}

impl Timeline for Line {
    fn device(&self) -> usize {
        DEVICE
    }

    fn id(&self) -> i64 {
        std::ptr::from_ref(self).addr() as i64
    }

    fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Nobody can wait for the end of a graph, which is when its owner drops it.
    fn finish(&'static self) {}
}

/// The lines of destroyed graphs, which are reused.
static SPARE: Mutex<Vec<&'static Line>> = Mutex::new(Vec::new());

/// The timeline that freed memory waits for while a graph lives.
#[derive(Debug)]
pub struct Hold(&'static Line);

impl Hold {
    /// Begins a task on the timeline, which ends when this is dropped.
    pub fn begin() -> Self {
        let line = SPARE.lock().pop().unwrap_or_else(|| Box::leak(Box::default()));
        line.submitted.fetch_add(1, Ordering::AcqRel);
        Self(line)
    }

    pub fn timeline(&self) -> &'static dyn Timeline {
        self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.completed.fetch_add(1, Ordering::AcqRel);
        SPARE.lock().push(self.0);
    }
}
