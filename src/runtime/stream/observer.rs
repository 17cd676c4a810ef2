//! [`Observer`]: what watches the tasks of all streams, and may refuse, change or order them. [`Recorder`]: what takes a stream's
//! tasks instead of running them.
//!
//! Both are implemented above the streams: the observer by [`crate::runtime::debugging`], a recorder by the captures of graphs.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use super::Stream;
use crate::runtime::Error;
use crate::runtime::memory::Timeline;
use crate::runtime::observers;
use crate::runtime::sync::OnceLock;
use crate::runtime::task::recording::Recording;
use crate::runtime::task::{DrainableStream, Task};
use crate::runtime::vector_clock::VectorClock;

/// A debugging mode asks for these calls by a bit of the [`observers`]; without one, streams do not make them.
pub(in crate::runtime) trait Observer: Sync {
    /// A task is about to be queued, or recorded by `recorder`. Fails with the reason why the task must not be submitted.
    fn check(&self, stream: &'static Stream, recorder: Option<&dyn Recorder>, task: &mut Task) -> Result<(), Error>;

    /// A checked task is about to be queued, with its entry in a trace.
    fn submitted(&self, stream: &'static Stream, task: &Task);

    /// A checked task is about to be queued. Returns the task to queue in its place.
    fn replace(&self, stream: &'static Stream, task: Task) -> Result<Task, Error>;

    /// A task was queued under that number.
    fn queued(&self, stream: &'static Stream, number: u64, name: &'static str);

    /// A task of the stream was run, or begun if it goes on elsewhere, in an order of tasks.
    fn ran(&self, stream: &Stream, name: &str);

    /// A thread waits until `target` tasks of the stream are done, and nothing has happened for `idle`. `None`: the thread waits as
    /// usual. Else it runs nothing itself, and the result is true if the observer has run a task. Fails with `TaskFailed` if the
    /// stream is stuck.
    fn help(&self, stream: &'static Stream, target: u64, idle: Duration) -> Result<Option<bool>, Error>;

    fn failed(&self, stream: &Stream, failure: &Error);

    /// Raises a failure of the device that stays.
    fn failure(&self, device: usize) -> Result<(), Error>;

    /// The host has asked whether a stream is done, and it was not.
    fn polled(&self, stream: &'static dyn DrainableStream);

    /// The host has waited, or is about to wait, for all tasks of the stream.
    fn host_waits_for(&self, stream: &dyn Timeline);

    /// The host, or a callback, goes on after the moment with that clock.
    fn host_waits(&self, clock: Option<&VectorClock>);

    /// The clock of the stream's tasks so far, for an event.
    fn clock(&self, stream: &'static Stream) -> VectorClock;

    /// Further tasks of the stream come after the recording.
    fn order(&self, stream: &'static Stream, recording: &Recording);

    /// True if the stream has nothing to do in simulated time.
    fn is_idle(&self, stream: &'static Stream) -> bool;
}

/// A recorder of the tasks of capturing streams.
pub(in crate::runtime) trait Recorder: Any + fmt::Debug + Send + Sync {
    /// Records a task of the stream. Fails with `InvalidArgument` if the recorder no longer records.
    fn record(&self, stream: &'static Stream, task: Task) -> Result<(), Error>;

    /// Refuses a call that cannot be recorded. `what` names the call and the reason, as the subject of a sentence.
    fn refuse(&self, what: &str) -> Error;

    /// Refuses (`InvalidArgument`) to wait for a device, if waits of this thread are not permitted.
    fn check_wait(&self, device: usize) -> Result<(), Error>;

    /// The number of the memory pool that allocations for its streams come from.
    fn pool(&self) -> u64;

    /// Keeps another private pool, which memory was taken from, in use.
    fn retain(&self, number: u64);

    /// The timeline that freed pinned host memory waits for.
    fn hold(&self) -> Result<&'static dyn Timeline, Error>;
}

pub(in crate::runtime) static OBSERVER: OnceLock<&'static dyn Observer> = OnceLock::new();

/// The observer, if one of these bits of the [`observers`] is set.
#[inline]
pub(in crate::runtime) fn observer(bits: u16) -> Option<&'static dyn Observer> {
    if observers::has(bits) { OBSERVER.get().copied() } else { None }
}
