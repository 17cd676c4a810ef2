//! [`Recording`]: one recording of an event, which its stream reaches and other streams wait for.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::{Drained, Lease};
use crate::runtime::latch::Latch;
use crate::runtime::sync::{AtomicU64, OnceLock, Ordering};
use crate::runtime::vector_clock::VectorClock;

/// One recording of an event on a stream.
#[derive(Debug)]
pub struct Recording {
    stream: &'static dyn Drained,
    /// The number of the task in its stream; set before the recording is shown to others.
    number: AtomicU64,
    timing: bool,
    instant: OnceLock<Instant>,
    reached: Latch<(&'static dyn Drained, Lease)>,
    /// What happened before it, where races are looked for.
    clock: Option<VectorClock>,
}

impl Recording {
    /// A recording that is about to be put on a stream. `clock`: what happened before it, where races are looked for.
    pub(in crate::runtime) fn new(stream: &'static dyn Drained, timing: bool, clock: Option<VectorClock>) -> Self {
        let (number, instant, reached) = (AtomicU64::new(u64::MAX), OnceLock::new(), Latch::default());
        Self { stream, number, timing, instant, reached, clock }
    }

    /// Notes the number of its task, before it is shown to others.
    pub(in crate::runtime) fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    /// When it was reached, where it has timing.
    pub(in crate::runtime) fn instant(&self) -> Option<Instant> {
        self.instant.get().copied()
    }

    /// What happened before it, where races are looked for.
    pub(in crate::runtime) fn clock(&self) -> Option<&VectorClock> {
        self.clock.as_ref()
    }

    /// The stream that reaches it.
    pub(in crate::runtime) fn stream(&self) -> &'static dyn Drained {
        self.stream
    }

    /// The number of its task there.
    pub(in crate::runtime) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Whether the stream has reached it.
    #[inline]
    pub(in crate::runtime) fn is_done(&self) -> bool {
        self.reached.is_open()
    }

    /// Whether the stream has reached it and counted it, so that a stream whose last task it is counts as idle.
    pub(in crate::runtime) fn is_counted(&self) -> bool {
        self.is_done() && self.stream.completed() >= self.number()
    }

    /// The stream has reached it. Returns what waits, which goes on once the stream has counted the task: who was made to wait then
    /// finds the stream idle if nothing is behind.
    pub(in crate::runtime) fn reach(&self) -> Vec<(&'static dyn Drained, Lease)> {
        if self.timing {
            let _ = self.instant.set(Instant::now());
        }
        self.reached.open()
    }

    /// Keeps a stream's lease until then; gives it back if it is reached.
    pub(in crate::runtime) fn wait(&self, stream: &'static dyn Drained, lease: Lease) -> Result<(), (&'static dyn Drained, Lease)> {
        self.reached.wait((stream, lease))
    }
}
