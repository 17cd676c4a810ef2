//! [`Recording`]: one recording of an event; its stream reaches it, and other streams wait for it.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::{DrainableStream, Lease};
use crate::runtime::latch::Latch;
use crate::runtime::sync::{Arc, AtomicU64, OnceLock, Ordering};
use crate::runtime::vector_clock::VectorClock;

/// One recording of an event on a stream.
#[derive(Debug)]
pub struct Recording {
    pub(in crate::runtime) stream: &'static dyn DrainableStream,
    /// The number of its task in the stream; set before other threads see the recording.
    number: AtomicU64,
    timing: bool,
    /// The time at which it was reached, if it has timing.
    pub(in crate::runtime) instant: OnceLock<Instant>,
    reached: Latch<(&'static dyn DrainableStream, Lease)>,
    /// The vector clock at the recording, if the race detector is on.
    pub(in crate::runtime) clock: Option<VectorClock>,
    /// Its moment in the simulated time, if the clock of a profile was on when it was put on its stream.
    pub(in crate::runtime) moment: OnceLock<Arc<OnceLock<u64>>>,
}

impl Recording {
    /// A recording that is about to be put on a stream. `clock`: the vector clock of the stream, if the race detector is on.
    pub(in crate::runtime) fn new(stream: &'static dyn DrainableStream, timing: bool, clock: Option<VectorClock>) -> Self {
        let (number, instant, reached) = (AtomicU64::new(u64::MAX), OnceLock::new(), Latch::default());
        Self { stream, number, timing, instant, reached, clock, moment: OnceLock::new() }
    }

    /// Sets the number of its task; called before other threads see the recording.
    pub(in crate::runtime) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    /// The number of its task in the stream.
    pub(in crate::runtime) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// True if the stream has reached it.
    #[inline]
    pub(in crate::runtime) fn is_done(&self) -> bool {
        self.reached.is_open()
    }

    /// True if the stream has reached it and counted its task: a stream whose last task is this recording then counts as idle.
    pub(in crate::runtime) fn is_counted(&self) -> bool {
        self.is_done() && self.stream.completed() >= self.number()
    }

    /// Marks it as reached. Returns the waiting streams, which the caller resumes after the stream has counted the task, so that a
    /// woken waiter finds the stream idle if nothing is queued after it.
    pub(in crate::runtime) fn reach(&self) -> Vec<(&'static dyn DrainableStream, Lease)> {
        if self.timing {
            let _ = self.instant.set(Instant::now());
        }
        self.reached.open()
    }

    /// Keeps a stream's lease until the recording is reached; returns it if that has happened already.
    pub(in crate::runtime) fn wait(
        &self,
        stream: &'static dyn DrainableStream,
        lease: Lease,
    ) -> Result<(), (&'static dyn DrainableStream, Lease)> {
        self.reached.wait((stream, lease))
    }
}
