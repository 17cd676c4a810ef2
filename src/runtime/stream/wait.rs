//! Waiting for a stream: the waiting thread drains the stream itself where it can, and sleeps only while another thread does. A
//! stream waits for another one by its recording.

use std::time::Instant;

use super::observer::observer;
use super::{RUNNING, Stream};
use crate::runtime::config::config;
use crate::runtime::executor::EXECUTOR;
use crate::runtime::gate::Pass;
use crate::runtime::observers::{CLOCK, RACES};
use crate::runtime::standstill::{Awaitable, Standstill};
use crate::runtime::sync::{Arc, LazyLock, Ordering, Unlocked, spin_loop, unlocked};
use crate::runtime::task::recording::Recording;
use crate::runtime::task::{DrainableStream, Task};
use crate::runtime::{Error, observers, open_loops};
use crate::tuning::waking::{BACKLOG_TASKS, LOOK_ON};

/// The threads that wait for a stream only as long as it may proceed.
pub(super) static STANDSTILL: LazyLock<Standstill<StreamSeen>> = LazyLock::new(Standstill::default);

/// A stream, and whether a task that installed hardware holds counts as one that may be waiting for any other.
#[derive(Clone, Copy)]
pub(super) struct StreamSeen(&'static Stream, bool);

impl PartialEq for StreamSeen {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Awaitable for StreamSeen {
    fn is_done(self, target: u64) -> bool {
        self.0.completed() >= target
    }

    fn is_stuck(self) -> bool {
        self.0.is_stuck(self.1)
    }

    fn help_until(self, target: u64) -> bool {
        self.0.help_until(target)
    }

    fn sleep_unless(self, target: u64, is_over: impl Fn() -> bool, unlocked: &Unlocked) {
        self.0.queue.sleep_unless(target, is_over, unlocked);
    }

    fn wake(self) {
        self.0.queue.wake();
    }
}

impl Stream {
    /// Back-pressure: a submitter that is too far ahead helps or waits, unless the stream is [stuck](DrainableStream::is_stuck) at
    /// a task that may be waiting for the submitter.
    pub(super) fn hold_back(&'static self) {
        let submitted = self.submitted();
        if submitted.wrapping_sub(self.completed()) < BACKLOG_TASKS || self.is_running_here() {
            return;
        }
        let target = submitted - BACKLOG_TASKS / 2;
        if observers::is_watched() {
            // Only compute threads may run tasks that may hang. The wait ends with the watchdog's verdict, which other waits raise.
            let _ = unlocked(|unlocked| self.run_debugged_until(target, || self.is_stuck(false), unlocked));
        } else {
            self.run_until_stuck(target, false);
        }
    }

    /// Runs tasks and waits until `target` tasks are done or the stream [is stuck](DrainableStream::is_stuck): it goes on only
    /// under a pass.
    pub(in crate::runtime) fn run_until_stuck(&'static self, target: u64, on_hardware: bool) {
        if self.completed() < target {
            unlocked(|unlocked| STANDSTILL.wait(StreamSeen(self, on_hardware), target, unlocked));
        }
    }

    /// Waits for everything that was submitted so far. Fails with the failure of a task, once, and with `InvalidArgument` from a
    /// task of this stream and while the stream captures.
    #[inline]
    pub fn synchronize(&'static self) -> Result<(), Error> {
        self.synchronize_for(|| "Stream.synchronize()".to_owned())
    }

    /// As [`Stream::synchronize`]. `what` names the caller, for the error while the stream captures.
    #[inline]
    pub fn synchronize_for(&'static self, what: impl FnOnce() -> String) -> Result<(), Error> {
        self.refuse_capturing(what)?;
        self.tell_host_waits();
        self.finish()?;
        self.raise()
    }

    /// Waits until the stream's memory may be free. Failures are kept for its next synchronising call.
    ///
    /// On a thread that runs a task, it gives up if the stream may be waiting for that very task: see
    /// [`DrainableStream::is_stuck`]. For a task of installed hardware, it gives up on any stream whose task the hardware has,
    /// which may be queued behind this task.
    pub(in crate::runtime) fn finish_for_memory(&'static self) {
        let Some(running) = RUNNING.get() else {
            // `finish` fails only on a thread that runs a task of the stream; this thread runs none.
            let _ = self.finish();
            return;
        };
        let before = running.may_wait.swap(true, Ordering::AcqRel);
        STANDSTILL.tell();
        let (target, on_hardware) = (self.submitted(), running.is_on_hardware());
        let may_wait = !(on_hardware && observers::is_scheduled());
        if may_wait {
            self.run_until_stuck(target, on_hardware);
        }
        let _pass = Pass::take();
        running.may_wait.store(before, Ordering::Release);
    }

    /// As [`Stream::synchronize`], without raising the failure of a task.
    #[inline]
    pub(in crate::runtime) fn finish(&'static self) -> Result<(), Error> {
        self.run_until(self.submitted())
    }

    /// Waits until `target` tasks are done, running them on this thread as far as possible.
    pub(super) fn run_tasks_until(&'static self, target: u64, unlocked: &Unlocked) -> Result<(), Error> {
        if self.is_running_here() {
            return Err(Error::InvalidArgument(format!("a task of {self:?} cannot wait for that stream")));
        }
        if observers::is_debugging() {
            return self.run_debugged_until(target, || false, unlocked);
        }
        while self.completed() < target {
            let outside = EXECUTOR.enter();
            let progress = self.help_until(target) || self.look_on(target);
            drop(outside);
            if !progress {
                self.queue.sleep(target, unlocked);
            }
        }
        Ok(())
    }

    /// Puts a recording on the stream, whether or not it captures.
    pub(in crate::runtime) fn record(&'static self, timing: bool) -> Result<Arc<Recording>, Error> {
        let clock = observer(RACES).map(|observer| observer.clock(self));
        let recording = Arc::new(Recording::new(self, timing, clock));
        recording.set_number(self.enqueue(Task::record(Arc::clone(&recording)), false)?);
        Ok(recording)
    }

    /// Makes further tasks of the stream wait for the recording. Fails as [`Stream::submit`] does, and with `InvalidArgument` while
    /// the stream captures.
    pub(in crate::runtime) fn wait_behind(&'static self, recording: Arc<Recording>) -> Result<(), Error> {
        self.refuse_capturing(|| "waiting for an event that was recorded outside of the capture".to_owned())?;
        if let Some(observer) = observer(RACES | CLOCK) {
            observer.order(self, &recording);
        }
        if recording.is_done() {
            return Ok(());
        }
        self.enqueue(Task::wait(recording), config().launch_blocking).map(|_| ())
    }

    /// The unreached recording that the head of the stream waits for.
    pub(in crate::runtime) fn awaited(&self) -> Option<Arc<Recording>> {
        self.blocked.lock().clone().filter(|recording| !recording.is_done())
    }

    /// Waits while another thread drains the stream, and helps with its loops; returns true if the target was reached.
    pub(super) fn look_on(&self, target: u64) -> bool {
        let _onlooker = open_loops::look_on();
        let (mut seen, mut idle_since) = (self.completed(), Instant::now());
        loop {
            let mut helped = false;
            for _ in 0..64 {
                if self.completed() >= target {
                    return true;
                }
                helped |= open_loops::is_open() && open_loops::help();
                spin_loop();
            }
            let done = self.completed();
            if helped || done != seen {
                (seen, idle_since) = (done, Instant::now());
            }
            if idle_since.elapsed() > LOOK_ON {
                return false;
            }
        }
    }
}
