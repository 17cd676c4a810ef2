//! Ready list: the jobs that wait for a compute thread, and the count of drainers. This is the protocol of the executor without its
//! threads.
//!
//! A **drainer** takes ready jobs, urgent ones first, until the list is empty. Then it **searches**: it polls the list, helps with
//! open loops, and finally gives up.
//!
//! No wake-up is lost: while a job is in the list, a drainer searches or all threads drain. Whoever pushes a job, or takes one and
//! leaves another, starts a drainer under the lock unless one searches. A searching drainer gives up under the lock and only if the
//! list is empty. Before it helps with a loop, it leaves the count of searchers and then reads the list again. Both sides have a
//! sequentially consistent fence between their write and their read, so that either the drainer sees the job or the other side sees
//! no searcher.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::sync::{AtomicUsize, Mutex, Ordering, fence};

/// The threads that drainers run on.
pub trait Threads: Clone {
    /// The number of threads there should be.
    fn wanted() -> usize;

    /// The threads to start drainers on, existing or new. `is_idle`: no drainer runs on the existing ones.
    fn prepare(present: &mut Option<Self>, is_idle: bool) -> Self;
}

/// Drainers that the caller must start; they are counted already.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "drainers that are counted and not started leave the list alone"]
pub struct Start<P> {
    pub threads: P,
    pub count: usize,
}

/// A job, and possibly another drainer to start for the job after it.
pub type Taken<J, P> = (J, Option<Start<P>>);

/// The list of jobs `J` for drainers on threads `P`.
#[derive(Debug, Default)]
pub struct ReadyList<J, P> {
    state: Mutex<State<J, P>>,
    /// The number of jobs in the list; written under the lock.
    ready: AtomicUsize,
    /// The number of urgent jobs in the list.
    urgent: AtomicUsize,
    /// The number of drainers; written under the lock.
    drainers: AtomicUsize,
    /// The number of searching drainers.
    searching: AtomicUsize,
}

#[derive(Debug, Default)]
struct State<J, P> {
    urgent: VecDeque<J>,
    normal: VecDeque<J>,
    threads: Option<P>,
}

impl<J, P> State<J, P> {
    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.normal.is_empty()
    }

    fn pop(&mut self) -> Option<J> {
        self.urgent.pop_front().or_else(|| self.normal.pop_front())
    }
}

impl<J, P: Threads> ReadyList<J, P> {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            state: Mutex::new(State { urgent: VecDeque::new(), normal: VecDeque::new(), threads: None }),
            ready: AtomicUsize::new(0),
            urgent: AtomicUsize::new(0),
            drainers: AtomicUsize::new(0),
            searching: AtomicUsize::new(0),
        }
    }

    /// Appends a job. Returns the drainer to start for it, if one is needed.
    pub fn push(&self, job: J, is_urgent: bool) -> Option<Start<P>> {
        let mut state = self.state.lock();
        let queue = if is_urgent { &mut state.urgent } else { &mut state.normal };
        queue.push_back(job);
        self.publish(&state);
        self.start_if_none_searches(&mut state)
    }

    /// Counts up to `wanted` more drainers, up to `most` in total.
    pub fn start(&self, wanted: usize, most: usize) -> Option<Start<P>> {
        self.count_started(&mut self.state.lock(), wanted, most)
    }

    /// The next job of a drainer. If there is none, the drainer counts as searching from here on.
    pub fn next(&self) -> Option<Taken<J, P>> {
        let mut state = self.state.lock();
        let taken = self.take(&mut state);
        if taken.is_none() {
            self.searching.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// A job for a searching drainer, if there is one; it ends the search.
    #[inline]
    pub fn look(&self) -> Option<Taken<J, P>> {
        if self.has_ready() { self.fetch() } else { None }
    }

    /// Runs `help` without counting as searching meanwhile, unless a job is ready. Returns the result of `help`.
    pub fn help(&self, help: impl FnOnce() -> bool) -> bool {
        self.searching.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let helped = !self.has_ready() && help();
        self.searching.fetch_add(1, Ordering::Relaxed);
        helped
    }

    /// Ends a search, and the drainer with it unless there is a job.
    pub fn give_up(&self) -> Option<Taken<J, P>> {
        let mut state = self.state.lock();
        self.searching.fetch_sub(1, Ordering::Relaxed);
        let taken = self.take(&mut state);
        if taken.is_none() {
            self.drainers.store(self.drainers() - 1, Ordering::Relaxed);
        }
        taken
    }

    #[inline]
    pub fn has_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) > 0
    }

    /// True if an urgent job is ready.
    #[inline]
    pub fn has_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) > 0
    }

    #[inline]
    pub fn drainers(&self) -> usize {
        self.drainers.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn searching(&self) -> usize {
        self.searching.load(Ordering::Relaxed)
    }

    fn publish(&self, state: &State<J, P>) {
        self.urgent.store(state.urgent.len(), Ordering::Relaxed);
        self.ready.store(state.urgent.len() + state.normal.len(), Ordering::Relaxed);
    }

    fn start_if_none_searches(&self, state: &mut State<J, P>) -> Option<Start<P>> {
        // This fence is between the publication of the job and the read of the searchers; see `help`.
        fence(Ordering::SeqCst);
        if self.searching() > 0 { None } else { self.count_started(state, 1, P::wanted()) }
    }

    fn count_started(&self, state: &mut State<J, P>, wanted: usize, most: usize) -> Option<Start<P>> {
        let drainers = self.drainers();
        let count = wanted.min(most.saturating_sub(drainers));
        if count == 0 {
            return None;
        }
        let threads = P::prepare(&mut state.threads, drainers == 0);
        self.drainers.store(drainers + count, Ordering::Relaxed);
        Some(Start { threads, count })
    }

    fn fetch(&self) -> Option<Taken<J, P>> {
        let mut state = self.state.lock();
        if state.is_empty() {
            return None;
        }
        self.searching.fetch_sub(1, Ordering::Relaxed);
        self.take(&mut state)
    }

    fn take(&self, state: &mut State<J, P>) -> Option<Taken<J, P>> {
        let job = state.pop()?;
        self.publish(state);
        let start = if state.is_empty() { None } else { self.start_if_none_searches(state) };
        Some((job, start))
    }
}
