//! CPU affinity: compute threads are kept off the core of the thread that wakes them, and each core gets its own share of a loop.
//!
//! Linux puts a woken thread on an idle core if it searches for one. After recent load it does not search (since 5.19 the scheduler
//! scales its search by the load); the thread then waits milliseconds for its waker's time slice while another core idles. Compute
//! threads are therefore barred from the waker's core before they are woken. This costs two system calls for each thread, and
//! nothing as long as the next wakers run on that same core.
//!
//! Caches belong to cores; the last-level cache and the memory controller often belong to groups of cores. The shares of a loop
//! therefore belong to cores, not to threads, so that a core finds its share of the previous loop in its caches.

use super::sync::{LazyLock, Mutex};

static COMPUTE_THREADS: Mutex<Vec<ComputeThread>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct ComputeThread {
    thread: i32,
    /// The core that it is barred from.
    barred: Option<usize>,
}

/// The system's id of this thread.
pub fn thread() -> i32 {
    thread_local! {
        // SAFETY: the call has no preconditions.
        static THREAD: i32 = unsafe { libc::gettid() };
    }
    THREAD.with(|thread| *thread)
}

/// Adds this thread to those that are barred from their wakers' cores.
pub fn register() {
    COMPUTE_THREADS.lock().push(ComputeThread { thread: thread(), barred: None });
}

/// Removes this thread, before it ends.
pub fn unregister() {
    let thread = thread();
    COMPUTE_THREADS.lock().retain(|worker| worker.thread != thread);
}

/// Bars all other registered threads from the core that this thread runs on.
pub fn keep_off() {
    let (here, thread) = (core(), thread());
    for worker in COMPUTE_THREADS.lock().iter_mut() {
        let wanted = here.filter(|_| worker.thread != thread);
        if worker.barred != wanted {
            bar(worker.thread, wanted);
            worker.barred = wanted;
        }
    }
}

/// The cores that the process may run on at the first use, in ascending order.
static CORES: LazyLock<Vec<usize>> = LazyLock::new(cores);

/// The share, of `shares` shares of a loop, that belongs to this thread's core; neighbouring cores have neighbouring shares. `None`
/// if the core is not known.
#[inline]
pub fn share(shares: usize) -> Option<usize> {
    let place = CORES.binary_search(&core()?).ok()?;
    Some(place * shares / CORES.len())
}

const SIZE: usize = size_of::<libc::cpu_set_t>();

/// The core that this thread runs on.
fn core() -> Option<usize> {
    // SAFETY: the call has no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok().filter(|&core| core < 8 * SIZE)
}

/// The cores that a thread may run on.
fn allowed(thread: i32) -> Option<libc::cpu_set_t> {
    // SAFETY: all zeros are a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is writable and has the stated size.
    let result = unsafe { libc::sched_getaffinity(thread, SIZE, &raw mut set) };
    (result == 0).then_some(set)
}

/// The cores that the process's first thread may run on.
fn cores() -> Vec<usize> {
    // SAFETY: the call has no preconditions.
    let Some(set) = allowed(unsafe { libc::getpid() }) else { return Vec::new() };
    // SAFETY: every index is inside the set.
    (0..8 * SIZE).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// Lets a thread run on the cores of the process's first thread, except one. Does nothing if no core is left or the system
/// refuses.
fn bar(thread: i32, core: Option<usize>) {
    // SAFETY: the call has no preconditions.
    let Some(mut set) = allowed(unsafe { libc::getpid() }) else { return };
    if let Some(core) = core {
        // SAFETY: `core` is the number of a bit inside the set.
        unsafe { libc::CPU_CLR(core, &mut set) };
    }
    // SAFETY: the set is initialised.
    if unsafe { libc::CPU_COUNT(&set) } > 0 {
        // SAFETY: the set is readable and has the stated size.
        unsafe { libc::sched_setaffinity(thread, SIZE, &raw const set) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_registered_thread_is_barred_from_the_callers_core_until_it_calls_itself() {
        let cores = |thread| {
            let set = allowed(thread).unwrap();
            // SAFETY: every place is inside the set.
            (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect::<Vec<_>>()
        };
        // SAFETY: the call has no conditions.
        let all = cores(unsafe { libc::getpid() });
        let (tell, told) = channel();
        let (proceed, wait) = channel();
        let worker = std::thread::spawn(move || {
            register();
            tell.send(thread()).unwrap();
            wait.recv().unwrap();
            keep_off();
            let own = cores(thread());
            unregister();
            own
        });
        let thread = told.recv().unwrap();
        keep_off();
        let left = cores(thread);
        proceed.send(()).unwrap();
        assert_eq!(worker.join().unwrap(), all);
        assert_eq!(left.len(), (all.len() - 1).max(1), "of {all:?}");
        keep_off();
    }

    #[test]
    fn cores_have_shares_in_their_order() {
        let cores = CORES.clone();
        let shares = cores.iter().map(|&core| {
            let pinned = std::thread::spawn(move || {
                // SAFETY: all zeros are an empty set.
                let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
                // SAFETY: `CORES` gives bits inside the set.
                unsafe { libc::CPU_SET(core, &mut set) };
                // SAFETY: the set is readable and as large as said; 0 is this thread.
                assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }, 0);
                [share(CORES.len()), share(1), share(2 * CORES.len())].map(Option::unwrap)
            });
            pinned.join().unwrap()
        });
        assert!(shares.eq((0..cores.len()).map(|place| [place, 0, 2 * place])));
    }
}
