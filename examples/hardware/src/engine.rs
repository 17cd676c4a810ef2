//! An engine: a queue and the thread that works through it. In a real driver, these are a command queue of the device and a
//! thread that waits for completions.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use rustdev::hardware::{Cause, HardwareTask, Transfer};

use crate::dma::{self, wait_until};
use crate::memory::Ranges;
use crate::speed::Speed;
use crate::{Counts, Fault};

/// An entry of an engine's queue.
pub enum Job {
    Launch(HardwareTask, Option<Fault>),
    Copy(Transfer, HardwareTask),
}

/// An engine. Its thread starts with the first job, so that a process that has only loaded this library may fork.
pub struct Engine {
    name: String,
    speed: Speed,
    ranges: Arc<Ranges>,
    counts: Arc<Counts>,
    queue: OnceLock<Mutex<Sender<Job>>>,
}

/// The state of the engine's thread.
struct Worker {
    speed: Speed,
    ranges: Arc<Ranges>,
    counts: Arc<Counts>,
    staging: Box<[u8]>,
}

impl Engine {
    /// An engine; `name` becomes the name of its thread.
    pub fn new(name: String, speed: Speed, ranges: &Arc<Ranges>, counts: &Arc<Counts>) -> Self {
        Self { name, speed, ranges: Arc::clone(ranges), counts: Arc::clone(counts), queue: OnceLock::new() }
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
        let (ranges, counts) = (Arc::clone(&self.ranges), Arc::clone(&self.counts));
        let staging = vec![0; self.speed.staging].into_boxed_slice();
        let mut worker = Worker { speed: self.speed, ranges, counts, staging };
        let body = move || worker.serve(&receiver);
        thread::Builder::new().name(self.name.clone()).spawn(body).expect("the system starts a thread");
        Mutex::new(sender)
    }
}

impl Worker {
    fn serve(&mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Launch(task, fault) => self.launch(task, fault),
                Job::Copy(transfer, mut task) => {
                    task.begin();
                    dma::copy(&transfer, &mut self.staging, &self.speed, &self.counts);
                    task.finish(Ok(()));
                }
            }
        }
    }

    fn launch(&self, mut task: HardwareTask, fault: Option<Fault>) {
        task.begin();
        wait_until(Instant::now() + self.speed.launch);
        let outcome = match fault {
            Some(Fault::Forgets) => return,
            Some(Fault::Fails(text)) => Err(text.into()),
            None => self.check(&task).and_then(|()| task.run()),
        };
        if outcome.is_ok() {
            self.counts.completed.fetch_add(1, Ordering::Relaxed);
        }
        task.finish(outcome);
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
