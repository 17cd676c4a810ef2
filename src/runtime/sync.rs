//! Synchronisation primitives: std's, or those of the checkers (loom, ThreadSanitizer). Only this file names either.
//!
//! A thread sleeps only through functions of this file, each of which requires an [`Unlocked`].
//!
//! The protocol cores (`queue`, `latch`, `slot`) use these names, so that `--cfg loom` model-checks the production code; `--cfg
//! tsan` selects locks that ThreadSanitizer understands. The locks do not poison: a panic inside a task is caught where the task
//! runs, and no invariant of the runtime spans a call that can panic.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};
#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    thread::yield_now,
};

mod unlocked;
pub use unlocked::{UNLOCK, Unlocked, unlocked};

#[cfg(not(any(loom, tsan)))]
pub use std::sync::MutexGuard;
pub use std::sync::PoisonError;
#[cfg(not(tsan))]
pub use std::sync::{LazyLock, OnceLock, RwLock};

#[cfg(tsan)]
mod pthread;
#[cfg(tsan)]
pub use pthread::{LazyLock, MutexGuard, OnceLock, RwLock};

#[cfg(loom)]
use loom::sync::{Condvar as RawCondvar, Mutex as RawMutex};
#[cfg(tsan)]
use pthread::{Condvar as RawCondvar, Mutex as RawMutex};
#[cfg(not(any(loom, tsan)))]
use std::sync::{Condvar as RawCondvar, Mutex as RawMutex};

/// A mutual exclusion lock without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(RawMutex<T>);

impl<T> Mutex<T> {
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self(RawMutex::new(value))
    }

    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self(RawMutex::new(value))
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if nobody holds it.
    #[cfg(not(loom))]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    /// Consumes the lock and returns the value.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A condition variable for [`wait`].
#[derive(Debug, Default)]
pub struct Condvar(RawCondvar);

impl Condvar {
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Waits on `condvar` and releases the lock meanwhile; wakes spuriously.
#[inline]
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, _: &'a Unlocked) -> MutexGuard<'a, T> {
    condvar.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// As [`wait`], but for at most `timeout`; also returns true if that time has passed.
#[cfg(not(loom))]
pub fn wait_timeout<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: std::time::Duration,
    _: &'a Unlocked,
) -> (MutexGuard<'a, T>, bool) {
    let (guard, result) = condvar.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner);
    (guard, result.timed_out())
}

pub fn sleep(time: std::time::Duration, _: &Unlocked) {
    std::thread::sleep(time);
}

/// Sleeps forever.
pub fn stand_still(_: &Unlocked) -> ! {
    loop {
        std::thread::park();
    }
}

/// A cell whose access protocol the compiler cannot check; loom checks that accesses do not collide.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(*const T) -> R) -> R {
        body(self.0.get())
    }

    #[inline]
    pub fn with_mut<R>(&self, body: impl FnOnce(*mut T) -> R) -> R {
        body(self.0.get())
    }
}
