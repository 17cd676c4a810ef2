//! Waits that end where a stream stands still for good: it waits for a task that may be waiting for the waiting thread itself.
//!
//! Such a thread sleeps with the queue of its stream. Whether that stands still depends on other streams as well, so that whoever lets one
//! stand still, or leaves one for others to drain, [tells](tell) all such threads.
#![forbid(unsafe_code)]

use super::Stream;
use crate::runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, Unlocked, fence, unlocked};
use crate::runtime::task::Drained;

/// The streams that threads wait for in this way, each as often as one does.
static WAITED_FOR: Mutex<Vec<&'static Stream>> = Mutex::new(Vec::new());
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How often they were told.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Has threads that wait in this way look again.
#[inline]
pub(super) fn tell() {
    // Between the change and the look at the count: a thread counts itself before it looks for changes.
    fence(Ordering::SeqCst);
    if COUNT.load(Ordering::Relaxed) > 0 {
        tell_all();
    }
}

#[cold]
fn tell_all() {
    EPOCH.fetch_add(1, Ordering::SeqCst);
    WAITED_FOR.lock().iter().for_each(|stream| stream.queue.wake());
}

/// A wait for a stream, until dropped.
struct Wait(&'static Stream);

impl Wait {
    fn begin(stream: &'static Stream) -> Self {
        WAITED_FOR.lock().push(stream);
        COUNT.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Self(stream)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::SeqCst);
        let mut streams = WAITED_FOR.lock();
        if let Some(position) = streams.iter().position(|stream| std::ptr::eq(*stream, self.0)) {
            streams.swap_remove(position);
        }
    }
}

impl Stream {
    /// Runs and waits until so many tasks are done, or the stream [is stuck](Drained::is_stuck).
    pub(super) fn run_until_stuck(&'static self, target: u64, on_hardware: bool) {
        if self.completed() < target {
            unlocked(|unlocked| self.wait_until_stuck(target, on_hardware, unlocked));
        }
    }

    fn wait_until_stuck(&'static self, target: u64, on_hardware: bool, unlocked: &Unlocked) {
        let _wait = Wait::begin(self);
        while self.completed() < target {
            let epoch = EPOCH.load(Ordering::SeqCst);
            if self.is_stuck(on_hardware) {
                return;
            }
            if !self.help_until(target) {
                self.queue.sleep_unless(target, || EPOCH.load(Ordering::SeqCst) != epoch, unlocked);
            }
        }
    }
}
