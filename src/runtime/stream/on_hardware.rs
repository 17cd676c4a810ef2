//! Kernels on installed hardware: the hardware gets the stream's lease with the task, and returns it when the task has ended.
//!
//! The hardware may end a task before the call that submits it returns, on that thread or on another. The submitting thread then
//! keeps the lease and continues in its own loop, so that the stack depth does not grow with the number of such tasks.
//!
//! Hardware that takes several tasks of a stream gets them by [`super::ahead`] instead, except in an order of tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::wait::STANDSTILL;
use super::{Stream, Until};
use crate::runtime::error::{Cause, panic_text};
use crate::runtime::hardware::{self, HardwareTask};
use crate::runtime::sync::{Condvar, Mutex, unlocked, wait};
use crate::runtime::task::{Lease, Task};
use crate::runtime::{exit, observers};

/// Where the lease of a stream is during a hand-over to the hardware.
#[derive(Default)]
pub(super) struct HandOver {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
enum State {
    /// The hardware has no task of the stream.
    #[default]
    Home,
    /// A thread is handing a task over, and will check this state.
    Handing,
    /// The hardware has the task; the thread that ends it continues the stream.
    Away,
    /// The task ended while it was being submitted.
    Ended(Lease),
}

impl Stream {
    /// Hands the kernel at the head to the hardware. Returns the lease if the task has ended by then. `waits`: wait for its end.
    pub(super) fn hand_over_kernel(&'static self, mut lease: Lease, waits: bool) -> Option<Lease> {
        let (Some(installed), Some(running)) = (hardware::installed(), exit::Running::start()) else {
            lease.advance();
            return Some(lease);
        };
        let transfer = lease.head().and_then(|task| task.transfer());
        let name = lease.head().map_or("", |task| Task::name(task));
        *self.hand_over.state.lock() = State::Handing;
        STANDSTILL.tell();
        let task = HardwareTask::new(self, lease, running);
        let call = || match transfer {
            Some(transfer) => installed.copy(transfer, task),
            None => installed.launch(task),
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(call)) {
            self.poison(name, &panic_text(&*panic));
        }
        if waits {
            unlocked(|unlocked| {
                let mut state = self.hand_over.state.lock();
                while matches!(*state, State::Handing) {
                    state = wait(&self.hand_over.changed, state, unlocked);
                }
            });
        }
        let mut state = self.hand_over.state.lock();
        match std::mem::replace(&mut *state, State::Away) {
            State::Ended(lease) => {
                *state = State::Home;
                Some(lease)
            }
            _ => None,
        }
    }

    /// As [`DrainableStream::finish_on_hardware`](crate::runtime::task::DrainableStream::finish_on_hardware).
    pub(super) fn take_from_hardware(&'static self, mut lease: Lease, failure: Option<&Cause>) {
        self.end_head(&mut lease, failure.map(|cause| cause as &dyn std::fmt::Display));
        let mut state = self.hand_over.state.lock();
        if matches!(*state, State::Handing) {
            *state = State::Ended(lease);
            self.hand_over.changed.notify_all();
            return;
        }
        *state = State::Home;
        drop(state);
        if observers::is_scheduled() { self.release(lease) } else { self.turn(lease, Until::Kernel) }
    }

    /// True if the hardware has a task of the stream.
    pub(super) fn is_on_hardware(&self) -> bool {
        !(matches!(*self.hand_over.state.lock(), State::Home) && self.window.is_empty())
    }
}
