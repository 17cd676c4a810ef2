//! [`Lines`]: the order of each stream over both engines. On real hardware, these are semaphores between command queues.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustdev::hardware::HardwareTask;

use crate::Counts;

type Ended = Arc<OnceLock<()>>;

/// What the device has of each stream.
#[derive(Default)]
pub struct Lines(Mutex<HashMap<(usize, i64), Line>>);

#[derive(Default)]
struct Line {
    /// The tasks that have not ended.
    tasks: u64,
    last: Option<Ended>,
}

/// The place of a task behind the previous one of its stream.
pub struct Place {
    previous: Option<Ended>,
    ended: Ended,
}

impl Lines {
    /// Takes a place for a task of a stream; counts how many tasks the stream has here.
    pub fn enter(&self, task: &HardwareTask, counts: &Counts) -> Place {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry((task.device(), task.stream())).or_default();
        line.tasks += 1;
        counts.most_ahead.fetch_max(line.tasks, Ordering::Relaxed);
        let ended = Ended::default();
        Place { previous: line.last.replace(Arc::clone(&ended)), ended }
    }

    /// Notes that a task ends. Its stream may hand over another one from here on.
    pub fn leave(&self, task: &HardwareTask) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get_mut(&(task.device(), task.stream())) {
            line.tasks -= 1;
        }
    }
}

impl Place {
    /// Waits for the previous task of the stream, which may be on the other engine.
    pub fn wait(&self) {
        if let Some(previous) = &self.previous {
            previous.wait();
        }
    }

    /// Lets the next task of the stream begin.
    pub fn end(&self) {
        // The second call changes nothing.
        let _ = self.ended.set(());
    }
}
