//! Loom model of the ready list: what is ready does not wait for a drainer that is busy while another thread could serve it.
//!
//! Each job ends only when all jobs are being served. So a job that stays in the list is a deadlock, which loom reports.

use loom::thread;

use crate::runtime::ready_list::{ReadyList, Start, Threads};
use crate::runtime::sync::{Arc, Condvar, Mutex, unlocked, wait};

/// Threads of loom: two at most.
#[derive(Clone, Default)]
struct Two;

impl Threads for Two {
    fn wanted() -> usize {
        2
    }

    fn prepare(present: &mut Option<Self>, _is_idle: bool) -> Self {
        present.get_or_insert(Self).clone()
    }
}

struct Model {
    list: ReadyList<(), Two>,
    jobs: usize,
    /// Jobs that are being served, or were.
    served: Mutex<usize>,
    changed: Condvar,
}

impl Model {
    fn new(jobs: usize) -> Arc<Self> {
        Arc::new(Self { list: ReadyList::default(), jobs, served: Mutex::default(), changed: Condvar::default() })
    }

    fn submit(this: &Arc<Self>) {
        Self::start(this, this.list.push((), false));
    }

    fn start(this: &Arc<Self>, start: Option<Start<Two>>) {
        for _ in 0..start.map_or(0, |start| start.count) {
            let model = Arc::clone(this);
            thread::spawn(move || Self::drain(&model, || false));
        }
    }

    /// A drainer, which looks once before it gives up. `help`: what it does for a loop before, counted as a helper.
    fn drain(this: &Arc<Self>, help: impl Fn() -> bool) {
        let search = || {
            this.list.help(&help);
            this.list.look().or_else(|| this.list.give_up())
        };
        while let Some(((), start)) = this.list.next().or_else(search) {
            Self::start(this, start);
            *this.served.lock() += 1;
            this.changed.notify_all();
            this.wait();
        }
    }

    /// Waits until all jobs are served at once.
    fn wait(&self) {
        unlocked(|unlocked| {
            let mut served = self.served.lock();
            while *served < self.jobs {
                served = wait(&self.changed, served, unlocked);
            }
        });
    }
}

#[test]
fn loom_two_jobs_are_served_at_once() {
    loom::model(|| {
        let model = Model::new(2);
        Model::submit(&model);
        Model::submit(&model);
        model.wait();
    });
}

#[test]
fn loom_two_jobs_that_one_searcher_was_there_for_are_served_at_once() {
    loom::model(|| {
        let model = Model::new(2);
        Model::start(&model, model.list.start(1, 2));
        Model::submit(&model);
        Model::submit(&model);
        model.wait();
    });
}

#[test]
fn loom_a_job_does_not_wait_for_a_helper() {
    loom::model(|| {
        let model = Model::new(1);
        assert!(model.list.start(1, 2).is_some());
        let helper = Arc::clone(&model);
        // The loop goes on until the job is served.
        thread::spawn(move || {
            Model::drain(&helper, || {
                helper.wait();
                true
            });
        });
        Model::submit(&model);
        model.wait();
    });
}
