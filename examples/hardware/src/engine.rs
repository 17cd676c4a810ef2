//! An engine: a queue and the thread that works through it. In a real driver, these are a command queue of the device and a
//! thread that waits for completions.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use rustdev::hardware::{Cause, HardwareTask, Transfer};

use crate::dma::{self, wait_until};
use crate::lines::{Lines, Place};
use crate::memory::Ranges;
use crate::speed::Speed;
use crate::{Counts, Fault};

/// An entry of an engine's queue.
pub struct Job {
    pub work: Work,
    pub task: HardwareTask,
    pub submitted: Instant,
    pub place: Place,
}

#[derive(Debug)]
pub enum Work {
    Launch(Option<Fault>),
    Copy(Transfer),
}

/// An engine. Its thread starts with the first job, so that a process that has only loaded this library may fork.
pub struct Engine {
    name: String,
    speed: Speed,
    ranges: Arc<Ranges>,
    counts: Arc<Counts>,
    lines: Arc<Lines>,
    queue: OnceLock<Mutex<Sender<Job>>>,
}

/// The state of the engine's thread.
struct Worker {
    speed: Speed,
    ranges: Arc<Ranges>,
    counts: Arc<Counts>,
    lines: Arc<Lines>,
    staging: Box<[u8]>,
}

impl Engine {
    /// An engine; `name` becomes the name of its thread.
    pub fn new(name: String, speed: Speed, ranges: &Arc<Ranges>, counts: &Arc<Counts>, lines: &Arc<Lines>) -> Self {
        let (ranges, counts, lines) = (Arc::clone(ranges), Arc::clone(counts), Arc::clone(lines));
        Self { name, speed, ranges, counts, lines, queue: OnceLock::new() }
    }

    /// Appends a job to the queue without waiting.
    ///
    /// # Panics
    /// If the system cannot start a thread.
    pub fn submit(&self, job: Job) {
        let queue = self.queue.get_or_init(|| self.start()).lock().unwrap_or_else(PoisonError::into_inner);
        // The thread receives jobs as long as the queue exists.
        let _ = queue.send(job);
    }

    fn start(&self) -> Mutex<Sender<Job>> {
        let (sender, receiver) = channel();
        let (ranges, counts, lines) = (Arc::clone(&self.ranges), Arc::clone(&self.counts), Arc::clone(&self.lines));
        let staging = vec![0; self.speed.staging].into_boxed_slice();
        let mut worker = Worker { speed: self.speed, ranges, counts, lines, staging };
        let body = move || worker.serve(&receiver);
        thread::Builder::new().name(self.name.clone()).spawn(body).expect("the system starts a thread");
        Mutex::new(sender)
    }
}

impl Worker {
    fn serve(&mut self, jobs: &Receiver<Job>) {
        while let Ok(Job { work, mut task, submitted, place }) = jobs.recv() {
            let latency = if matches!(work, Work::Copy(_)) { self.speed.copy } else { self.speed.launch };
            // The tasks of a command queue have their latencies at the same time; a single task has its own at its turn.
            let begin = if self.speed.depth > 1 { submitted + latency } else { Instant::now() + latency };
            place.wait();
            wait_until(begin);
            let is_skipped = task.is_skipped();
            if !is_skipped {
                task.begin();
            }
            let outcome = match work {
                _ if is_skipped => Ok(()),
                Work::Copy(transfer) => {
                    dma::copy(&transfer, &mut self.staging, &self.speed, &self.counts);
                    Ok(())
                }
                Work::Launch(Some(Fault::Forgets)) => {
                    self.lines.leave(&task);
                    drop(task);
                    place.end();
                    continue;
                }
                Work::Launch(fault) => self.launch(&mut task, fault),
            };
            self.lines.leave(&task);
            // The next task of the stream may begin; after a failure, only when the stream knows about that.
            if outcome.is_ok() {
                place.end();
            }
            task.finish(outcome);
            place.end();
        }
    }

    fn launch(&self, task: &mut HardwareTask, fault: Option<Fault>) -> Result<(), Cause> {
        let outcome = match fault {
            Some(Fault::Fails(text)) => Err(text.into()),
            _ => self.check(task).and_then(|()| task.run()),
        };
        if outcome.is_ok() {
            self.counts.completed.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// An error if a launch would access host memory.
    fn check(&self, task: &HardwareTask) -> Result<(), Cause> {
        let mut outside = None;
        task.accesses(&mut |access| {
            if access.begin < access.end && !self.ranges.contain(access.begin, access.end) {
                outside.get_or_insert(access);
            }
        });
        match outside {
            None => Ok(()),
            Some(access) => Err(format!("the device cannot reach {:#x} to {:#x}", access.begin, access.end).into()),
        }
    }
}
