//! Submission and waiting while a debugging mode is on.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use super::{Stream, Until};
use crate::runtime::debugging::{faults, schedule, watchdog};
use crate::runtime::executor::EXECUTOR;
use crate::runtime::sync::{Unlocked, sleep};
use crate::runtime::task::{DrainableStream, Payload, Task};
use crate::runtime::{Error, hardware};

/// How often a thread that can only wait polls.
const POLL: Duration = Duration::from_micros(50);

impl Stream {
    /// As [`Stream::enqueue`].
    pub(super) fn enqueue_debugged(&'static self, task: Task) -> Result<u64, Error> {
        let task = faults::arm(self, task)?;
        let name = task.name();
        let number = match task.payload {
            _ if schedule::is_on() => {
                self.hold_back();
                self.queue.push(task).0
            }
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

    /// Hands the stream to the compute threads if it has tasks and nobody drains it.
    pub(in crate::runtime) fn hand_over(&'static self) {
        if let Some(lease) = self.queue.own_ready() {
            self.release(lease);
        }
    }
}
