//! Threads for what must not occupy a compute thread: host callbacks, which may block, and sleeps, which only wait for the clock.
//!
//! A drainer leaves the stream's ownership here; afterwards the stream is handed to the executor again. Callbacks get a thread each,
//! as many as are under way at once; idle ones end after a while. All sleeps share one thread.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::thread;
use std::time::{Duration, Instant};

use super::stream::{Lease, Stream};
use super::sync::{Condvar, LazyLock, Mutex, wait, wait_timeout};

/// How long an idle callback thread stays.
const IDLE: Duration = Duration::from_secs(2);

static CALLBACKS: LazyLock<Callbacks> = LazyLock::new(Callbacks::default);
static SLEEPS: LazyLock<Sleeps> = LazyLock::new(Sleeps::default);

/// Runs the callback at the head of the stream on a thread of its own.
pub fn run_callback(stream: &'static Stream, lease: Lease) {
    let mut state = CALLBACKS.state.lock();
    state.pending.push_back((stream, lease));
    if state.idle >= state.pending.len() {
        CALLBACKS.changed.notify_one();
    } else {
        drop(state);
        spawn("rustdev-host", || CALLBACKS.serve());
    }
}

/// Ends the sleep at the head of the stream at `deadline`.
pub fn wake_at(deadline: Instant, stream: &'static Stream, lease: Lease) {
    let mut state = SLEEPS.state.lock();
    let number = state.count;
    state.count += 1;
    state.leases.push(Reverse(Sleep { deadline, number, stream, lease }));
    SLEEPS.changed.notify_one();
    if number == 0 {
        drop(state);
        spawn("rustdev-timer", || SLEEPS.serve());
    }
}

/// Starts a thread of that name.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(body).expect("the system starts a thread");
}

#[derive(Default)]
struct Callbacks {
    state: Mutex<CallbackState>,
    changed: Condvar,
}

#[derive(Default)]
struct CallbackState {
    pending: VecDeque<(&'static Stream, Lease)>,
    idle: usize,
}

impl Callbacks {
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((stream, lease)) = state.pending.pop_front() {
                drop(state);
                stream.finish_callback(lease);
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let (woken, timed_out) = wait_timeout(&self.changed, state, IDLE);
            state = woken;
            state.idle -= 1;
            if timed_out && state.pending.is_empty() {
                return;
            }
        }
    }
}

/// A sleeping stream; ordered by deadline, equal ones in the order of arrival.
struct Sleep {
    deadline: Instant,
    number: u64,
    stream: &'static Stream,
    lease: Lease,
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
struct Sleeps {
    state: Mutex<SleepState>,
    changed: Condvar,
}

#[derive(Default)]
struct SleepState {
    leases: BinaryHeap<Reverse<Sleep>>,
    count: u64,
}

impl Sleeps {
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            let left = state.leases.peek().map(|Reverse(next)| next.deadline.saturating_duration_since(Instant::now()));
            state = match left {
                None => wait(&self.changed, state),
                Some(Duration::ZERO) => {
                    let due = state.leases.pop();
                    drop(state);
                    if let Some(Reverse(Sleep { stream, lease, .. })) = due {
                        stream.finish_sleep(lease);
                    }
                    self.state.lock()
                }
                Some(left) => wait_timeout(&self.changed, state, left).0,
            };
        }
    }
}
