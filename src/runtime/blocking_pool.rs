//! Blocking pool: threads for host callbacks, which may block and therefore must not occupy a compute thread.
//!
//! Each pending callback gets a thread. An idle thread ends after a while.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::thread;

use super::sync::{Condvar, LazyLock, Mutex, Unlocked, unlocked, wait_timeout};
use crate::tuning::waking::BLOCKING_IDLE;

static POOL: LazyLock<BlockingPool> = LazyLock::new(BlockingPool::default);

/// Runs a callback on a thread of the pool.
pub fn run(callback: impl FnOnce() + Send + 'static) {
    let mut state = POOL.state.lock();
    state.pending.push_back(Box::new(callback));
    if state.idle >= state.pending.len() {
        POOL.changed.notify_one();
    } else {
        drop(state);
        spawn("rustdev-host", |unlocked| POOL.serve(unlocked));
    }
}

/// Starts a thread with that name.
pub(super) fn spawn(name: &str, body: impl FnOnce(&Unlocked) + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(|| unlocked(body)).expect("the system starts a thread");
}

#[derive(Default)]
struct BlockingPool {
    state: Mutex<Callbacks>,
    changed: Condvar,
}

#[derive(Default)]
struct Callbacks {
    pending: VecDeque<Box<dyn FnOnce() + Send>>,
    idle: usize,
}

impl BlockingPool {
    fn serve(&self, unlocked: &Unlocked) {
        let mut state = self.state.lock();
        loop {
            if let Some(callback) = state.pending.pop_front() {
                drop(state);
                callback();
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let (woken, timed_out) = wait_timeout(&self.changed, state, BLOCKING_IDLE, unlocked);
            state = woken;
            state.idle -= 1;
            if timed_out && state.pending.is_empty() {
                return;
            }
        }
    }
}
