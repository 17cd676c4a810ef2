//! [`RunningTasks`]: a count of running tasks. Once it is closed, no task starts, and the thread that closes it waits for the
//! others.
#![forbid(unsafe_code)]

use super::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};

#[derive(Debug, Default)]
pub struct RunningTasks {
    is_closed: AtomicBool,
    running: AtomicUsize,
    lock: Mutex<()>,
    /// Signalled when the last running task has ended after the close.
    ended: Condvar,
}

impl RunningTasks {
    /// True once no task may start.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Counts a task that starts; false if it must not start. [`RunningTasks::end`] ends it.
    #[inline]
    pub fn start(&self) -> bool {
        self.running.fetch_add(1, Ordering::Relaxed);
        // With the fence in `close`: either the close sees the task, or the task sees the close.
        fence(Ordering::SeqCst);
        if self.is_closed() {
            self.end();
            return false;
        }
        true
    }

    #[inline]
    pub fn end(&self) {
        // Release: pairs with the acquire in `close`, so that what the task wrote is visible.
        let left = self.running.fetch_sub(1, Ordering::Release) - 1;
        // As in `start`: either the close sees that the task has ended, or the task wakes it.
        fence(Ordering::SeqCst);
        if left == 0 && self.is_closed() {
            self.tell();
        }
    }

    #[cold]
    fn tell(&self) {
        // Under the lock, so that a close that has seen the task running is asleep by now.
        let _locked = self.lock.lock();
        self.ended.notify_all();
    }

    /// Prevents further starts and waits for the running tasks. `sleep` waits for a change; false: it gives up.
    pub fn close<'a>(&'a self, mut sleep: impl FnMut(&'a Condvar, MutexGuard<'a, ()>) -> (MutexGuard<'a, ()>, bool)) {
        self.is_closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let (mut locked, mut goes_on) = (self.lock.lock(), true);
        while goes_on && self.running.load(Ordering::Acquire) > 0 {
            (locked, goes_on) = sleep(&self.ended, locked);
        }
    }
}
