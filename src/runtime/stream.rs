//! Streams: first-in first-out queues of tasks.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::config::MAX_DEVICES;
use super::device;
use super::sync::process::{AtomicU64, Mutex, Ordering};
use super::task::{Payload, Task};
use super::{Error, sync::PoisonError};

thread_local! {
    static CURRENT: [Cell<Option<&'static Stream>>; MAX_DEVICES] = const { [const { Cell::new(None) }; MAX_DEVICES] };
}

/// This thread's stream of a device.
///
/// # Panics
/// For a device that does not exist.
#[inline]
pub fn current(device: usize) -> &'static Stream {
    CURRENT.with(|streams| match streams[device].get() {
        Some(stream) => stream,
        None => device::all()[device].default_stream(),
    })
}

/// Makes `stream` this thread's stream of its device; returns the one before.
pub fn exchange(stream: &'static Stream) -> &'static Stream {
    let before = current(stream.device());
    CURRENT.with(|streams| streams[stream.device()].set(Some(stream)));
    before
}

/// The stream of that id, if device and stream exist.
pub fn find(device: usize, id: i64) -> Option<&'static Stream> {
    device::get(device).ok()?.stream(id)
}

/// A queue of tasks of one device, run in order.
#[derive(Debug)]
pub struct Stream {
    device: usize,
    id: i64,
    priority: i32,
    submitted: AtomicU64,
    completed: AtomicU64,
    failure: Mutex<Option<Error>>,
}

impl Stream {
    pub(super) fn leak(device: usize, id: i64, priority: i32) -> &'static Self {
        let counters = [const { AtomicU64::new(0) }; 2];
        let [submitted, completed] = counters;
        Box::leak(Box::new(Self {
            device,
            id,
            priority,
            submitted,
            completed,
            failure: Mutex::default(),
        }))
    }

    /// The index of its device.
    #[inline]
    pub fn device(&self) -> usize {
        self.device
    }

    /// Its number, unique in the device.
    #[inline]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// 0 normal, -1 high.
    #[inline]
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// How many tasks were put on the stream so far.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// How many of them are done.
    #[inline]
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Whether nothing is queued or running.
    pub fn query(&self) -> bool {
        self.completed() >= self.submitted()
    }

    /// Puts a task on the stream, or runs it there and then.
    ///
    /// # Errors
    /// With `RUSTDEV_LAUNCH_BLOCKING`, the task's failure.
    pub fn submit(&self, mut task: Task) -> Result<(), Error> {
        self.submitted.fetch_add(1, Ordering::AcqRel);
        let result = match &mut task.payload {
            Payload::Kernel(work) | Payload::Host(work) => {
                catch_unwind(AssertUnwindSafe(|| work.run()))
            }
            Payload::Sleep(duration) => {
                std::thread::sleep(*duration);
                Ok(Ok(()))
            }
            Payload::Record(recording) => {
                recording.complete();
                Ok(Ok(()))
            }
            Payload::Wait(_) => Ok(Ok(())),
        };
        if let Some(text) = result.unwrap_or_else(|_| Err("panic".to_owned())).err() {
            let message = format!(
                "{} failed on stream {} of device rustdev:{}: {text}",
                task.name(),
                self.id,
                self.device
            );
            self.failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(Error::TaskFailed(message));
        }
        drop(task);
        self.completed.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Waits for everything put on the stream so far.
    ///
    /// # Errors
    /// The failure of a task, once.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.finish();
        self.raise()
    }

    pub(super) fn finish(&self) {}

    pub(super) fn raise(&self) -> Result<(), Error> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map_or(Ok(()), Err)
    }
}
