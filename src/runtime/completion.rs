//! Completions: the end of work that runs outside of the streams, such as on Gloo's threads. Streams and threads can wait for it.
//!
//! A waiting stream occupies no thread: the completion keeps its lease, and the thread that ends the work passes it on.
#![forbid(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::config::config;
use super::gate::HostWrites;
use super::stream::Stream;
use super::sync::{Arc, Condvar, Mutex, OnceLock, Unlocked, unlocked, wait, wait_timeout};
use super::task::{Closure, DrainableStream, Lease, LeaseHolder, Task, Work};
use super::{Error, blocking_pool};

/// The name of tasks that wait for a completion.
const NAME: &str = "collective";

/// The completion of one piece of work.
pub struct Completion {
    /// The prefix of a failure's text.
    prefix: String,
    /// The outcome: `Some` with the text of a failure if it failed. Set while `state` is locked.
    outcome: OnceLock<Option<String>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The waiting streams; the flag says whether a failure of the work fails the stream, too.
    standing: Vec<(&'static dyn DrainableStream, Lease, bool)>,
    /// Streams that do not wait, but fail if the work fails.
    failing: Vec<&'static Stream>,
    /// Values to keep alive until the end.
    kept: Vec<Box<dyn Any + Send>>,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "completion of {:?}: {:?}", self.prefix, self.outcome.get())
    }
}

/// A stream's wait. `fails`: a failure of the work fails the stream, too.
struct Wait {
    completion: Arc<Completion>,
    fails: bool,
}

impl LeaseHolder for Wait {
    fn is_over(&self) -> bool {
        self.completion.outcome.get().is_some_and(|failure| failure.is_none() || !self.fails)
    }

    fn keep(&self, stream: &'static dyn DrainableStream, lease: Lease) {
        let mut state = self.completion.state.lock();
        if self.completion.is_over() {
            let (completion, fails) = (Arc::clone(&self.completion), self.fails);
            blocking_pool::run(move || completion.let_go(stream, lease, fails));
        } else {
            state.standing.push((stream, lease, self.fails));
        }
    }
}

impl Completion {
    /// The completion of work that has not ended. `prefix`: the prefix of a failure's text.
    pub fn new(prefix: String) -> Self {
        Self { prefix, outcome: OnceLock::new(), state: Mutex::default(), changed: Condvar::default() }
    }

    /// True if the work has ended, successfully or not.
    pub fn is_over(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// The failure of the work, if it has ended and failed.
    pub fn failure(&self) -> Option<&str> {
        self.outcome.get()?.as_deref()
    }

    /// Keeps a value alive until the end, because the work uses it.
    pub fn keep(&self, value: impl Any + Send) {
        let mut state = self.state.lock();
        if !self.is_over() {
            state.kept.push(Box::new(value));
        }
    }

    /// Notes that the work writes to ranges of device memory until its end.
    pub fn note_writes(&self, ranges: Vec<Range<usize>>) {
        self.keep(HostWrites::new(ranges));
    }

    /// Ends the work, with the text of its failure if it has failed. Kept values are dropped before any stream proceeds. No effect
    /// on the second call.
    pub fn end(&self, failure: Option<&str>) {
        let kept = std::mem::take(&mut self.state.lock().kept);
        drop(kept);
        let mut state = self.state.lock();
        if self.outcome.set(failure.map(|text| format!("{}{text}", self.prefix))).is_err() {
            return;
        }
        let State { standing, failing, kept } = std::mem::take(&mut *state);
        drop(state);
        drop(kept);
        self.changed.notify_all();
        for stream in failing {
            self.let_fail(stream);
        }
        for (stream, lease, fails) in standing {
            self.let_go(stream, lease, fails);
        }
    }

    /// Runs the work on a thread that may block, and ends the completion with its outcome.
    pub fn run(self: &Arc<Self>, mut work: impl Work + 'static) {
        let completion = Arc::clone(self);
        blocking_pool::run(move || {
            let failure = work.run().err().map(|cause| cause.to_string());
            drop(work);
            completion.end(failure.as_deref());
        });
    }

    fn let_go(&self, stream: &'static dyn DrainableStream, lease: Lease, fails: bool) {
        let failure = self.failure().filter(|_| fails);
        stream.go_on(lease, failure.as_ref().map(|text| text as &dyn fmt::Display));
    }

    fn let_fail(&self, stream: &'static Stream) {
        let Some(text) = self.failure() else { return };
        let text = text.to_owned();
        // Enqueueing fails only if the runtime refuses tasks; nobody learns of failures then.
        let _ = stream.enqueue(Task::host(NAME, Closure::new(move || Err(text.clone().into()))), false);
    }

    /// Makes a stream fail if the work fails, without waiting for it.
    pub fn fail(&self, stream: &'static Stream) {
        let mut state = self.state.lock();
        if self.is_over() {
            drop(state);
            self.let_fail(stream);
        } else {
            state.failing.push(stream);
        }
    }

    /// Makes further tasks of a stream wait for the end. `fails`: a failure of the work fails the stream, too. Fails with
    /// `InvalidArgument` while the stream captures; with `RUSTDEV_LAUNCH_BLOCKING`, the failure.
    pub fn hold(self: &Arc<Self>, stream: &'static Stream, fails: bool) -> Result<(), Error> {
        stream.refuse_capturing(|| "waiting for an operation of several processes".to_owned())?;
        let wait = Wait { completion: Arc::clone(self), fails };
        if wait.is_over() {
            return Ok(());
        }
        stream.enqueue(Task::leave(NAME, Arc::new(wait)), config().launch_blocking).map(|_| ())
    }

    /// Waits for the end, at most until the deadline; returns true if the work has ended.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        self.is_over() || unlocked(|unlocked| self.sleep(deadline, unlocked))
    }

    fn sleep(&self, deadline: Option<Instant>, unlocked: &Unlocked) -> bool {
        let mut state = self.state.lock();
        while !self.is_over() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return false,
                Some(left) => wait_timeout(&self.changed, state, left, unlocked).0,
                None => wait(&self.changed, state, unlocked),
            };
        }
        true
    }
}
