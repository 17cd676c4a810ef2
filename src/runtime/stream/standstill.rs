//! Waits that end if the awaited stream may never proceed, because it waits for a task that may be waiting for this thread.
//!
//! Such a thread sleeps with the queue of its stream. Whether the stream is stuck also depends on other streams, so whoever lets a
//! stream stop, or leaves one for others to drain, [wakes](tell) all such threads.
#![forbid(unsafe_code)]

use super::Stream;
use crate::runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, Unlocked, fence, unlocked};
use crate::runtime::task::DrainableStream;

/// The streams with such waits, once per waiting thread.
static WAITED_FOR: Mutex<Vec<&'static Stream>> = Mutex::new(Vec::new());
/// The length of [`WAITED_FOR`].
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The number of wake-ups so far.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Makes all such threads check their streams again.
#[inline]
pub(super) fn tell() {
    // This fence is between the change and the read of the count; a waiting thread counts itself before it checks for changes.
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
    /// Runs tasks and waits until `target` tasks are done or the stream [is stuck](DrainableStream::is_stuck): it goes on only
    /// under a pass.
    pub(in crate::runtime) fn run_until_stuck(&'static self, target: u64, on_hardware: bool) {
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
