//! Pthread-based locks with std's interface, for `--cfg tsan`.
//!
//! ThreadSanitizer intercepts pthread locks. It cannot follow std's locks, whose slow paths are compiled without instrumentation,
//! and would report every contended lock as a race. Only what the crate uses is implemented; the locks do not poison.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, TryLockError, TryLockResult};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `std::sync::Mutex`. A mutex in use cannot move, because it is borrowed.
#[derive(Debug)]
pub struct Mutex<T> {
    raw: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that holds the lock accesses the value.
unsafe impl<T: Send> Sync for Mutex<T> {}
// SAFETY: an unlocked pthread mutex may move to another thread.
unsafe impl<T: Send> Send for Mutex<T> {}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self { raw: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), value: UnsafeCell::new(value) }
    }

    #[expect(clippy::unnecessary_wraps, reason = "std's signature")]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        // SAFETY: the mutex was initialised by `new`.
        unsafe { libc::pthread_mutex_lock(self.raw.get()) };
        Ok(MutexGuard { mutex: self })
    }

    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        // SAFETY: the mutex was initialised by `new`.
        let code = unsafe { libc::pthread_mutex_trylock(self.raw.get()) };
        if code == 0 { Ok(MutexGuard { mutex: self }) } else { Err(TryLockError::WouldBlock) }
    }

    #[expect(clippy::unnecessary_wraps, reason = "std's signature")]
    pub fn into_inner(self) -> LockResult<T> {
        Ok(self.value.into_inner())
    }
}

/// `std::sync::MutexGuard`.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread holds the lock, and the guard is borrowed uniquely.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the lock.
        unsafe { libc::pthread_mutex_unlock(self.mutex.raw.get()) };
    }
}

/// `std::sync::Condvar`.
#[derive(Debug)]
pub struct Condvar(UnsafeCell<libc::pthread_cond_t>);

// SAFETY: pthread condition variables are made for use from several threads.
unsafe impl Sync for Condvar {}
// SAFETY: a condition variable that nobody waits on may move to another thread.
unsafe impl Send for Condvar {}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    pub const fn new() -> Self {
        Self(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER))
    }

    pub fn notify_one(&self) {
        // SAFETY: the condition variable was initialised by `new`.
        unsafe { libc::pthread_cond_signal(self.0.get()) };
    }

    pub fn notify_all(&self) {
        // SAFETY: as above.
        unsafe { libc::pthread_cond_broadcast(self.0.get()) };
    }

    #[expect(clippy::unnecessary_wraps, reason = "std's signature")]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        // SAFETY: both are initialised, and this thread holds the lock.
        unsafe { libc::pthread_cond_wait(self.0.get(), guard.mutex.raw.get()) };
        Ok(guard)
    }

    #[expect(clippy::unnecessary_wraps, reason = "std's signature")]
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        let deadline = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + timeout;
        let deadline = libc::timespec { tv_sec: deadline.as_secs().cast_signed(), tv_nsec: i64::from(deadline.subsec_nanos()) };
        // SAFETY: both are initialised, and this thread holds the lock.
        let code = unsafe { libc::pthread_cond_timedwait(self.0.get(), guard.mutex.raw.get(), &raw const deadline) };
        Ok((guard, TimedOut(code == libc::ETIMEDOUT)))
    }
}

/// `std::sync::WaitTimeoutResult`.
#[derive(Clone, Copy, Debug)]
pub struct TimedOut(bool);

impl TimedOut {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// `std::sync::RwLock`, but with one reader at a time.
#[derive(Debug, Default)]
pub struct RwLock<T>(Mutex<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub fn read(&self) -> LockResult<MutexGuard<'_, T>> {
        self.0.lock()
    }

    pub fn write(&self) -> LockResult<MutexGuard<'_, T>> {
        self.0.lock()
    }
}

/// `std::sync::OnceLock`.
#[derive(Debug)]
pub struct OnceLock<T> {
    set: AtomicBool,
    setting: Mutex<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once, under the lock, before `set` says so, and only read afterwards.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    pub const fn new() -> Self {
        Self { set: AtomicBool::new(false), setting: Mutex::new(()), value: UnsafeCell::new(None) }
    }

    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the store in `get_or_init`.
        if !self.set.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: nobody writes once `set` is true.
        unsafe { &*self.value.get() }.as_ref()
    }

    pub fn get_or_init(&self, value: impl FnOnce() -> T) -> &T {
        let _setting = self.setting.lock();
        if self.get().is_none() {
            let value = value();
            // SAFETY: nobody reads before `set` is true, and the lock keeps other writers out.
            unsafe { *self.value.get() = Some(value) };
            self.set.store(true, Ordering::Release);
        }
        self.get().expect("the value was just set")
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        let mut left = Some(value);
        self.get_or_init(|| left.take().expect("called once"));
        left.map_or(Ok(()), Err)
    }
}

/// `std::sync::LazyLock`.
#[derive(Debug)]
pub struct LazyLock<T> {
    value: OnceLock<T>,
    init: fn() -> T,
}

impl<T> LazyLock<T> {
    pub const fn new(init: fn() -> T) -> Self {
        Self { value: OnceLock::new(), init }
    }
}

impl<T> Deref for LazyLock<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.get().unwrap_or_else(|| self.value.get_or_init(self.init))
    }
}
