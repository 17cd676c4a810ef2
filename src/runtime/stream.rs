//! Streams: first-in first-out queues of tasks, drained by compute threads and by threads that wait.
//!
//! - A cheap kernel on an idle stream runs inline, on the submitting thread.
//! - Otherwise a stream with work is handed to the executor, whose compute threads drain it.
//! - A thread that waits for a stream drains it itself, and the streams whose events it waits for.
//! - Events, callbacks and sleeps never need a compute thread: the thread that owns the stream handles them.
//! - With installed hardware, kernels need no compute thread either: the owner hands them to the hardware ([`on_hardware`]).
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use super::config::config;
use super::error::{Cause, panic_text};
use super::executor::{EXECUTOR, Ready};
use super::gate::Pass;
use super::memory::Timeline;
use super::memory::access::Access;
use super::memory::caching_pool::GENERAL;
use super::name::Device;
use super::observers::{CLOCK, GUARDS, HARDWARE, RACES, SCHEDULE, STICKY, USAGE};
use super::queue::{InlineOwner, Queue};
use super::sync::{Arc, AtomicBool, Mutex, Ordering, unlocked};
use super::task::recording::Recording;
use super::task::{DrainableStream, Lease, Payload, Task, Work};
use super::trace::Mark;
use super::{Error, blocking_pool, exit, hardware, observers, timer, trace};
use crate::tuning::waking::{INLINE_COLD_NS, INLINE_HOT_NS, TURN_TASKS};

mod ahead;
mod debugged;
pub(super) mod loop_fusion;
pub(super) mod observer;
mod on_hardware;
pub(super) mod registry;
mod wait;

use observer::{Recorder, observer};
use wait::STANDSTILL;

thread_local! {
    /// The stream whose task this thread runs.
    static RUNNING: Cell<Option<&'static Stream>> = const { Cell::new(None) };
}

/// When a turn at draining ends.
#[derive(Clone, Copy)]
enum Until {
    /// When this many tasks are done.
    Done(u64),
    /// When an urgent stream is ready or, after a fair share of tasks, any other stream.
    Share,
    /// At the next kernel.
    Kernel,
}

/// A queue of tasks of one device, run in order. It lives to the end of the process.
pub struct Stream {
    device: usize,
    id: i64,
    priority: i32,
    pub(super) queue: Queue<Task>,
    /// True if `failure` holds a failure: kernels and callbacks are skipped until it is raised.
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// The recording that the head of the queue waits for; set before the lease is left with it.
    blocked: Mutex<Option<Arc<Recording>>>,
    /// True if the current task may be waiting for any other task: a callback, a kernel that is short of memory, or a task that a
    /// holder has. It becomes false only under a [`Pass`].
    may_wait: AtomicBool,
    /// True if `recorder` holds one.
    records: AtomicBool,
    /// The recorder that takes the stream's tasks instead of their being run.
    recorder: Mutex<Option<Arc<dyn Recorder>>>,
    hand_over: on_hardware::HandOver,
    window: ahead::Window,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} of device {}", self.id, Device(self.device))
    }
}

impl Timeline for Stream {
    fn device(&self) -> usize {
        self.device
    }

    fn id(&self) -> i64 {
        self.id
    }

    fn submitted(&self) -> u64 {
        self.queue.submitted()
    }

    fn completed(&self) -> u64 {
        self.queue.completed()
    }

    fn finish(&'static self) {
        self.finish_for_memory();
    }
}

impl DrainableStream for Stream {
    fn priority(&self) -> i32 {
        self.priority
    }

    fn skips(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || exit::is_exiting()
    }

    fn resume(&'static self, lease: Lease) {
        *self.blocked.lock() = None;
        self.release(lease);
    }

    fn go_on(&'static self, mut lease: Lease, failure: Option<&dyn fmt::Display>) {
        self.end_head(&mut lease, failure);
        self.move_on(lease);
    }

    fn finish_on_hardware(&'static self, lease: Lease, failure: Option<Cause>) {
        self.take_from_hardware(lease, failure.as_ref());
    }

    fn finish_ahead(&'static self, task: Task, number: u64, failure: Option<Cause>) {
        self.end_ahead(task, number, failure.as_ref());
    }

    fn run_for_hardware(&'static self, work: &mut dyn Work) -> Result<(), Cause> {
        let _outside = EXECUTOR.enter();
        match self.attempt(|| work.run()) {
            Ok(outcome) => outcome,
            Err(panic) => Err(panic_text(&*panic).into()),
        }
    }

    fn help_until(&'static self, target: u64) -> bool {
        match self.queue.own() {
            Some(lease) => {
                self.turn(lease, Until::Done(target));
                true
            }
            None => self.awaited().is_some_and(|recording| recording.stream.help_until(recording.number())),
        }
    }

    fn is_stuck(&'static self, on_hardware: bool) -> bool {
        self.may_wait.load(Ordering::Acquire)
            || on_hardware && self.is_on_hardware()
            || self.awaited().is_some_and(|recording| recording.stream.is_stuck(on_hardware))
    }

    #[inline]
    fn run_until(&'static self, target: u64) -> Result<(), Error> {
        if self.completed() >= target { Ok(()) } else { unlocked(|unlocked| self.run_tasks_until(target, unlocked)) }
    }

    #[inline]
    fn raise(&self) -> Result<(), Error> {
        self.raise_sticky()?;
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut failure = self.failure.lock();
        self.failed.store(false, Ordering::Release);
        failure.take().map_or(Ok(()), Err)
    }

    #[inline]
    fn raise_sticky(&self) -> Result<(), Error> {
        observer(STICKY).map_or(Ok(()), |observer| observer.failure(self.device))
    }
}

impl Ready for Stream {
    fn priority(&self) -> i32 {
        self.priority
    }

    fn serve(&'static self) {
        match self.queue.own_ready() {
            Some(lease) if observers::is_scheduled() => self.release(lease),
            Some(lease) => self.turn(lease, Until::Share),
            None => {}
        }
    }
}

impl Stream {
    pub(super) fn leak(device: usize, id: i64, priority: i32) -> &'static Self {
        Box::leak(Box::new(Self {
            device,
            id,
            priority,
            queue: Queue::default(),
            failed: AtomicBool::new(false),
            failure: Mutex::default(),
            blocked: Mutex::default(),
            may_wait: AtomicBool::new(false),
            records: AtomicBool::new(false),
            recorder: Mutex::default(),
            hand_over: on_hardware::HandOver::default(),
            window: ahead::Window::new(hardware::depth()),
        }))
    }

    #[inline]
    pub fn device(&self) -> usize {
        self.device
    }

    /// Its id, unique within the device.
    #[inline]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// 0 normal, -1 high.
    #[inline]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    #[inline]
    pub fn submitted(&self) -> u64 {
        self.queue.submitted()
    }

    #[inline]
    pub fn completed(&self) -> u64 {
        self.queue.completed()
    }

    /// True if nothing is queued or running. Fails with `InvalidArgument` while the stream captures.
    pub fn query(&'static self) -> Result<bool, Error> {
        self.refuse_capturing(|| "Stream.query()".to_owned())?;
        self.raise_sticky()?;
        let submitted = self.submitted();
        let is_done = self.completed() >= submitted;
        if let (true, Some(observer)) = (is_done, observer(CLOCK)) {
            return Ok(observer.is_idle(self));
        }
        if is_done {
            self.tell_host_waits();
        } else if let Some(observer) = observer(SCHEDULE) {
            observer.polled(self);
        }
        Ok(is_done)
    }

    /// True if tasks are recorded into a graph instead of run.
    #[inline]
    pub fn is_capturing(&self) -> bool {
        self.records.load(Ordering::Relaxed)
    }

    /// The recorder of the stream's tasks, while it captures.
    #[inline]
    pub(super) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        if self.is_capturing() { self.recorder.lock().clone() } else { None }
    }

    /// The number of the memory pool that allocations for the stream come from.
    #[inline]
    pub(super) fn private_pool(&self) -> u64 {
        self.recorder().map_or(GENERAL, |recorder| recorder.pool())
    }

    /// Makes the stream record its tasks; `false` if it has a recorder already.
    pub(super) fn start_recording(&self, recorder: Arc<dyn Recorder>) -> bool {
        let mut slot = self.recorder.lock();
        if slot.is_some() {
            return false;
        }
        *slot = Some(recorder);
        self.records.store(true, Ordering::Release);
        true
    }

    /// Makes the stream run its tasks again.
    pub(super) fn stop_recording(&self) {
        let mut slot = self.recorder.lock();
        *slot = None;
        self.records.store(false, Ordering::Release);
    }

    /// Refuses an operation that cannot be captured and invalidates the capture. `what` names the operation, as the subject of a
    /// sentence. Fails with `InvalidArgument` while the stream captures.
    #[inline]
    pub fn refuse_capturing(&self, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.recorder().map_or(Ok(()), |recorder| Err(recorder.refuse(&what())))
    }

    /// Enqueues a task, or runs it inline; while the stream captures, records it. Fails with the task's failure if
    /// `RUSTDEV_LAUNCH_BLOCKING` is on, and with `InvalidArgument` if the capture was invalidated.
    #[inline]
    pub fn submit(&'static self, mut task: Task) -> Result<(), Error> {
        if let Some(recorder) = self.recorder() {
            self.check(Some(&*recorder), &mut task)?;
            return recorder.record(self, task);
        }
        self.enqueue(task, config().launch_blocking).map(|_| ())
    }

    /// As [`Stream::submit`] for a kernel given in parts, which are copied into a task only if it cannot run at once.
    #[inline]
    pub fn launch<W: Work + Clone + 'static>(&'static self, name: &'static str, cost: u64, work: &mut W) -> Result<(), Error> {
        if config().launch_blocking || self.is_capturing() || observers::any() {
            return self.submit(Task::new(name, cost, work.clone()));
        }
        match self.own_idle(cost) {
            Some(inline_owner) => {
                self.run(name, None, || work.run());
                self.finish_inline(inline_owner);
            }
            None => drop(self.push(Task::new(name, cost, work.clone()))),
        }
        Ok(())
    }

    /// As [`Stream::submit`], whether or not the stream captures; returns the task's number. `blocking`: waits until the task has
    /// ended and raises its failure.
    pub(super) fn enqueue(&'static self, mut task: Task, blocking: bool) -> Result<u64, Error> {
        self.check(None, &mut task)?;
        self.enqueue_checked(task, blocking)
    }

    #[inline]
    fn check(&'static self, recorder: Option<&dyn Recorder>, task: &mut Task) -> Result<(), Error> {
        observer(RACES | GUARDS).map_or(Ok(()), |observer| observer.check(self, recorder, task))
    }

    /// Tells the observer that the host waits for the stream.
    #[inline]
    pub(super) fn tell_host_waits(&self) {
        if let Some(observer) = observer(RACES | CLOCK) {
            observer.host_waits_for(self);
        }
    }

    /// As [`Stream::enqueue`] of a task that was checked for races.
    pub(super) fn enqueue_checked(&'static self, mut task: Task, blocking: bool) -> Result<u64, Error> {
        if trace::is_on() && task.mark.is_none() {
            task.mark = trace::mark(self, task.name(), task.about());
        }
        let mark = task.mark.clone();
        if let Some(observer) = observer(CLOCK) {
            observer.submitted(self, &task);
        }
        let number = match task.payload {
            _ if observers::is_debugging() => self.enqueue_debugged(task)?,
            Payload::Kernel(_) if !hardware::is_installed() => self.enqueue_kernel(task),
            _ => self.enqueue_light(task),
        };
        if let Some(mark) = mark {
            mark.submitted();
        }
        if blocking && !self.is_running_here() {
            if let Some(observer) = observer(CLOCK) {
                observer.host_waits_for(self);
            }
            self.run_until(number)?;
            self.raise()?;
        }
        Ok(number)
    }

    /// As [`Stream::enqueue_checked`] of several tasks; calls `queued` with the number of each, or of the last one of several.
    /// Hardware that takes several tasks at a time gets them in few calls.
    pub(super) fn enqueue_all(
        &'static self,
        mut tasks: impl Iterator<Item = Task>,
        blocking: bool,
        mut queued: impl FnMut(u64),
    ) -> Result<(), Error> {
        if !self.window.is_wide() || blocking || observers::has(!(HARDWARE | USAGE)) {
            return tasks.try_for_each(|task| self.enqueue_checked(task, blocking).map(&mut queued));
        }
        loop {
            let group: Vec<_> = tasks.by_ref().take(self.window.depth()).collect();
            if group.is_empty() {
                return Ok(());
            }
            self.hold_back();
            let (number, lease) = self.queue.push_all_and_own(group);
            queued(number);
            self.go_on_after_push(lease);
        }
    }

    fn enqueue_kernel(&'static self, mut task: Task) -> u64 {
        let Some(inline_owner) = self.own_idle(task.cost()) else {
            return self.push(task);
        };
        let number = inline_owner.number();
        self.run_task(&mut task);
        drop(task);
        self.finish_inline(inline_owner);
        number
    }

    /// The right to run a kernel of that cost inline; `None` if the kernel should be queued.
    #[inline]
    fn own_idle(&'static self, cost: u64) -> Option<InlineOwner<'static, Task>> {
        EXECUTOR.note_submission();
        let inline_below = if EXECUTOR.is_searching() { INLINE_HOT_NS } else { INLINE_COLD_NS };
        if cost < inline_below { self.queue.own_idle() } else { None }
    }

    #[inline]
    fn finish_inline(&'static self, inline_owner: InlineOwner<'static, Task>) {
        if inline_owner.finish() {
            EXECUTOR.make_ready(self);
            STANDSTILL.tell();
        }
    }

    fn push(&'static self, task: Task) -> u64 {
        self.hold_back();
        let (number, hand_over) = self.queue.push(task);
        if hand_over {
            EXECUTOR.make_ready(self);
        }
        number
    }

    /// Enqueues an event, a callback, a sleep, or a kernel for installed hardware. If the stream is idle, the submitting thread
    /// handles it itself.
    fn enqueue_light(&'static self, task: Task) -> u64 {
        self.hold_back();
        let (number, lease) = self.queue.push_and_own(task);
        self.go_on_after_push(lease);
        number
    }

    /// Goes on after a submission: on an idle stream, whose lease comes with it, or on one whose window waits for it.
    fn go_on_after_push(&'static self, lease: Option<Lease>) {
        if let Some(lease) = lease.or_else(|| self.window.pushed()) {
            self.turn(lease, Until::Kernel);
        }
    }

    fn is_running_here(&self) -> bool {
        RUNNING.get().is_some_and(|running| std::ptr::eq(running, self))
    }

    /// Drains the stream until the turn ends, then passes the ownership on.
    fn turn(&'static self, mut lease: Lease, until: Until) {
        let (mut ran, on_hardware) = (0, hardware::is_installed());
        let scheduler = observer(SCHEDULE);
        let scheduled = scheduler.is_some();
        let feeds = on_hardware && self.window.is_wide();
        loop {
            if feeds {
                match self.feed(lease, scheduled) {
                    Some(returned) => lease = returned,
                    None => return,
                }
            }
            let Some(task) = lease.head() else { break };
            let name = task.name();
            let is_row = task.row().is_some() && !scheduled;
            let (mut finished, mut released) = (1, Vec::new());
            match &mut task.payload {
                Payload::Kernel(_) if on_hardware && self.skips() => {}
                // The window is empty: what was handed over has ended in the call, and this is the next kernel.
                Payload::Kernel(_) if feeds && !scheduled => {
                    finished = 0;
                    ran += 1;
                }
                Payload::Kernel(_) if on_hardware => match self.hand_over_kernel(lease, scheduled) {
                    Some(returned) => {
                        lease = returned;
                        finished = 0;
                        ran += 1;
                    }
                    None => return,
                },
                Payload::Kernel(_) if matches!(until, Until::Kernel) => break,
                Payload::Kernel(_) if is_row => finished = self.run_fused(&mut lease, until),
                Payload::Kernel(_) => self.run_task(task),
                Payload::Record(recording) => released = recording.reach(),
                Payload::Wait(recording) => {
                    let recording = Arc::clone(recording);
                    match self.wait_for(&recording, lease) {
                        Some(returned) => lease = returned,
                        None => return,
                    }
                }
                Payload::Leave(keeper) if keeper.is_over() => {}
                Payload::Leave(keeper) => {
                    let keeper = Arc::clone(keeper);
                    self.stand_at_a_wait();
                    return keeper.keep(self, lease);
                }
                Payload::Host(_) | Payload::Sleep(_) if self.skips() => {}
                Payload::Sleep(duration) if scheduled => {
                    task.mark.iter().for_each(Mark::begin);
                    debugged::sleep_here(*duration);
                    task.mark.iter().for_each(|mark| mark.end(false));
                }
                Payload::Host(_) => {
                    if let Some(scheduler) = scheduler {
                        scheduler.ran(self, name);
                    }
                    self.stand_at_a_wait();
                    return blocking_pool::run(move || self.finish_callback(lease));
                }
                Payload::Sleep(duration) => {
                    task.mark.iter().for_each(Mark::begin);
                    let deadline = Instant::now() + *duration;
                    return timer::at(deadline, move || self.finish_sleep(lease));
                }
            }
            if let Some(scheduler) = scheduler {
                scheduler.ran(self, name);
            }
            (0..finished).for_each(|_| lease.advance());
            for (stream, lease) in released {
                stream.resume(lease);
            }
            ran += finished;
            if self.is_over(until, ran) {
                break;
            }
        }
        self.release(lease);
    }

    fn is_over(&self, until: Until, ran: usize) -> bool {
        match until {
            Until::Done(target) => self.completed() >= target,
            Until::Share => EXECUTOR.is_wanted_elsewhere(self.priority, ran >= TURN_TASKS) || exit::is_exiting(),
            Until::Kernel => false,
        }
    }

    fn release(&'static self, lease: Lease) {
        if lease.release() && !observers::is_scheduled() {
            EXECUTOR.make_ready(self);
        }
        STANDSTILL.tell();
    }

    /// Marks the stream as being at a task that may be waiting for any other.
    fn stand_at_a_wait(&self) {
        self.may_wait.store(true, Ordering::Release);
        STANDSTILL.tell();
    }

    /// Leaves the lease with an event until it is reached; returns the lease if it is reached already.
    fn wait_for(&'static self, recording: &Arc<Recording>, lease: Lease) -> Option<Lease> {
        if recording.is_done() {
            return Some(lease);
        }
        *self.blocked.lock() = Some(Arc::clone(recording));
        STANDSTILL.tell();
        let returned = recording.wait(self, lease).err().map(|(_, lease)| lease);
        if returned.is_some() {
            *self.blocked.lock() = None;
        }
        returned
    }

    /// Runs the callback at the head, on a host thread.
    pub(super) fn finish_callback(&'static self, mut lease: Lease) {
        if let Some(_running) = exit::Running::start()
            && let Some(task) = lease.head()
        {
            if let Some(observer) = observer(RACES) {
                observer.host_waits(task.since.as_deref());
            }
            self.run_task(task);
        }
        // Advancing drops the callback, whose captured objects may need the GIL, so it comes before the pass is taken.
        lease.advance();
        self.move_on(lease);
    }

    fn move_on(&'static self, lease: Lease) {
        let pass = Pass::take();
        self.may_wait.store(false, Ordering::Release);
        drop(pass);
        if observers::is_scheduled() { self.release(lease) } else { self.turn(lease, Until::Kernel) }
    }

    /// Ends the sleep at the head, on the timer's thread.
    pub(super) fn finish_sleep(&'static self, mut lease: Lease) {
        if let Some(mark) = lease.head().and_then(|task| task.mark.as_ref()) {
            mark.end(false);
        }
        lease.advance();
        self.turn(lease, Until::Kernel);
    }

    /// Ends the task at the head, with its failure if there is one.
    fn end_head(&self, lease: &mut Lease, failure: Option<&dyn fmt::Display>) {
        if let (Some(cause), Some(task)) = (failure, lease.head()) {
            let name = task.name();
            self.poison(name, cause);
        }
        lease.advance();
    }

    /// Runs a kernel or a callback.
    #[inline]
    fn run_task(&'static self, task: &mut Task) {
        let name = task.name();
        if let Payload::Kernel(work) | Payload::Host(work) = &mut task.payload {
            self.run(name, task.mark.as_ref(), || work.run());
        }
    }

    #[inline]
    fn run(&'static self, name: &'static str, mark: Option<&Mark>, work: impl FnOnce() -> Result<(), Cause>) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        if let Some(mark) = mark {
            mark.begin();
        }
        let outcome = self.attempt(work);
        if let Some(mark) = mark {
            mark.end(!matches!(outcome, Ok(Ok(()))));
        }
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(cause)) => self.poison(name, &cause),
            Err(panic) => self.poison(name, &panic_text(&*panic)),
        }
    }

    /// Runs a task's work and returns its failure or its panic.
    #[inline]
    fn attempt(&'static self, work: impl FnOnce() -> Result<(), Cause>) -> thread::Result<Result<(), Cause>> {
        let _access = Access::open();
        RUNNING.with(|running| {
            let before = running.replace(Some(self));
            let outcome = catch_unwind(AssertUnwindSafe(work));
            running.set(before);
            outcome
        })
    }

    #[cold]
    fn poison(&self, name: &str, cause: &dyn fmt::Display) {
        let mut failure = self.failure.lock();
        let failure = failure.get_or_insert_with(|| Error::TaskFailed(format!("{name} failed on {self:?}: {cause}")));
        if let Some(observer) = observer(STICKY) {
            observer.failed(self, failure);
        }
        self.failed.store(true, Ordering::Release);
    }
}
