//! Submission and waiting while a debugging mode is on.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use super::{Stream, Until};
use crate::runtime::debugging::{faults, schedule, watchdog};
use crate::runtime::executor::EXECUTOR;
use crate::runtime::sync::{Unlocked, sleep};
use crate::runtime::task::{Drained, Payload, Task};
use crate::runtime::{Error, hardware};

/// How often a thread that can only wait polls.
const POLL: Duration = Duration::from_micros(50);

impl Stream {
    /// As [`Stream::enqueue`].
    pub(super) fn enqueue_debugged(&'static self, task: Task) -> Result<u64, Error> {
        let task = faults::arm(self, task)?;
        let name = task.name();
        let number = match task.payload {
            _ if schedule::is_on() => self.queue_up(task),
            Payload::Kernel(_) if hardware::is_installed() => self.enqueue_light(task),
            Payload::Kernel(_) if watchdog::is_watching() => self.push(task),
            Payload::Kernel(_) => self.enqueue_kernel(task),
            _ => self.enqueue_light(task),
        };
        if watchdog::is_watching() {
            self.watch.note(number, name, self.completed());
        }
        if schedule::is_on() {
            schedule::after_submission();
        }
        Ok(number)
    }

    /// Queues a task, to be run in the order that is on.
    fn queue_up(&'static self, task: Task) -> u64 {
        self.hold_back();
        self.queue.push(task).0
    }

    /// Waits until `target` tasks are done.
    pub(super) fn run_debugged_until(&'static self, target: u64, unlocked: &Unlocked) -> Result<(), Error> {
        let mut idle_since = Instant::now();
        while self.completed() < target {
            self.watch.check(self.completed())?;
            let outside = EXECUTOR.enter();
            let progress = if schedule::is_on() {
                schedule::help(self, target, idle_since.elapsed())
            } else {
                !watchdog::is_watching() && self.help_until(target) || self.look_on(target)
            };
            drop(outside);
            if progress {
                idle_since = Instant::now();
            } else {
                sleep(POLL, unlocked);
            }
        }
        Ok(())
    }

    /// Waits while no task of the stream ends, at most for `patience`; returns true if none has ended.
    pub(super) fn is_stalled_for(&self, patience: Duration, unlocked: &Unlocked) -> bool {
        let (seen, since) = (self.completed(), Instant::now());
        while self.completed() == seen && since.elapsed() < patience {
            sleep(POLL, unlocked);
        }
        self.completed() == seen
    }

    /// Runs tasks until `target` are done, unless another thread drains the stream; returns true if this thread drained it.
    pub(in crate::runtime) fn step(&'static self, target: u64) -> bool {
        self.queue.own().map(|lease| self.turn(lease, Until::Done(target))).is_some()
    }

    /// True if tasks are queued and nobody drains the stream.
    pub(in crate::runtime) fn is_ready(&self) -> bool {
        self.queue.is_ready()
    }

    /// True if somebody drains the stream or holds its lease while the head waits.
    pub(in crate::runtime) fn is_owned(&self) -> bool {
        self.queue.is_owned()
    }

    /// Hands the stream to the compute threads if it has tasks and nobody drains it.
    pub(in crate::runtime) fn hand_over(&'static self) {
        if let Some(lease) = self.queue.own_ready() {
            self.release(lease);
        }
    }

    /// The watchdog's data about the stream.
    pub(in crate::runtime) fn watch(&self) -> &watchdog::Watch {
        &self.watch
    }
}
