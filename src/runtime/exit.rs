//! Process exit: queued tasks are abandoned, as on GPUs. Running tasks get a moment to finish, so that no task uses what the exit
//! handlers of C++ libraries have freed.

use std::process;
use std::time::{Duration, Instant};

use super::sync::{AtomicBool, AtomicUsize, Condvar, LazyLock, Mutex, Ordering, Unlocked, unlocked, wait_timeout};
use super::{fork, sync};

/// How long the exit waits for running tasks.
const PATIENCE: Duration = Duration::from_secs(2);

static EXITING: AtomicBool = AtomicBool::new(false);
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// Signalled when the last running task has ended during exit.
static ENDED: LazyLock<(Mutex<()>, Condvar)> = LazyLock::new(Default::default);
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
    EXITING.load(Ordering::Relaxed)
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
    // Under the lock, so that an exit that has seen the task running is asleep by now.
    let _locked = lock.lock();
    changed.notify_all();
}

/// Prevents further tasks, and waits a moment for the running ones. Returns immediately in a forked child, where nothing runs.
pub extern "C" fn begin() {
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
