//! The switch between std's synchronisation and loom's; no other file of the runtime names either.
//!
//! The protocol cores are written against these names, so that `--cfg loom` model-checks the very code that runs. Locks here do
//! not poison: a panic inside a task is caught where the task runs, and no invariant of the runtime spans a call that can panic.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint::spin_loop,
    sync::{
        Arc, Condvar, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{
        Arc, Condvar, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

pub use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

/// What process-wide statics use: loom's types cannot be built in a constant, and no model reaches them.
pub mod process {
    pub use std::sync::Mutex;
    pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
}

#[cfg(loom)]
use loom::sync::Mutex as RawMutex;
#[cfg(not(loom))]
use std::sync::Mutex as RawMutex;

/// A mutual exclusion lock without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(RawMutex<T>);

impl<T> Mutex<T> {
    /// A lock around `value`.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self(RawMutex::new(value))
    }

    /// A lock around `value`.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self(RawMutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits on `condvar`, giving up the lock meanwhile; wakes without reason at times.
#[inline]
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
