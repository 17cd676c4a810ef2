//! Tasks that hardware with command queues gets ahead of their turn.
//!
//! The thread that drains the stream hands kernels over as long as its [window](crate::runtime::window) has room, and leaves the
//! lease with the window. Recordings of events between kernels stay in the window until the kernels before them have ended.
//! Anything else waits until the window is empty, and is then handled as on a stream without a window.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::wait::STANDSTILL;
use super::{Stream, Until};
use crate::runtime::error::{Cause, panic_text};
use crate::runtime::hardware::{self, HardwareTask};
use crate::runtime::sync::Arc;
use crate::runtime::task::recording::Recording;
use crate::runtime::task::{DrainableStream, Lease, Payload, Task};
use crate::runtime::window::{self, Need, Parked};
use crate::runtime::{exit, observers};

pub(super) type Window = window::Window<Lease, Arc<Recording>>;

impl Stream {
    /// Hands over what may go ahead; in an order of tasks (`scheduled`) nothing. Returns the lease if the hardware has no task of
    /// the stream; otherwise the window has it.
    pub(super) fn feed(&'static self, mut lease: Lease, scheduled: bool) -> Option<Lease> {
        loop {
            let (tasks, need) = if scheduled { (Vec::new(), Need::End) } else { self.take_ahead(&mut lease) };
            self.submit_ahead(tasks);
            match self.window.leave(lease, need) {
                Parked::Kept => return None,
                Parked::Again(returned) => lease = returned,
                Parked::Empty(returned) => return Some(returned),
            }
        }
    }

    /// Takes the tasks that may go ahead out of the stream, and says what is needed for more.
    fn take_ahead(&'static self, lease: &mut Lease) -> (Vec<HardwareTask>, Need) {
        let mut tasks = Vec::new();
        loop {
            let Some(task) = lease.head() else { return (tasks, Need::Item) };
            match &task.payload {
                Payload::Kernel(_) if !self.skips() => {
                    // If the process is ending, the kernel is skipped at its turn.
                    let Some(running) = exit::Running::start() else { return (tasks, Need::End) };
                    let Some(number) = self.window.admit() else { return (tasks, Need::Place) };
                    tasks.extend(lease.take().map(|task| HardwareTask::ahead(self, task, number, running)));
                }
                Payload::Record(recording) if self.window.pass(Some(Arc::clone(recording))) => _ = lease.take(),
                Payload::Wait(recording) if recording.is_done() && self.window.pass(None) => _ = lease.take(),
                _ => return (tasks, Need::End),
            }
        }
    }

    fn submit_ahead(&'static self, tasks: Vec<HardwareTask>) {
        let (Some(installed), Some(first)) = (hardware::installed(), tasks.first()) else { return };
        let name = first.name();
        STANDSTILL.tell();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| installed.submit(tasks))) {
            self.poison(name, &panic_text(&*panic));
        }
    }

    /// As [`DrainableStream::finish_ahead`].
    pub(super) fn end_ahead(&'static self, task: Task, number: u64, failure: Option<&Cause>) {
        if let Some(cause) = failure {
            self.poison(task.name(), cause as &dyn Display);
        }
        drop(task);
        let mut released = Vec::new();
        let lease = self.window.end(number, |recording| {
            released.extend(recording.iter().flat_map(|recording| recording.reach()));
            self.queue.complete();
        });
        for (stream, lease) in released {
            stream.resume(lease);
        }
        match lease {
            Some(lease) if observers::is_scheduled() => self.release(lease),
            Some(lease) => self.turn(lease, Until::Kernel),
            None => {}
        }
    }
}
