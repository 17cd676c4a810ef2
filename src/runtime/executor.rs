//! Executor: compute threads drain ready streams and help with open parallel loops.
//!
//! There are `num_threads` compute threads, the workers of one rayon pool, which puts them to sleep and wakes them. A **drainer** is a job
//! on that pool that serves ready streams, high priority first. When there is none it **searches** for a while, so that the next task finds
//! it awake, and then returns to the pool. It searches only while running and searching threads do not outnumber `num_threads`; outside
//! threads (Python's) that run tasks, or have submitted some just now, count.
//!
//! No wake-up is lost: a stream is put into the ready list under the lock, and the thread that does that starts a drainer unless one is
//! searching or all threads drain already; a searching drainer gives up under the lock and only if the list is empty. A searching
//! drainer that wants to help with a loop first leaves the count of searchers and then looks at the list again (both sequentially
//! consistent), so that either it sees the stream or the other side sees no searcher.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::stream::Stream;
use super::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, spin_loop};
use super::thread_pool::{Pool, on_worker};
use super::{affinity, exit, parallel_for};

/// How long a drainer searches after its last work.
const SEARCH: Duration = Duration::from_micros(150);
/// Looks between two readings of the clock.
const LOOKS: u32 = 64;

/// The one executor of the process.
pub static EXECUTOR: Executor = Executor::new();

/// The ready list and the counts of threads.
#[derive(Debug)]
pub struct Executor {
    state: Mutex<State>,
    /// Streams in the ready list; written under the lock.
    ready: AtomicUsize,
    /// Those of high priority among them.
    urgent: AtomicUsize,
    /// Drainers; written under the lock.
    drainers: AtomicUsize,
    /// Those of them that look for work.
    searching: AtomicUsize,
    /// Outside threads that run tasks or spin.
    outside: AtomicUsize,
    /// An outside thread has submitted since a searcher last looked.
    submitting: AtomicBool,
}

#[derive(Debug)]
struct State {
    ready: [VecDeque<&'static Stream>; 2],
    pool: Option<Pool>,
}

impl State {
    fn pop(&mut self) -> Option<&'static Stream> {
        let [urgent, normal] = &mut self.ready;
        urgent.pop_front().or_else(|| normal.pop_front())
    }

    /// The pool with as many threads as are wanted now; one of another size is replaced when nothing runs on it.
    fn pool(&mut self, drainers: usize) -> Pool {
        let wanted = parallel_for::num_threads();
        if drainers == 0 && self.pool.as_ref().is_some_and(|pool| pool.threads() != wanted) {
            self.pool = None;
        }
        self.pool.get_or_insert_with(|| Pool::new(wanted)).clone()
    }
}

/// An outside thread that runs tasks or spins, counted until dropped.
#[derive(Debug)]
pub struct Outside(());

impl Drop for Outside {
    fn drop(&mut self) {
        EXECUTOR.outside.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Executor {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State { ready: [const { VecDeque::new() }; 2], pool: None }),
            drainers: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
            urgent: AtomicUsize::new(0),
            searching: AtomicUsize::new(0),
            outside: AtomicUsize::new(0),
            submitting: AtomicBool::new(false),
        }
    }

    /// Counts this thread as running, unless it is a worker, which is counted anyway.
    pub fn enter(&self) -> Option<Outside> {
        if on_worker() {
            return None;
        }
        self.outside.fetch_add(1, Ordering::Relaxed);
        Some(Outside(()))
    }

    /// Notes that this thread is busy submitting, so that searchers leave it its core.
    #[inline]
    pub fn note_submission(&self) {
        if !self.submitting.load(Ordering::Relaxed) {
            self.submitting.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a drainer is awake and looks for work.
    #[inline]
    pub fn is_searching(&self) -> bool {
        self.searching.load(Ordering::Relaxed) > 0
    }

    /// Takes over a stream that its queue said to hand over.
    pub fn make_ready(&self, stream: &'static Stream) {
        let mut state = self.state.lock();
        let class = usize::from(stream.priority() == 0);
        state.ready[class].push_back(stream);
        self.publish(&state);
        if self.searching.load(Ordering::SeqCst) == 0 {
            self.start_drainers(state, 1, parallel_for::num_threads());
        }
    }

    /// Sees to it that up to `wanted` threads are awake, beside this one, to help with a loop.
    pub fn wake(&self, wanted: usize) {
        let awake = self.searching.load(Ordering::Relaxed);
        if wanted > awake {
            let most = parallel_for::num_threads() - usize::from(!on_worker());
            self.start_drainers(self.state.lock(), wanted - awake, most);
        }
    }

    /// Whether another stream should have this drainer's thread: one of high priority, or any one after a fair share.
    #[inline]
    pub fn is_wanted_elsewhere(&self, priority: i32, had_its_share: bool) -> bool {
        let urgent = priority == 0 && self.urgent.load(Ordering::Relaxed) > 0;
        urgent || (had_its_share && self.ready.load(Ordering::Relaxed) > 0)
    }

    fn publish(&self, state: &State) {
        self.urgent.store(state.ready[0].len(), Ordering::Relaxed);
        self.ready.store(state.ready[0].len() + state.ready[1].len(), Ordering::SeqCst);
    }

    /// Starts up to `wanted` drainers more, up to `most` in all.
    fn start_drainers(&self, mut state: MutexGuard<'_, State>, wanted: usize, most: usize) {
        let drainers = self.drainers.load(Ordering::Relaxed);
        let starting = wanted.min(most.saturating_sub(drainers));
        if starting == 0 {
            return;
        }
        let pool = state.pool(drainers);
        self.drainers.store(drainers + starting, Ordering::Relaxed);
        drop(state);
        affinity::keep_off();
        for _ in 0..starting {
            pool.start(|| EXECUTOR.drain());
        }
    }

    /// A drainer: serves streams until it has found none for a while.
    fn drain(&self) {
        while let Some(stream) = self.next() {
            match exit::Running::start() {
                Some(_running) => stream.serve(),
                None => exit::stand_still(),
            }
        }
    }

    /// The next ready stream; `None` ends the drainer.
    fn next(&self) -> Option<&'static Stream> {
        let mut state = self.state.lock();
        if let Some(stream) = state.pop() {
            self.publish(&state);
            if self.ready.load(Ordering::Relaxed) > 0 && self.searching.load(Ordering::SeqCst) == 0 {
                self.start_drainers(state, 1, parallel_for::num_threads());
            }
            return Some(stream);
        }
        self.searching.fetch_add(1, Ordering::SeqCst);
        drop(state);
        self.search()
    }

    /// Looks for a ready stream and for loops to help with; ends as a drainer when it has been idle for long, or is in the way.
    fn search(&self) -> Option<&'static Stream> {
        let mut idle_since = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if self.ready.load(Ordering::Relaxed) > 0
                    && let Some(stream) = self.fetch()
                {
                    return Some(stream);
                }
                if parallel_for::is_open() && self.help() {
                    idle_since = Instant::now();
                }
                spin_loop();
            }
            if idle_since.elapsed() > SEARCH || self.is_crowded() {
                return self.give_up();
            }
        }
    }

    /// Takes a ready stream and ends the search.
    fn fetch(&self) -> Option<&'static Stream> {
        let mut state = self.state.lock();
        let stream = state.pop()?;
        self.publish(&state);
        self.searching.fetch_sub(1, Ordering::SeqCst);
        Some(stream)
    }

    /// Helps with an open loop, not counted as searching meanwhile.
    fn help(&self) -> bool {
        self.searching.fetch_sub(1, Ordering::SeqCst);
        let helped = self.ready.load(Ordering::SeqCst) == 0 && parallel_for::help();
        self.searching.fetch_add(1, Ordering::SeqCst);
        helped
    }

    fn give_up(&self) -> Option<&'static Stream> {
        let mut state = self.state.lock();
        self.searching.fetch_sub(1, Ordering::SeqCst);
        let stream = state.pop();
        match stream {
            Some(_) => self.publish(&state),
            None => _ = self.drainers.fetch_sub(1, Ordering::Relaxed),
        }
        stream
    }

    /// Whether running and searching threads outnumber the threads there are.
    fn is_crowded(&self) -> bool {
        let drainers = self.drainers.load(Ordering::Relaxed);
        let submitting = self.submitting.swap(false, Ordering::Relaxed);
        let outside = self.outside.load(Ordering::Relaxed).max(usize::from(submitting));
        drainers + outside > parallel_for::num_threads()
    }
}
