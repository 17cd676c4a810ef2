//! [`Standstill`]: waits for streams that end if the awaited stream may never proceed, because it waits for a task that may be
//! waiting for this thread.
//!
//! Such a thread sleeps with the queue of its stream. Whether the stream is stuck also depends on other streams, so whoever lets a
//! stream stop, or leaves one for others to drain, [wakes](Standstill::tell) all such threads.
#![forbid(unsafe_code)]

use super::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, Unlocked, fence};

/// A stream, as a thread that waits for it sees it.
pub trait Awaitable: Copy + PartialEq {
    /// True if `target` tasks are done.
    fn is_done(self, target: u64) -> bool;

    /// True if it is at a task that may be waiting for any other.
    fn is_stuck(self) -> bool;

    /// Runs tasks until `target` are done; returns whether there was something to run on this thread.
    fn help_until(self, target: u64) -> bool;

    /// Sleeps until `target` tasks are done, nobody runs them, or `is_over` returns true, which is evaluated before each sleep and
    /// after [`Awaitable::wake`].
    fn sleep_unless(self, target: u64, is_over: impl Fn() -> bool, unlocked: &Unlocked);

    /// Makes sleepers evaluate their `is_over` again.
    fn wake(self);
}

/// The waits of a process.
#[derive(Debug)]
pub struct Standstill<S> {
    /// The awaited streams, once per waiting thread.
    awaited: Mutex<Vec<S>>,
    /// The number of waiting threads.
    count: AtomicUsize,
    /// The number of wake-ups so far.
    epoch: AtomicU64,
}

impl<S> Default for Standstill<S> {
    fn default() -> Self {
        Self { awaited: Mutex::new(Vec::new()), count: AtomicUsize::new(0), epoch: AtomicU64::new(0) }
    }
}

impl<S: Awaitable> Standstill<S> {
    /// Makes all waiting threads check their streams again.
    #[inline]
    pub fn tell(&self) {
        // This fence is between the change and the read of the count; a waiting thread counts itself before it checks for changes.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Relaxed) > 0 {
            self.tell_all();
        }
    }

    #[cold]
    fn tell_all(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.awaited.lock().iter().for_each(|stream| stream.wake());
    }

    /// Runs tasks and waits until `target` tasks are done or the stream [is stuck](Awaitable::is_stuck).
    pub fn wait(&self, stream: S, target: u64, unlocked: &Unlocked) {
        self.awaited.lock().push(stream);
        self.count.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while !stream.is_done(target) {
            let epoch = self.epoch.load(Ordering::SeqCst);
            if stream.is_stuck() {
                break;
            }
            if !stream.help_until(target) {
                stream.sleep_unless(target, || self.epoch.load(Ordering::SeqCst) != epoch, unlocked);
            }
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
        let mut awaited = self.awaited.lock();
        if let Some(position) = awaited.iter().position(|other| *other == stream) {
            awaited.swap_remove(position);
        }
    }
}
