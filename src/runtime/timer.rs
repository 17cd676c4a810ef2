//! Timer: one thread ends the sleeps of all streams at their deadlines, so that a sleep occupies no compute thread.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::blocking_pool::spawn;
use super::sync::{Condvar, LazyLock, Mutex, Unlocked, wait, wait_timeout};

static TIMER: LazyLock<Timer> = LazyLock::new(Timer::default);

/// Calls `wake` on the timer's thread at `deadline`.
pub fn at(deadline: Instant, wake: impl FnOnce() + Send + 'static) {
    let mut state = TIMER.state.lock();
    let number = state.count;
    state.count += 1;
    state.sleeps.push(Reverse(Sleep { deadline, number, wake: Box::new(wake) }));
    TIMER.changed.notify_one();
    if number == 0 {
        drop(state);
        spawn("rustdev-timer", |unlocked| TIMER.serve(unlocked));
    }
}

/// A sleep with the function that ends it. Sleeps are ordered by deadline, then by arrival.
struct Sleep {
    deadline: Instant,
    number: u64,
    wake: Box<dyn FnOnce() + Send>,
}

impl PartialEq for Sleep {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Sleep {}

impl PartialOrd for Sleep {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleep {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.deadline, self.number).cmp(&(other.deadline, other.number))
    }
}

#[derive(Default)]
struct Timer {
    state: Mutex<Sleeps>,
    changed: Condvar,
}

#[derive(Default)]
struct Sleeps {
    sleeps: BinaryHeap<Reverse<Sleep>>,
    count: u64,
}

impl Timer {
    fn serve(&self, unlocked: &Unlocked) {
        let mut state = self.state.lock();
        loop {
            let left = state.sleeps.peek().map(|Reverse(next)| next.deadline.saturating_duration_since(Instant::now()));
            state = match left {
                None => wait(&self.changed, state, unlocked),
                Some(Duration::ZERO) => {
                    let due = state.sleeps.pop();
                    drop(state);
                    if let Some(Reverse(Sleep { wake, .. })) = due {
                        wake();
                    }
                    self.state.lock()
                }
                Some(left) => wait_timeout(&self.changed, state, left, unlocked).0,
            };
        }
    }
}
