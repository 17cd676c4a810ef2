//! `parallel_for`: parallel loops on the runtime's threads.
//!
//! The caller publishes its loop among the [open loops](open_loops) and runs chunks itself. Awake threads join: searching drainers,
//! and threads that wait in a synchronise. Sleeping threads are woken only for work much longer than the wake-up. Without helpers
//! the loop runs serially.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::executor::EXECUTOR;
use super::open_loops::InLoop;
use super::slot::Work;
use super::sync::{AtomicU64, LazyLock, Ordering};
use super::{affinity, open_loops};
use crate::tuning::sharing::{CLAIM_NS, SERIAL_NS};
use crate::tuning::waking::{MISSED_NS, MISSED_WINDOW, WAKE_NS};

pub use super::thread_pool::{num_threads, set_num_threads};

/// Runs `body(0..count)` on this and other threads; returns when all chunks are done. `cost`: nanoseconds on one thread for the
/// whole loop. Nested loops inside a chunk run serially. If a chunk panics, resumes its panic after all chunks have ended.
#[inline]
pub fn parallel_for(count: usize, cost: u64, body: &(dyn Fn(usize) + Sync)) {
    if count <= 1 || cost < SERIAL_NS || open_loops::is_inside() {
        (0..count).for_each(body);
    } else {
        run_long(count, cost, body);
    }
}

fn run_long(count: usize, cost: u64, body: &(dyn Fn(usize) + Sync)) {
    let serially = || (0..count).for_each(body);
    if num_threads() == 1 {
        return serially();
    }
    let alone = !open_loops::has_onlookers() && !EXECUTOR.is_searching();
    let wakes = cost >= WAKE_NS || (alone && missed(cost) >= MISSED_NS);
    if alone && !wakes {
        return serially();
    }
    let Some(claim) = open_loops::claim() else {
        return serially();
    };
    let helpers = num_threads().min(count) - 1;
    let _loop = InLoop::enter();
    let _open = open_loops::open();
    let work = Work { count, grain: grain(count, cost), body };
    claim.run(work, helpers, affinity::share, || {
        if wakes {
            EXECUTOR.wake(helpers);
        }
    });
}

/// Adds up the cost of loops that found no helper awake, and returns the sum for the current time window. Concurrent updates may be
/// lost.
fn missed(cost: u64) -> u64 {
    static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
    static WINDOW_NUMBER: AtomicU64 = AtomicU64::new(0);
    static SUM: AtomicU64 = AtomicU64::new(0);
    let window = u64::try_from(EPOCH.elapsed().as_nanos() / MISSED_WINDOW.as_nanos()).unwrap_or(u64::MAX);
    let same = WINDOW_NUMBER.load(Ordering::Relaxed) == window;
    let sum = if same { SUM.load(Ordering::Relaxed) } else { 0 } + cost;
    WINDOW_NUMBER.store(window, Ordering::Relaxed);
    SUM.store(if sum >= MISSED_NS { 0 } else { sum }, Ordering::Relaxed);
    sum
}

/// The number of chunks per claim: enough work to amortise the claim, but several claims for each thread.
fn grain(count: usize, cost: u64) -> usize {
    let worth_claiming = count as u64 * CLAIM_NS / cost.max(1);
    let most = count / (4 * num_threads());
    usize::try_from(worth_claiming).unwrap_or(most).min(most).max(1)
}
