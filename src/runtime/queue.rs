//! Queue of a stream: first-in first-out, drained by one thread at a time.
//!
//! Any thread may push. The draining thread holds the [`Owner`], of which at most one exists per queue. The owner may move between
//! threads: a compute thread passes it to the blocking pool for a callback, or leaves it with the event that the head of the queue
//! waits for. An idle queue may have an [`InlineOwner`] instead, which runs one item that is never queued, without a lock unless
//! another thread arrives.
//!
//! | field | who may touch it |
//! |---|---|
//! | `inner.incoming` | under the lock: pushed by anyone, taken as a whole by the owner |
//! | `inner.rest` | under the lock, while no owner exists: the items that the last owner left |
//! | `Owner::items` | the owner alone, without the lock |
//! | `inner.owned` | under the lock, while `state` is taken: true if an owner or an inline owner exists |
//! | `inner.ready` | under the lock: true if the queue was handed to the executor and not fetched yet |
//! | `state` | the number of items pushed so far, and who may proceed: anyone if idle, the inline owner alone, or the lock's holder if
//! taken |
//! | `completed` | written by the owner or the inline owner, or by whoever counts the items that the owner took out; read by anyone |
//! | `wake_at` | lowered by sleepers under the lock, read by the owner after each item |
//!
//! The state is idle only if nothing is queued and nobody owns the queue. A thread that takes the state from an inline owner makes
//! it the owner; it notices when it ends.
//!
//! No wake-up is lost. A thread that leaves a queue neither empty nor owned has set `ready` and tells the executor (the calls that
//! return `true`). A sleeper lowers `wake_at` before it reads `completed`, and the owner raises `completed` before it reads
//! `wake_at`, each with a sequentially consistent fence in between. Whoever makes a sleeper's condition true calls [`Queue::wake`],
//! which reads `wake_at` after such a fence.
#![forbid(unsafe_code)]

use std::mem::{replace, swap, take};

use super::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, Unlocked, fence, wait};

const NOBODY: u64 = u64::MAX;

/// Mode bit of [`Queue::state`]: an inline owner runs its item.
const INLINE: u64 = 1;
/// Mode bit of [`Queue::state`]: the state is taken, and the lock decides.
const TAKEN: u64 = 2;
/// Increment of [`Queue::state`] for one item.
const ITEM: u64 = 4;
/// Mask of the mode bits in [`Queue::state`].
const MODE: u64 = ITEM - 1;

#[derive(Debug)]
pub struct Queue<T> {
    inner: Mutex<Inner<T>>,
    state: AtomicU64,
    completed: AtomicU64,
    wake_at: AtomicU64,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    incoming: Vec<Option<T>>,
    rest: Items<T>,
    owned: bool,
    ready: bool,
}

/// Items that were taken together; those before `next` are done or were taken out, and are `None`.
#[derive(Debug)]
struct Items<T> {
    items: Vec<Option<T>>,
    next: usize,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { items: Vec::new(), next: 0 }
    }
}

impl<T> Items<T> {
    fn is_empty(&self) -> bool {
        self.next == self.items.len()
    }
}

impl<T> Inner<T> {
    fn is_empty(&self) -> bool {
        self.incoming.is_empty() && self.rest.is_empty()
    }

    fn own<'a>(&mut self, queue: &'a Queue<T>) -> Owner<'a, T> {
        self.owned = true;
        Owner { queue, items: take(&mut self.rest) }
    }
}

/// The right and the duty to drain a queue; ended by [`Owner::release`].
#[derive(Debug)]
#[must_use = "a queue whose owner is dropped stands still"]
pub struct Owner<'a, T> {
    queue: &'a Queue<T>,
    items: Items<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            inner: Mutex::new(Inner { incoming: Vec::new(), rest: Items::default(), owned: false, ready: false }),
            state: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            wake_at: AtomicU64::new(NOBODY),
            changed: Condvar::default(),
        }
    }
}

impl<T> Queue<T> {
    /// The number of items pushed so far.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.state.load(Ordering::Acquire) / ITEM
    }

    /// The number of completed items. Acquire: pairs with the store in `complete`, so that what an item wrote is visible.
    #[inline]
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Appends an item. Returns its number, counted from 1, and whether the caller must hand the queue to the executor.
    #[inline]
    pub fn push(&self, item: T) -> (u64, bool) {
        let mut inner = self.take_over();
        inner.incoming.push(Some(item));
        let number = self.count(&inner);
        let hand_over = !inner.owned && !replace(&mut inner.ready, true);
        (number, hand_over)
    }

    /// Appends an item, and takes the ownership if nobody has it.
    pub fn push_and_own(&self, item: T) -> (u64, Option<Owner<'_, T>>) {
        let mut inner = self.take_over();
        inner.incoming.push(Some(item));
        let number = self.count(&inner);
        let owner = (!inner.owned).then(|| inner.own(self));
        (number, owner)
    }

    /// As [`Queue::push_and_own`] of several items, at least one; returns the number of the last one.
    pub fn push_all_and_own(&self, items: Vec<T>) -> (u64, Option<Owner<'_, T>>) {
        let mut inner = self.take_over();
        let number = items.iter().fold(0, |_, _| self.count(&inner));
        inner.incoming.extend(items.into_iter().map(Some));
        let owner = (!inner.owned).then(|| inner.own(self));
        (number, owner)
    }

    /// Takes the ownership of an idle queue and counts one item, which the caller runs without queueing it.
    #[inline]
    pub fn own_idle(&self) -> Option<InlineOwner<'_, T>> {
        let idle = self.state.load(Ordering::Relaxed);
        if idle & MODE != 0 {
            return None;
        }
        let held = idle + ITEM + INLINE;
        // Acquire: pairs with the release of the thread that left the queue idle, so that what its items wrote is visible.
        self.state.compare_exchange(idle, held, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(InlineOwner { queue: self, held })
    }

    /// Takes the lock and the state: no inline owner can start from here on, and a running one becomes the owner. The caller must
    /// push an item; the owner of the queue then makes it idle again.
    #[inline]
    fn take_over(&self) -> MutexGuard<'_, Inner<T>> {
        let mut inner = self.inner.lock();
        if self.state.load(Ordering::Relaxed) & TAKEN == 0 {
            // Acquire: as in `own_idle`, if the inline owner has just left.
            let before = self.state.fetch_or(TAKEN, Ordering::Acquire);
            inner.owned = before & INLINE != 0;
        }
        inner
    }

    /// Makes a running inline owner the owner.
    fn adopt_guest(&self, inner: &mut MutexGuard<'_, Inner<T>>) {
        let state = self.state.load(Ordering::Acquire);
        // If the exchange fails, the inline owner has left.
        if state & MODE == INLINE && self.state.compare_exchange(state, state | TAKEN, Ordering::Acquire, Ordering::Acquire).is_ok()
        {
            inner.owned = true;
        }
    }

    /// Takes the ownership if nobody has it and something is queued.
    pub fn own(&self) -> Option<Owner<'_, T>> {
        let mut inner = self.inner.lock();
        (!inner.owned && !inner.is_empty()).then(|| inner.own(self))
    }

    /// As [`Queue::own`], for the thread that fetched the queue from the executor.
    pub fn own_ready(&self) -> Option<Owner<'_, T>> {
        let mut inner = self.inner.lock();
        inner.ready = false;
        (!inner.owned && !inner.is_empty()).then(|| inner.own(self))
    }

    /// True if the queue has an owner or an inline owner.
    pub fn is_owned(&self) -> bool {
        let inner = self.inner.lock();
        inner.owned || self.state.load(Ordering::Relaxed) & MODE == INLINE
    }

    /// True if something is queued and nobody owns the queue.
    pub fn is_ready(&self) -> bool {
        let inner = self.inner.lock();
        !inner.owned && !inner.is_empty()
    }

    /// Sleeps until `target` items are done or nobody owns the queue.
    pub fn sleep(&self, target: u64, unlocked: &Unlocked) {
        self.sleep_unless(target, || false, unlocked);
    }

    /// As [`Queue::sleep`], but ends also when `is_over` returns true; it is evaluated before each sleep and after each
    /// [`Queue::wake`].
    pub fn sleep_unless(&self, target: u64, is_over: impl Fn() -> bool, unlocked: &Unlocked) {
        let mut inner = self.inner.lock();
        while self.is_busy_until(&mut inner, target) && !is_over() {
            inner = wait(&self.changed, inner, unlocked);
        }
    }

    /// Makes sleepers evaluate their `is_over` again; call it after the condition has become true.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.wake_at.load(Ordering::Relaxed) != NOBODY {
            self.wake_sleepers(&self.inner.lock());
        }
    }

    /// True if the queue is owned and fewer than `target` items are done; this thread is then registered to be woken when that
    /// changes.
    fn is_busy_until(&self, inner: &mut MutexGuard<'_, Inner<T>>, target: u64) -> bool {
        self.adopt_guest(inner);
        if !inner.owned {
            return false;
        }
        self.wake_at.fetch_min(target, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.completed() < target
    }

    /// Counts one item as done: the owner, or as long as items that it [took out](Owner::take) are not counted, whoever counts
    /// them, one after another.
    #[inline]
    pub fn complete(&self) {
        let done = self.completed.load(Ordering::Relaxed) + 1;
        self.completed.store(done, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.wake_at.load(Ordering::Relaxed) <= done {
            self.wake_sleepers(&self.inner.lock());
        }
    }

    /// Counts an item of a queue whose state is taken.
    fn count(&self, _locked: &MutexGuard<'_, Inner<T>>) -> u64 {
        let state = self.state.load(Ordering::Relaxed) + ITEM;
        self.state.store(state, Ordering::Release);
        state / ITEM
    }

    /// Ends an ownership; returns true if the queue must be handed to the executor.
    #[inline]
    fn leave(&self, mut inner: MutexGuard<'_, Inner<T>>) -> bool {
        inner.owned = false;
        if self.wake_at.load(Ordering::Relaxed) != NOBODY {
            self.wake_sleepers(&inner);
        }
        if inner.is_empty() {
            // Release: pairs with the next inline owner's acquire. Nobody else writes the state: it is taken, and the lock is held.
            self.state.store(self.state.load(Ordering::Relaxed) & !MODE, Ordering::Release);
            return false;
        }
        !replace(&mut inner.ready, true)
    }

    /// Wakes all sleepers, which check their condition and register again if they continue to sleep.
    fn wake_sleepers(&self, _locked: &MutexGuard<'_, Inner<T>>) {
        self.wake_at.store(NOBODY, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

impl<T> Owner<'_, T> {
    /// The first item that is not done.
    #[inline]
    pub fn head(&mut self) -> Option<&mut T> {
        if self.items.is_empty() {
            self.items.items.clear();
            self.items.next = 0;
            swap(&mut self.items.items, &mut self.queue.inner.lock().incoming);
        }
        self.items.items.get_mut(self.items.next)?.as_mut()
    }

    /// The items that are not done, none of them `None`: the head, if [`Owner::head`] was called, and those that [`Owner::look`]
    /// fetched.
    pub fn waiting(&self) -> &[Option<T>] {
        &self.items.items[self.items.next..]
    }

    /// Fetches the items that were pushed meanwhile, without advancing.
    pub fn look(&mut self) {
        self.items.items.append(&mut self.queue.inner.lock().incoming);
    }

    /// Drops the head and counts it as done.
    #[inline]
    pub fn advance(&mut self) {
        self.items.items[self.items.next] = None;
        self.items.next += 1;
        self.queue.complete();
    }

    /// Takes the first item that is not done out of the queue. The caller counts it by [`Queue::complete`] when it is done, in
    /// order, and ends the ownership or counts other items only after that.
    pub fn take(&mut self) -> Option<T> {
        self.head()?;
        self.items.next += 1;
        self.items.items[self.items.next - 1].take()
    }

    /// Ends the ownership. Returns true if the caller must hand the queue to the executor, because items are left.
    #[inline]
    #[must_use]
    pub fn release(self) -> bool {
        let mut inner = self.queue.inner.lock();
        inner.rest = self.items;
        self.queue.leave(inner)
    }
}

/// The ownership of an empty queue, for one item that is never queued; ended by [`InlineOwner::finish`].
#[derive(Debug)]
#[must_use = "a queue whose owner is dropped stands still"]
pub struct InlineOwner<'a, T> {
    queue: &'a Queue<T>,
    /// The state of the queue as long as no other thread has taken it.
    held: u64,
}

impl<T> InlineOwner<'_, T> {
    #[inline]
    pub fn number(&self) -> u64 {
        self.held / ITEM
    }

    /// Counts the item as done and ends the ownership, as [`Owner::release`]. No fence is needed, because sleepers take the state
    /// before they read the count.
    #[inline]
    #[must_use]
    pub fn finish(self) -> bool {
        let queue = self.queue;
        queue.completed.store(self.number(), Ordering::Release);
        // Release: pairs with the acquire of the next inline owner, or of the thread that takes the queue.
        let left = queue.state.compare_exchange(self.held, self.held - INLINE, Ordering::Release, Ordering::Relaxed);
        left.is_err() && queue.leave(queue.inner.lock())
    }
}
