//! Tests of the runtime as a whole, and loom models of its cores.

#[cfg(not(loom))]
mod errors;
#[cfg(not(loom))]
mod events;
#[cfg(not(loom))]
mod fused_loops;
#[cfg(not(loom))]
mod graphs;
#[cfg(loom)]
mod loom_latch;
#[cfg(loom)]
mod loom_queue;
#[cfg(loom)]
mod loom_ready_list;
#[cfg(loom)]
mod loom_slot;
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

/// Common data of the tests.
#[cfg(not(loom))]
mod common {
    use std::time::{Duration, Instant};

    use crate::runtime::graph::Graph;
    use crate::runtime::graph::capture::{Capture, Mode};
    use crate::runtime::pools::private_pool::{PrivatePool, new_number};
    use crate::runtime::stream::Stream;
    use crate::runtime::sync::{Arc, Condvar, Mutex, unlocked, wait};
    use crate::runtime::task::{Closure, Task};
    use crate::runtime::{Error, device};

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

    /// A private pool of memory.
    pub fn pool() -> PrivatePool {
        PrivatePool::new(new_number())
    }

    /// Ends a capture on its own stream.
    pub fn end(capture: &Arc<Capture>, origin: &'static Stream) -> Result<Graph, Error> {
        let before = crate::runtime::device::exchange_stream(origin);
        let ended = capture.end();
        crate::runtime::device::exchange_stream(before);
        ended
    }

    /// A graph of what `body` puts on a stream.
    pub fn captured(origin: &'static Stream, body: impl FnOnce()) -> Graph {
        let capture = Capture::begin(origin, pool(), Mode::ThreadLocal).unwrap();
        body();
        end(&capture, origin).unwrap()
    }

    /// A kernel that is worth a compute thread.
    pub fn kernel(body: impl FnMut() + Send + 'static) -> Task {
        costing(LARGE, body)
    }

    /// A kernel of that cost.
    pub fn costing(cost: u64, mut body: impl FnMut() + Send + 'static) -> Task {
        Task::new(
            "kernel",
            cost,
            Closure::new(move || {
                body();
                Ok(())
            }),
        )
    }

    /// A host callback.
    pub fn callback(mut body: impl FnMut() + Send + 'static) -> Task {
        Task::host(
            "callback",
            Closure::new(move || {
                body();
                Ok(())
            }),
        )
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

    /// Sixteen streams sleep for 0.4 s each, which is over in less than one after the other, and submitting them does not wait.
    #[track_caller]
    pub fn sixteen_sleeps_overlap() {
        let (time, start) = (Duration::from_millis(400), Instant::now());
        let streams: Vec<_> = (0..16).map(|_| stream()).collect();
        for stream in &streams {
            stream.submit(Task::sleep(time)).unwrap();
        }
        assert!(!streams[15].query().unwrap(), "submitting sleeps waits for them");
        for stream in &streams {
            stream.synchronize().unwrap();
        }
        assert!((time..16 * time).contains(&start.elapsed()), "{:?}", start.elapsed());
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
