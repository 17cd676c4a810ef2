//! Process exit: queued tasks are abandoned, as on GPUs. Running tasks get a moment to finish, so that no task uses what the exit
//! handlers of C++ libraries have freed.

use std::process;
use std::time::{Duration, Instant};

use super::passes::Passes;
use super::sync::{AtomicBool, AtomicUsize, LazyLock, Ordering, unlocked, wait_timeout};
use super::{fork, sync};

/// How long the exit waits for running tasks.
const PATIENCE: Duration = Duration::from_secs(2);

/// A pass for each running task.
static TASKS: LazyLock<Passes> = LazyLock::new(Passes::default);
static IS_EXITING: AtomicBool = AtomicBool::new(false);
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// Registers the handler; called once, when the runtime starts.
pub fn watch() {
    PROCESS.store(process::id() as usize, Ordering::Relaxed);
    // SAFETY: `begin` is an `extern "C"` function that does not unwind and uses only statics, which are never destroyed.
    unsafe { libc::atexit(begin) };
}

/// True once the process is exiting: nothing more may start.
#[inline]
pub fn is_exiting() -> bool {
    IS_EXITING.load(Ordering::Relaxed)
}

/// Stops the calling thread of the runtime forever, once the process is exiting.
pub fn stand_still() -> ! {
    unlocked(|unlocked| sync::stand_still(unlocked))
}

/// Running tasks on a thread of the runtime, counted until dropped.
#[derive(Debug)]
pub struct Running(());

impl Running {
    /// Starts counting; `None` while the process is exiting.
    #[inline]
    pub fn start() -> Option<Self> {
        (!is_exiting() && TASKS.try_take()).then(|| Self(()))
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        TASKS.give_back();
    }
}

/// Prevents further tasks, and waits a moment for the running ones. Further calls do nothing, nor does one in a forked child, where
/// nothing runs.
pub extern "C" fn begin() {
    if fork::is_child() || PROCESS.load(Ordering::Relaxed) != process::id() as usize || IS_EXITING.swap(true, Ordering::Relaxed) {
        return;
    }
    let deadline = Instant::now() + PATIENCE;
    unlocked(|unlocked| {
        TASKS.exclude(|ended, locked| {
            let left = deadline.saturating_duration_since(Instant::now());
            (if left.is_zero() { locked } else { wait_timeout(ended, locked, left, unlocked).0 }, !left.is_zero())
        })
    });
}
