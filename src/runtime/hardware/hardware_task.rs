//! [`HardwareTask`]: a task that was handed to the hardware.

use std::any::Any;
use std::fmt;

use crate::runtime::error::Cause;
use crate::runtime::exit::Running;
use crate::runtime::memory::access::Access as MemoryAccess;
use crate::runtime::task::{Access, DrainableStream, Lease, Payload, Shape, Task, Transfer};
use crate::runtime::trace::About;

/// A task for the hardware to run. Its stream continues when it is [finished](HardwareTask::finish). If it is dropped, it has
/// failed.
#[must_use = "a task that is dropped has failed"]
pub struct HardwareTask {
    stream: &'static dyn DrainableStream,
    /// `None` once the task has ended.
    held: Option<Held>,
    has_begun: bool,
    /// Until its end, the task counts as running and has access to isolated memory.
    holds: Option<(Running, Option<MemoryAccess>)>,
}

/// Where the task is.
enum Held {
    /// At the head of its stream, whose lease this is.
    Head(Lease),
    /// In the stream's window, under that number.
    Ahead(Task, u64),
}

impl fmt::Debug for HardwareTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.name(), self.stream)
    }
}

impl HardwareTask {
    /// The kernel at the head of a stream. `running` counts it until its end.
    pub(in crate::runtime) fn new(stream: &'static dyn DrainableStream, lease: Lease, running: Running) -> Self {
        Self::of(stream, Held::Head(lease), running)
    }

    /// A kernel that was taken out of a stream, with its number in the stream's window.
    pub(in crate::runtime) fn ahead(stream: &'static dyn DrainableStream, task: Task, number: u64, running: Running) -> Self {
        Self::of(stream, Held::Ahead(task, number), running)
    }

    fn of(stream: &'static dyn DrainableStream, held: Held, running: Running) -> Self {
        Self { stream, held: Some(held), has_begun: false, holds: Some((running, MemoryAccess::open())) }
    }

    fn task(&self) -> Option<&Task> {
        match self.held.as_ref()? {
            Held::Head(lease) => lease.waiting().first()?.as_ref(),
            Held::Ahead(task, _) => Some(task),
        }
    }

    pub fn device(&self) -> usize {
        self.stream.device()
    }

    /// The id of its stream, unique within the device. Streams live to the end of the process.
    pub fn stream(&self) -> i64 {
        self.stream.id()
    }

    /// The priority of its stream: 0 normal, -1 high.
    pub fn priority(&self) -> i32 {
        self.stream.priority()
    }

    /// The operator's name, as errors and profiles show it.
    pub fn name(&self) -> &'static str {
        self.task().map_or("", Task::name)
    }

    /// Estimated nanoseconds on one thread of this processor; 0 if unknown.
    pub fn cost(&self) -> u64 {
        self.task().map_or(0, Task::cost)
    }

    /// The kind of its work (kernel of the operator table, of PyTorch or of another library, copy, or fill), and the bytes that a
    /// copy or a fill writes.
    pub fn about(&self) -> Option<About> {
        self.task().and_then(Task::about)
    }

    /// The plain byte copy that it is, for [`Hardware::copy`](super::Hardware::copy); `None` for a launch.
    pub fn transfer(&self) -> Option<Transfer> {
        self.task().and_then(Task::transfer)
    }

    /// True if the task must not compute, because a task of its stream has failed or the process ends. Only a task that was handed
    /// over ahead of its turn can become so. [`HardwareTask::run`] does nothing then; hardware that works without `run` asks this
    /// at the task's turn, and finishes the task without an error.
    pub fn is_skipped(&self) -> bool {
        matches!(self.held, Some(Held::Ahead(..))) && self.stream.skips()
    }

    /// Reports the byte ranges that it accesses: device memory, unless it is a host copy with injected faults.
    pub fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        if let Some(task) = self.task() {
            task.accesses(visit);
        }
    }

    /// As [`HardwareTask::accesses`], with dtype, sizes and strides; `None` if the access covers all bytes of its range.
    pub fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        if let Some(task) = self.task() {
            task.operands(visit);
        }
    }

    /// Passes the call behind the task to `visit`, for hardware with kernels of its own: a
    /// [`KernelCall`](crate::abi::rd_launch::KernelCall), with operands and scalars, for a kernel of the operator table. For other
    /// code, such as that of other libraries, `visit` is not called and [`HardwareTask::run`] is the only way.
    pub fn call(&self, visit: &mut dyn FnMut(&dyn Any)) {
        if let Some(Payload::Kernel(work)) = self.task().map(|task| &task.payload) {
            work.call(visit);
        }
    }

    /// Notes that the hardware starts the task now, which is its start in traces. Otherwise [`HardwareTask::run`] is the start.
    pub fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(mark) = self.task().and_then(|task| task.mark.as_ref())
        {
            mark.begin();
        }
    }

    /// Runs its work with the processor, on this thread, which may use the compute threads for parallel loops. Fails with the cause
    /// of its failure, or the text of its panic. Does nothing if the task [is skipped](HardwareTask::is_skipped).
    pub fn run(&mut self) -> Result<(), Cause> {
        if self.is_skipped() {
            return Ok(());
        }
        self.begin();
        let task = match self.held.as_mut() {
            Some(Held::Head(lease)) => lease.head(),
            Some(Held::Ahead(task, _)) => Some(task),
            None => None,
        };
        match task.map(|task| &mut task.payload) {
            Some(Payload::Kernel(work)) => self.stream.run_for_hardware(&mut **work),
            _ => Ok(()),
        }
    }

    /// Ends the task. Its stream continues immediately on this thread, as far as it needs no compute thread: the next task reaches
    /// the hardware before this returns. The task's writes must be in memory before the call. The thread may be any.
    ///
    /// With an error, the stream stores its text and skips further tasks, and the next call that waits for the stream raises, as
    /// for any failing task.
    pub fn finish(mut self, outcome: Result<(), Cause>) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Result<(), Cause>) {
        if self.has_begun || !self.is_skipped() {
            self.begin();
            if let Some(mark) = self.task().and_then(|task| task.mark.as_ref()) {
                mark.end(outcome.is_err());
            }
        }
        self.holds = None;
        match self.held.take() {
            Some(Held::Head(lease)) => self.stream.finish_on_hardware(lease, outcome.err()),
            Some(Held::Ahead(task, number)) => self.stream.finish_ahead(task, number, outcome.err()),
            None => {}
        }
    }
}

impl Drop for HardwareTask {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.end(Err("the hardware dropped it".into()));
        }
    }
}
