//! Tests of the runtime as a whole, and loom models of its cores.

#[cfg(not(loom))]
mod events;
#[cfg(not(loom))]
mod fused_loops;
#[cfg(loom)]
mod loom_latch;
#[cfg(loom)]
mod loom_passes;
#[cfg(loom)]
mod loom_queue;
#[cfg(loom)]
mod loom_ready_list;
#[cfg(loom)]
mod loom_slot;
#[cfg(loom)]
mod loom_standstill;
#[cfg(loom)]
mod loom_window;
#[cfg(not(loom))]
mod parallel_loops;
// Not under the thread sanitizer, which cannot follow std's own locks around processes.
#[cfg(not(any(loom, tsan)))]
mod child_processes;
#[cfg(not(loom))]
mod shortage;
#[cfg(not(loom))]
mod streams;
#[cfg(not(loom))]
mod traces;

#[cfg(not(loom))]
mod common {
    use std::time::{Duration, Instant};

    use crate::runtime::device;
    use crate::runtime::graph::Graph;
    use crate::runtime::graph::capture::{Capture, Mode};
    use crate::runtime::pools::private_pool::{PrivatePool, new_number};
    use crate::runtime::stream::Stream;
    use crate::runtime::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, unlocked, wait};
    use crate::runtime::task::{Closure, Task, Work};

    /// A cost that is worth a compute thread.
    pub const LARGE: u64 = 1_000_000;

    /// A stream that no other test uses.
    pub fn stream() -> &'static Stream {
        device::get(0).unwrap().create_stream(0)
    }

    /// A stream of high priority that no other test uses.
    pub fn urgent_stream() -> &'static Stream {
        device::get(0).unwrap().create_stream(-1)
    }

    /// A graph of what `body` puts on a stream.
    pub fn captured(origin: &'static Stream, body: impl FnOnce()) -> Graph {
        let capture = Capture::begin(origin, PrivatePool::new(new_number()), Mode::ThreadLocal).unwrap();
        body();
        let before = device::exchange_stream(origin);
        let graph = capture.end().unwrap();
        device::exchange_stream(before);
        graph
    }

    /// A kernel that is worth a compute thread.
    pub fn kernel(body: impl FnMut() + Send + 'static) -> Task {
        costing(LARGE, body)
    }

    /// A kernel of that cost.
    pub fn costing(cost: u64, body: impl FnMut() + Send + 'static) -> Task {
        Task::new("kernel", cost, succeeding(body))
    }

    pub fn callback(body: impl FnMut() + Send + 'static) -> Task {
        Task::host("callback", succeeding(body))
    }

    fn succeeding(mut body: impl FnMut() + Send + 'static) -> impl Work {
        Closure::new(move || {
            body();
            Ok(())
        })
    }

    pub fn failing(name: &'static str, cost: u64) -> Task {
        Task::new(name, cost, Closure::new(|| Err("no good".into())))
    }

    /// Stops a stream at a callback until the gate is opened.
    pub fn stopped(stream: &'static Stream) -> Gate {
        let gate = Gate::default();
        let held = gate.clone();
        stream.submit(callback(move || held.pass())).unwrap();
        gate
    }

    /// Puts a kernel of that cost on a stream; says whether it has run.
    pub fn noting(stream: &'static Stream, cost: u64) -> impl Fn() -> bool {
        let ran = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ran);
        stream.submit(costing(cost, move || flag.store(true, Ordering::Release))).unwrap();
        move || ran.load(Ordering::Acquire)
    }

    /// Waits a good while for something that has to happen.
    #[track_caller]
    pub fn eventually(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// A gate that tests open when they like.
    #[derive(Clone, Default)]
    pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

    impl Gate {
        pub fn open(&self) {
            *self.0.0.lock() = true;
            self.0.1.notify_all();
        }

        pub fn pass(&self) {
            unlocked(|unlocked| {
                let mut open = self.0.0.lock();
                while !*open {
                    open = wait(&self.0.1, open, unlocked);
                }
            });
        }
    }
}
