//! Timer: one thread ends the sleeps of all streams at their deadlines, so that a sleep occupies no compute thread.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::blocking_pool::spawn;
use super::sync::{Condvar, LazyLock, Mutex, Unlocked, wait, wait_timeout};

static TIMER: LazyLock<Timer> = LazyLock::new(Timer::default);

/// Calls `wake` on the timer's thread at `deadline`.
pub fn at(deadline: Instant, wake: impl FnOnce() + Send + 'static) {
    let mut state = TIMER.state.lock();
    let number = state.count;
    state.count += 1;
    state.sleeps.insert((deadline, number), Box::new(wake));
    TIMER.changed.notify_one();
    if number == 0 {
        drop(state);
        spawn("rustdev-timer", |unlocked| TIMER.serve(unlocked));
    }
}

#[derive(Default)]
struct Timer {
    state: Mutex<Sleeps>,
    changed: Condvar,
}

#[derive(Default)]
struct Sleeps {
    /// The functions that end the sleeps, by deadline and arrival.
    sleeps: BTreeMap<(Instant, u64), Box<dyn FnOnce() + Send>>,
    count: u64,
}

impl Timer {
    fn serve(&self, unlocked: &Unlocked) {
        let mut state = self.state.lock();
        loop {
            let left = state.sleeps.first_key_value().map(|((deadline, _), _)| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                None => wait(&self.changed, state, unlocked),
                Some(Duration::ZERO) => {
                    let due = state.sleeps.pop_first();
                    drop(state);
                    if let Some((_, wake)) = due {
                        wake();
                    }
                    self.state.lock()
                }
                Some(left) => wait_timeout(&self.changed, state, left, unlocked).0,
            };
        }
    }
}
