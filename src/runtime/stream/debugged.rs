//! Submission and waiting while a debugging mode is on.

use std::time::{Duration, Instant};

use super::observer::observer;
use super::{Stream, Until};
use crate::runtime::executor::EXECUTOR;
use crate::runtime::observers::{self, DEBUGGING, SCHEDULE, WATCHDOG};
use crate::runtime::sync::{Unlocked, sleep, unlocked};
use crate::runtime::task::{DrainableStream, Payload, Task};
use crate::runtime::{Error, exit, hardware};

/// How often a thread that can only wait polls.
const POLL: Duration = Duration::from_micros(50);
/// How long a sleeping thread may take to notice that the process exits.
const NAP: Duration = Duration::from_millis(50);

impl Stream {
    pub(super) fn enqueue_debugged(&'static self, task: Task) -> Result<u64, Error> {
        let task = match observer(DEBUGGING) {
            Some(observer) => observer.replace(self, task)?,
            None => task,
        };
        let name = task.name();
        let number = match task.payload {
            _ if observers::is_scheduled() => {
                self.hold_back();
                self.queue.push(task).0
            }
            Payload::Kernel(_) if hardware::is_installed() => self.enqueue_light(task),
            Payload::Kernel(_) if observers::is_watched() => self.push(task),
            Payload::Kernel(_) => self.enqueue_kernel(task),
            _ => self.enqueue_light(task),
        };
        if let Some(observer) = observer(WATCHDOG | SCHEDULE) {
            observer.queued(self, number, name);
        }
        Ok(number)
    }

    /// Waits until `target` tasks are done or `is_over` returns true.
    pub(super) fn run_debugged_until(
        &'static self,
        target: u64,
        is_over: impl Fn() -> bool,
        unlocked: &Unlocked,
    ) -> Result<(), Error> {
        let mut idle_since = Instant::now();
        while self.completed() < target && !is_over() {
            let outside = EXECUTOR.enter();
            let helped =
                observer(WATCHDOG | SCHEDULE).map_or(Ok(None), |observer| observer.help(self, target, idle_since.elapsed()))?;
            let progress = helped.unwrap_or_else(|| !observers::is_watched() && self.help_until(target) || self.look_on(target));
            drop(outside);
            if progress {
                idle_since = Instant::now();
            } else {
                sleep(POLL, unlocked);
            }
        }
        Ok(())
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

/// Sleeps on this thread, at most until the process exits.
pub(super) fn sleep_here(duration: Duration) {
    let begin = Instant::now();
    unlocked(|unlocked| {
        while !exit::is_exiting() && begin.elapsed() < duration {
            sleep(NAP.min(duration.saturating_sub(begin.elapsed())), unlocked);
        }
    });
}
