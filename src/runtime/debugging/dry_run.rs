//! Dry runs: operators check, allocate, submit and free as always, but kernels do not run, and new segments of memory are reserved
//! and never touched.
//!
//! Kernels are emptied at their submission: those submitted before a dry run still compute. Host functions, events and sleeps are
//! not kernels. A captured kernel is recorded whole, and a replay during a dry run is emptied.

use super::Wrapped;
use crate::runtime::observers::DRY;
use crate::runtime::sync::Mutex;
use crate::runtime::task::{Task, Work};
use crate::runtime::{hardware, observers};

/// The number of dry runs that have begun and not ended.
static BEGUN: Mutex<usize> = Mutex::new(0);

/// Begins a dry run, for all threads and devices.
pub fn begin() {
    let mut begun = BEGUN.lock();
    *begun += 1;
    observers::set(DRY, true);
}

/// Ends a dry run; returns true if none is left.
pub fn end() -> bool {
    let mut begun = BEGUN.lock();
    *begun = begun.saturating_sub(1);
    observers::set(DRY, *begun > 0);
    *begun == 0
}

/// The task without its computation. Installed hardware gets no empty kernels; a host thread ends them.
pub(super) fn emptied(task: Task) -> Task {
    let (name, mark) = (task.name(), task.mark.clone());
    let empty = |work| Wrapped { work, run: |work: &mut dyn Work| work.skip() };
    match task.into_kernel() {
        Ok(work) if hardware::is_installed() => Task::host(name, empty(work)).with_mark(mark),
        Ok(work) => Task::new(name, 0, empty(work)).with_mark(mark),
        Err(task) => task,
    }
}
