//! [`HardwareTask`]: a task whose turn has come, in the hands of the hardware.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt;

use crate::runtime::error::Cause;
use crate::runtime::exit::Running;
use crate::runtime::memory::access::Access as MemoryAccess;
use crate::runtime::task::{Access, Drained, Lease, Payload, Shape, Task};
use crate::runtime::trace::About;

/// A task that the hardware has to run. Its stream goes on when it is [finished](HardwareTask::finish); dropped, it has failed.
#[must_use = "a task that is dropped has failed"]
pub struct HardwareTask {
    stream: &'static dyn Drained,
    /// The stream's ownership, with the task at its head; gone when the task has ended.
    lease: Option<Lease>,
    has_begun: bool,
    /// Counted as running, and with access to isolated memory, until it ends.
    holds: Option<(Running, Option<MemoryAccess>)>,
}

impl fmt::Debug for HardwareTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.name(), self.stream)
    }
}

impl HardwareTask {
    /// The kernel at the head of a stream. `running`: counts it until it ends.
    pub(in crate::runtime) fn new(stream: &'static dyn Drained, lease: Lease, running: Running) -> Self {
        Self { stream, lease: Some(lease), has_begun: false, holds: Some((running, MemoryAccess::open())) }
    }

    fn task(&self) -> Option<&Task> {
        self.lease.as_ref()?.waiting().first()?.as_ref()
    }

    /// The index of its device.
    pub fn device(&self) -> usize {
        self.stream.device()
    }

    /// The number of its stream, unique in the device. A stream lives to the end of the process.
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

    /// Estimated nanoseconds of one thread of this processor; 0 where nobody knows.
    pub fn cost(&self) -> u64 {
        self.task().map_or(0, Task::cost)
    }

    /// Whether it is a kernel of the operator table, a copy, a fill, PyTorch's or another library's, with the bytes that a copy or fill writes.
    pub fn about(&self) -> Option<About> {
        self.task().and_then(Task::about)
    }

    /// Names the byte ranges that it reads and writes: device memory, but for a copy that faults were injected into.
    pub fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        if let Some(task) = self.task() {
            task.accesses(visit);
        }
    }

    /// As [`HardwareTask::accesses`], each with dtype, sizes and strides; `None` where all bytes of the range are meant.
    pub fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        if let Some(task) = self.task() {
            task.operands(visit);
        }
    }

    /// Shows the call behind it, for hardware with kernels of its own: a [`KernelCall`](crate::abi::rd_launch::KernelCall) for one of the
    /// operator table, with operands and scalars. Where none is shown, [`HardwareTask::run`] is the only way, as for code of other libraries.
    pub fn call(&self, visit: &mut dyn FnMut(&dyn Any)) {
        if let Some(Payload::Kernel(work)) = self.task().map(|task| &task.payload) {
            work.call(visit);
        }
    }

    /// Notes that the hardware starts it now: traces show its time from here. Otherwise from [`HardwareTask::run`] on.
    pub fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(mark) = self.task().and_then(|task| task.mark.as_ref())
        {
            mark.begin();
        }
    }

    /// Does its work with the processor, on this thread, which may split it over the compute threads.
    ///
    /// # Errors
    /// The cause of its failure, or the text of its panic.
    pub fn run(&mut self) -> Result<(), Cause> {
        self.begin();
        let task = self.lease.as_mut().and_then(Lease::head);
        match task.map(|task| &mut task.payload) {
            Some(Payload::Kernel(work)) => self.stream.run_for_hardware(work),
            _ => Ok(()),
        }
    }

    /// Ends it; its stream goes on, at once and on this thread, as far as it needs no compute thread: the next task comes to the hardware
    /// before this returns. What it wrote is in memory by now.
    ///
    /// With an error the stream keeps its text, skips what follows, and the next call that waits for it raises: as for a task that fails.
    pub fn finish(mut self, outcome: Result<(), Cause>) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Result<(), Cause>) {
        self.begin();
        if let Some(mark) = self.task().and_then(|task| task.mark.as_ref()) {
            mark.end(outcome.is_err());
        }
        self.holds = None;
        if let Some(lease) = self.lease.take() {
            self.stream.finish_on_hardware(lease, outcome.err());
        }
    }
}

impl Drop for HardwareTask {
    fn drop(&mut self) {
        if self.lease.is_some() {
            self.end(Err("the hardware dropped it".into()));
        }
    }
}
