//! Thread pool: the compute threads are the workers of one rayon pool, in which they sleep while there is no work.
#![forbid(unsafe_code)]

use std::cell::Cell;

use super::config::config;
use super::sync::{AtomicUsize, Ordering};

#[cfg(not(tsan))]
pub use rayon_pool::Pool;
#[cfg(tsan)]
pub use thread_per_job::Pool;

/// The number that [`set_num_threads`] set; 0 if it was not called.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// True if this is a compute thread.
#[inline]
pub fn on_worker() -> bool {
    IS_WORKER.get()
}

#[inline]
pub fn num_threads() -> usize {
    match COUNT.load(Ordering::Relaxed) {
        0 => config().num_threads,
        count => count,
    }
}

/// Sets the number of threads for parallel work. The compute threads are replaced when none of them is busy.
pub fn set_num_threads(count: usize) {
    COUNT.store(count.max(1), Ordering::Relaxed);
}

#[cfg(not(tsan))]
mod rayon_pool {
    use rayon::{ThreadPool, ThreadPoolBuilder};

    use super::IS_WORKER;
    use crate::runtime::affinity;
    use crate::runtime::sync::Arc;

    /// A rayon pool; clones refer to the same one.
    #[derive(Clone, Debug)]
    pub struct Pool(Arc<ThreadPool>);

    impl Pool {
        /// Starts the threads. Panics if the system does not start the threads.
        pub fn new(threads: usize) -> Self {
            let builder = ThreadPoolBuilder::new()
                .num_threads(threads)
                .thread_name(|index| format!("rustdev-{index}"))
                .start_handler(|_| {
                    IS_WORKER.set(true);
                    affinity::register();
                })
                .exit_handler(|_| affinity::unregister());
            Self(Arc::new(builder.build().expect("the system starts the compute threads")))
        }

        pub fn threads(&self) -> usize {
            self.0.current_num_threads()
        }

        /// Runs a job, waking a thread if all sleep.
        pub fn start(&self, job: impl FnOnce() + Send + 'static) {
            self.0.spawn(job);
        }
    }
}

/// A stand-in for ThreadSanitizer, which does not understand the fences with which rayon hands jobs over: each job gets its own
/// thread.
#[cfg(tsan)]
mod thread_per_job {
    use super::IS_WORKER;

    /// The number of threads that the pool pretends to have.
    #[derive(Clone, Debug)]
    pub struct Pool(usize);

    impl Pool {
        pub fn new(threads: usize) -> Self {
            Self(threads)
        }

        pub fn threads(&self) -> usize {
            self.0
        }

        pub fn start(&self, job: impl FnOnce() + Send + 'static) {
            std::thread::spawn(|| {
                IS_WORKER.set(true);
                job();
            });
        }
    }
}
