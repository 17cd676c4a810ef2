//! Executor: compute threads drain what is ready and help with open parallel loops.
//!
//! There are `num_threads` compute threads, the workers of one rayon pool, which parks and wakes them. A **drainer** is a job on
//! that pool that serves what is [ready](ReadyList), high priority first. When nothing is ready it **searches** for a while, so
//! that the next task finds it awake, and then returns to the pool. It searches only while running and searching threads do not
//! outnumber `num_threads`; this count includes outside threads (Python's) that run tasks or have just submitted some.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Instant;

use super::open_loops::Counted;
use super::ready_list::{ReadyList, Start, Taken, Threads};
use super::sync::{AtomicBool, AtomicUsize, Ordering, spin_loop};
use super::thread_pool::{Pool, num_threads, on_worker};
use super::{affinity, exit, open_loops};
use crate::tuning::waking::{LOOKS, SEARCH};

pub static EXECUTOR: Executor = Executor::new();

/// A stream, as compute threads serve it.
pub trait Ready: fmt::Debug + Sync {
    /// 0 normal, -1 high.
    fn priority(&self) -> i32;

    /// A compute thread's turn at draining it.
    fn serve(&'static self);
}

/// The ready list and the counts of other threads.
#[derive(Debug)]
pub struct Executor {
    list: ReadyList<&'static dyn Ready, Pool>,
    /// The number of outside threads that run tasks or spin.
    outside: AtomicUsize,
    /// True if an outside thread has submitted since a searcher last looked.
    submitting: AtomicBool,
}

impl Threads for Pool {
    fn wanted() -> usize {
        num_threads()
    }

    fn prepare(present: &mut Option<Self>, is_idle: bool) -> Self {
        let wanted = num_threads();
        if is_idle && present.as_ref().is_some_and(|pool| pool.threads() != wanted) {
            *present = None;
        }
        present.get_or_insert_with(|| Self::new(wanted)).clone()
    }
}

impl Executor {
    const fn new() -> Self {
        Self { list: ReadyList::new(), outside: AtomicUsize::new(0), submitting: AtomicBool::new(false) }
    }

    /// Counts this thread as running until the result is dropped, unless it is a worker, which is always counted.
    pub fn enter(&'static self) -> Option<Counted> {
        (!on_worker()).then(|| Counted::new(&self.outside))
    }

    /// Notes that this thread is submitting, so that searchers leave it its core.
    #[inline]
    pub fn note_submission(&self) {
        if !self.submitting.load(Ordering::Relaxed) {
            self.submitting.store(true, Ordering::Relaxed);
        }
    }

    /// True if a drainer is awake and searches for work.
    #[inline]
    pub fn is_searching(&self) -> bool {
        self.list.searching() > 0
    }

    /// Adds a job to the ready list; called when its queue asks for it.
    pub fn make_ready(&'static self, job: &'static dyn Ready) {
        self.start(self.list.push(job, job.priority() != 0));
    }

    /// Ensures that up to `wanted` threads besides this one are awake to help with a loop.
    pub fn wake(&'static self, wanted: usize) {
        let awake = self.list.searching();
        if wanted > awake {
            let most = num_threads() - usize::from(!on_worker());
            self.start(self.list.start(wanted - awake, most));
        }
    }

    /// True if another job should get this drainer's thread: one of high priority, or any job after a fair share.
    #[inline]
    pub fn is_wanted_elsewhere(&self, priority: i32, had_its_share: bool) -> bool {
        (priority == 0 && self.list.has_urgent()) || (had_its_share && self.list.has_ready())
    }

    fn start(&'static self, start: Option<Start<Pool>>) {
        let Some(Start { threads, count }) = start else { return };
        affinity::keep_off();
        for _ in 0..count {
            threads.start(|| self.drain());
        }
    }

    /// A drainer: serves jobs until it has found none for a while.
    fn drain(&'static self) {
        while let Some(job) = self.next() {
            match exit::Running::start() {
                Some(_running) => job.serve(),
                None => exit::stand_still(),
            }
        }
    }

    /// The next job to serve; `None` ends the drainer.
    fn next(&'static self) -> Option<&'static dyn Ready> {
        let (job, start) = self.list.next().or_else(|| self.search())?;
        self.start(start);
        Some(job)
    }

    /// Searches for ready jobs and for loops to help with. Gives up if idle for too long or if the threads are too many.
    fn search(&self) -> Option<Taken<&'static dyn Ready, Pool>> {
        let mut idle_since = Instant::now();
        loop {
            for _ in 0..LOOKS {
                let taken = self.list.look();
                if taken.is_some() {
                    return taken;
                }
                if open_loops::is_open() && self.list.help(open_loops::help) {
                    idle_since = Instant::now();
                }
                spin_loop();
            }
            if idle_since.elapsed() > SEARCH || self.is_crowded() {
                return self.list.give_up();
            }
        }
    }

    /// True if running and searching threads outnumber `num_threads`.
    fn is_crowded(&self) -> bool {
        let submitting = self.submitting.swap(false, Ordering::Relaxed);
        let outside = self.outside.load(Ordering::Relaxed).max(usize::from(submitting));
        self.list.drainers() + outside > num_threads()
    }
}
