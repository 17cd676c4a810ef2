//! Tasks: one unit of device work each.
//!
//! A task has its operator's name, a cost estimate and the byte ranges that it reads and writes.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr::with_exposed_provenance_mut;
use std::time::Duration;

use super::error::{Cause, Error};
use super::memory::Timeline;
use super::queue::Owner;
use super::sync::Arc;
use super::trace::{About, Kind, Mark, MemoryKind};
use super::vector_clock::VectorClock;
use crate::tuning::sharing::FUSED_NS;

pub mod demand;
pub(super) mod recording;

use demand::{Demand, Products, Visit};
use recording::Recording;

/// A byte range that a task reads or writes; `end` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub begin: usize,
    pub end: usize,
    pub write: bool,
}

/// The tensor that an access belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    pub dtype: &'static str,
    /// Bytes of an element.
    pub item: usize,
    /// The address of the first element.
    pub begin: usize,
    pub sizes: &'a [i64],
    /// In bytes.
    pub strides: &'a [i64],
}

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.sizes)
    }
}

/// The device work of a task.
pub trait Work: Send {
    /// Runs the work: once or, if the task was captured in a graph ([`super::graph`]), once per replay, never two runs at a time.
    /// Fails with the cause, which the stream keeps together with the task's name.
    fn run(&mut self) -> Result<(), Cause>;

    /// Does what a dry run ([`super::debugging::dry_run`]) does in place of [`Work::run`]: nothing, unless the host reads a result.
    fn skip(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    /// Reports the memory that the work reads and writes, with the tensor of each access; `None` if the access covers all bytes of
    /// its range.
    fn operands(&self, _visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {}

    /// As [`Work::operands`], without the tensors.
    fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        self.operands(&mut |access, _| visit(access));
    }

    /// The work as an elementwise row, if it is one.
    fn row(&self) -> Option<&dyn Row> {
        None
    }

    /// The kind of the work, for a trace.
    fn about(&self) -> About {
        About::kind(Kind::Custom)
    }

    /// The matrix products that the work computes, for the clock of a profile.
    fn products(&self) -> Option<Products> {
        None
    }

    /// Reports what the work asks of a card; a replay of a graph reports each node, and returns true. `name`: that of the task.
    fn demands(&self, name: &'static str, visit: Visit<'_>) -> bool {
        visit(Demand::of(name, self.about(), self.products(), &|operands| self.operands(operands)), None);
        false
    }

    /// The plain byte copy that this work is, if it is nothing else; for installed hardware ([`super::hardware`]).
    fn transfer(&self) -> Option<Transfer> {
        None
    }

    /// Passes the call behind the work to `visit`, if there is one, for installed hardware that has its own kernels.
    fn call(&self, _visit: &mut dyn FnMut(&dyn Any)) {}

    /// The address of a written byte, chosen by a random number; `None` if the work writes nothing.
    fn output_byte(&self, random: u64) -> Option<usize> {
        let mut outputs = Vec::new();
        self.accesses(&mut |access| outputs.extend(access.write.then_some(access.begin..access.end)));
        let total: usize = outputs.iter().map(Range::len).sum();
        outputs.into_iter().flatten().nth((random % total.max(1) as u64) as usize)
    }
}

/// Elementwise work over a list of tensors whose elements are concatenated into one row. Any piece of the row can run by itself, in
/// any order, once the same piece of the preceding works has run.
pub trait Row: Sync {
    /// The end of each tensor's elements in the row. `None`: the work cannot run in pieces.
    fn ends(&self) -> Option<Vec<usize>>;

    /// Reports all memory that the work reads and writes.
    fn spans(&self, visit: &mut dyn FnMut(Span));

    /// Runs the elements `range` of the row. `ends`: the result of [`Row::ends`].
    fn run_piece(&self, ends: &[usize], range: Range<usize>) -> Result<(), Cause>;
}

/// Memory of a [`Row`]: the contiguous elements of one of its tensors, or memory that every piece may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub begin: usize,
    /// Exclusive.
    pub end: usize,
    /// The number of the tensor in the row; `None` if every piece may touch the memory.
    pub entry: Option<usize>,
    /// Bytes of an element.
    pub size: usize,
    pub write: bool,
}

/// A byte copy without a change of dtype; both sides are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The first byte that is read, and the kind of its memory.
    pub source: usize,
    pub from: MemoryKind,
    /// The first byte that is written, and the kind of its memory.
    pub target: usize,
    pub to: MemoryKind,
    /// The number of bytes, at least 1.
    pub bytes: usize,
}

impl Transfer {
    /// True if the source or the target is host memory.
    pub fn is_host(&self) -> bool {
        self.from.is_host() || self.to.is_host()
    }
}

/// The right to drain a stream; it does not know the stream.
pub(super) type Lease = Owner<'static, Task>;

/// The interface of a stream towards what it waits for and what holds its lease meanwhile.
pub(super) trait DrainableStream: Timeline {
    /// 0 normal, -1 high.
    fn priority(&self) -> i32;

    /// True if tasks are skipped.
    fn skips(&self) -> bool;

    /// Returns the lease from an event that was reached.
    fn resume(&'static self, lease: Lease);

    /// Returns the lease from the keeper that the stream waits for; the stream goes on after that task, with the failure if there
    /// is one.
    fn go_on(&'static self, lease: Lease, failure: Option<&dyn fmt::Display>);

    /// Returns the lease from the hardware, with the failure of its task if there is one, and goes on.
    fn finish_on_hardware(&'static self, lease: Lease, failure: Option<Cause>);

    /// Ends a task that the hardware had in the stream's window under that number, with its failure if there is one, and goes on.
    fn finish_ahead(&'static self, task: Task, number: u64, failure: Option<Cause>);

    /// Runs a task's work for the hardware, on this thread.
    fn run_for_hardware(&'static self, work: &mut dyn Work) -> Result<(), Cause>;

    /// Drains the stream, or the stream that it waits for, until `target` tasks are done; returns whether there was something to
    /// drain.
    fn help_until(&'static self, target: u64) -> bool;

    /// True if the stream is at a task that may be waiting for any other task, or at an event behind such a task.
    ///
    /// Two tasks that waited for each other would deadlock, and a callback may wait for anything. `on_hardware`: a task that
    /// installed hardware holds counts as such a task, too.
    fn is_stuck(&'static self, on_hardware: bool) -> bool;

    /// Waits until `target` tasks are done. Fails with `InvalidArgument` if a task of this stream calls it.
    fn run_until(&'static self, target: u64) -> Result<(), Error>;

    /// Raises the stored failure: once, unless failures stay.
    fn raise(&self) -> Result<(), Error>;

    /// Raises a failure of the device that stays.
    fn raise_sticky(&self) -> Result<(), Error>;
}

/// What a stream waits for at a [`Payload::Leave`] task.
pub(super) trait LeaseHolder: Send + Sync {
    /// True if there is nothing left to wait for.
    fn is_over(&self) -> bool;

    /// Keeps the stream's lease and finally calls [`DrainableStream::go_on`] with it, on a thread that may wait for a pass.
    fn keep(&self, stream: &'static dyn DrainableStream, lease: Lease);
}

/// The payload of a task; the variant decides which thread runs it.
pub(super) enum Payload {
    /// Device work; runs on the thread that drains the stream.
    Kernel(Box<dyn Work>),
    /// A host callback, which may block or call Python; runs on a host thread.
    Host(Box<dyn Work>),
    /// Keeps the stream busy for a duration without occupying a thread.
    Sleep(Duration),
    /// Completes an event's recording.
    Record(Arc<Recording>),
    /// Blocks the stream until that recording is complete.
    Wait(Arc<Recording>),
    /// Blocks the stream until its keeper lets it go on.
    Leave(Arc<dyn LeaseHolder>),
}

/// One piece of work for a stream.
pub struct Task {
    name: &'static str,
    cost: u64,
    pub(super) payload: Payload,
    /// Its entry in a trace, if one was recording at submission.
    pub(super) mark: Option<Mark>,
    /// The vector clock at the submission of a callback, if the race detector was on.
    pub(super) since: Option<Box<VectorClock>>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} of {} ns", self.name, self.cost)
    }
}

impl Task {
    /// Device work. `cost`: estimated nanoseconds of one thread.
    #[inline]
    pub fn new(name: &'static str, cost: u64, work: impl Work + 'static) -> Self {
        Self { name, cost, payload: Payload::Kernel(Box::new(work)), mark: None, since: None }
    }

    /// A host callback: may block, take locks, call Python.
    pub fn host(name: &'static str, work: impl Work + 'static) -> Self {
        Self { name, cost: 0, payload: Payload::Host(Box::new(work)), mark: None, since: None }
    }

    pub fn sleep(duration: Duration) -> Self {
        Self { name: "sleep", cost: 0, payload: Payload::Sleep(duration), mark: None, since: None }
    }

    pub(super) fn record(recording: Arc<Recording>) -> Self {
        Self { name: "event_record", cost: 0, payload: Payload::Record(recording), mark: None, since: None }
    }

    pub(super) fn wait(recording: Arc<Recording>) -> Self {
        Self { name: "event_wait", cost: 0, payload: Payload::Wait(recording), mark: None, since: None }
    }

    /// Leaves the stream's lease with `keeper`. A capture never records this task.
    pub(super) fn leave(name: &'static str, keeper: Arc<dyn LeaseHolder>) -> Self {
        Self { name, cost: 0, payload: Payload::Leave(keeper), mark: None, since: None }
    }

    #[inline]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Estimated nanoseconds of one thread.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// True for kernels and callbacks.
    pub(super) fn has_work(&self) -> bool {
        matches!(self.payload, Payload::Kernel(_) | Payload::Host(_))
    }

    /// The same task with its work wrapped.
    pub(super) fn with_work<W: Work + 'static>(self, wrap: impl FnOnce(Box<dyn Work>) -> W) -> Self {
        let payload = match self.payload {
            Payload::Kernel(work) => Payload::Kernel(Box::new(wrap(work))),
            Payload::Host(work) => Payload::Host(Box::new(wrap(work))),
            other => other,
        };
        Self { payload, ..self }
    }

    /// The device work of a kernel; other tasks are returned as they are.
    pub(super) fn into_kernel(self) -> Result<Box<dyn Work>, Self> {
        match self.payload {
            Payload::Kernel(work) => Ok(work),
            payload => Err(Self { payload, ..self }),
        }
    }

    /// The same task with its entry in a trace, if it has one.
    pub(super) fn with_mark(self, mark: Option<Mark>) -> Self {
        Self { mark, ..self }
    }

    /// Reports the memory that the task reads and writes.
    pub fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        if let Payload::Kernel(work) | Payload::Host(work) = &self.payload {
            work.accesses(visit);
        }
    }

    /// The description for a trace; `None` for events and keepers, which are no work.
    pub(super) fn about(&self) -> Option<About> {
        match &self.payload {
            Payload::Kernel(work) => Some(work.about()),
            Payload::Host(_) => Some(About::kind(Kind::Host)),
            Payload::Sleep(_) => Some(About::kind(Kind::Sleep)),
            Payload::Record(_) | Payload::Wait(_) | Payload::Leave(_) => None,
        }
    }

    /// The demand of a kernel; `None` for other tasks.
    pub(super) fn demand(&self) -> Option<Demand> {
        let mut found = None;
        if let Payload::Kernel(work) = &self.payload {
            work.demands(self.name, &mut |demand, _| found = Some(demand));
        }
        found
    }

    /// As [`Task::accesses`], with the tensor of each access: see [`Work::operands`].
    pub(super) fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        if let Payload::Kernel(work) | Payload::Host(work) = &self.payload {
            work.operands(visit);
        }
    }

    /// The plain byte copy that the task is: see [`Work::transfer`].
    pub(super) fn transfer(&self) -> Option<Transfer> {
        match &self.payload {
            Payload::Kernel(work) => work.transfer(),
            _ => None,
        }
    }

    pub(super) fn is_callback(&self) -> bool {
        matches!(self.payload, Payload::Host(_))
    }

    /// The device work as a row of elements, if it is one and costs at least [`FUSED_NS`].
    pub(super) fn row(&self) -> Option<&dyn Row> {
        match &self.payload {
            Payload::Kernel(work) if self.cost >= FUSED_NS => work.row(),
            _ => None,
        }
    }
}

impl dyn Work + '_ {
    /// Flips a random bit of the memory that the work has just written.
    pub(super) fn flip_bit(&self, random: u64) {
        let Some(address) = self.output_byte(random >> 3) else { return };
        let byte = with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the work writes that byte itself, and its stream is still at this task, so nobody else may access it.
        unsafe { *byte ^= 1 << (random & 7) };
    }
}

/// Work made of a closure.
pub struct Closure<F> {
    body: F,
    access: Option<Access>,
}

impl<F: FnMut() -> Result<(), Cause> + Send> Closure<F> {
    /// Work that reports no memory accesses.
    pub fn new(body: F) -> Self {
        Self { body, access: None }
    }

    /// Work that reports one access.
    pub(super) fn with_access(access: Access, body: F) -> Self {
        Self { body, access: Some(access) }
    }
}

impl<F: FnMut() -> Result<(), Cause> + Send> Work for Closure<F> {
    fn run(&mut self) -> Result<(), Cause> {
        (self.body)()
    }

    fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        self.access.iter().for_each(|access| visit(*access, None));
    }
}
