//! Exit of the process: queued tasks are abandoned, as on GPUs. Running tasks get a moment to finish, so that no task uses what the exit
//! handlers of C++ libraries have freed.

use std::process;
use std::time::{Duration, Instant};

use super::sync::{AtomicBool, AtomicUsize, Condvar, LazyLock, Mutex, Ordering, Unlocked, unlocked, wait_timeout};
use super::{fork, sync};

/// How long the exit waits for running tasks.
const PATIENCE: Duration = Duration::from_secs(2);

static EXITING: AtomicBool = AtomicBool::new(false);
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// The last task that runs has ended, while the process is.
static ENDED: LazyLock<(Mutex<()>, Condvar)> = LazyLock::new(Default::default);
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// Registers the handler; called once, when the runtime starts.
pub fn watch() {
    PROCESS.store(process::id() as usize, Ordering::Relaxed);
    // SAFETY: `at_exit` is an `extern "C"` function that does not unwind and touches statics only, which are never taken down.
    unsafe { libc::atexit(at_exit) };
}

/// Whether the process is ending: start nothing more.
#[inline]
pub fn is_exiting() -> bool {
    EXITING.load(Ordering::Relaxed)
}

/// Stops the calling thread of the runtime for good, once the process is ending.
pub fn stand_still() -> ! {
    unlocked(|unlocked| sync::stand_still(unlocked))
}

/// Tasks that run on a thread of ours, counted until dropped.
#[derive(Debug)]
pub struct Running(());

impl Running {
    /// Starts counting; `None` while the process is ending.
    #[inline]
    pub fn start() -> Option<Self> {
        // SeqCst, with `begin`: either the exit sees the task, or the task sees the exit.
        RUNNING.fetch_add(1, Ordering::SeqCst);
        let running = Self(());
        (!EXITING.load(Ordering::SeqCst)).then_some(running)
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        if RUNNING.fetch_sub(1, Ordering::SeqCst) == 1 && EXITING.load(Ordering::SeqCst) {
            tell();
        }
    }
}

#[cold]
fn tell() {
    let (lock, changed) = &*ENDED;
    // Under the lock, so that who has seen a task run is asleep by now.
    let _locked = lock.lock();
    changed.notify_all();
}

extern "C" fn at_exit() {
    begin();
}

/// Starts nothing more on our threads, and waits a moment for what runs there. In a forked child, where nothing does, returns at once.
pub fn begin() {
    if fork::is_child() || PROCESS.load(Ordering::Relaxed) != process::id() as usize {
        return;
    }
    EXITING.store(true, Ordering::SeqCst);
    unlocked(wait_for_running);
}

fn wait_for_running(unlocked: &Unlocked) {
    let (deadline, (lock, changed)) = (Instant::now() + PATIENCE, &*ENDED);
    let mut locked = lock.lock();
    while RUNNING.load(Ordering::SeqCst) > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        locked = wait_timeout(changed, locked, left, unlocked).0;
    }
}
