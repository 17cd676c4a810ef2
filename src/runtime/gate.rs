//! The gate for host threads that write to device memory outside of a stream: such a thread holds a [`Pass`]. Nobody holds one
//! while a thread is [`exclusive`].
//!
//! A thread that holds a pass never waits for a stream. A pass is refused only while a thread is exclusive, not while one wants to
//! be: that one waits for a moment without passes. Deadlock is therefore impossible.
//!
//! Longer writes, and writes on threads that do not use the gate, are [noted](HostWrites) with the memory that they write.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use super::memory::access::Access;
use super::passes::Passes;
use super::sync::{AtomicU64, LazyLock, Mutex, Ordering, unlocked, wait_timeout};

static GATE: LazyLock<Passes> = LazyLock::new(Passes::default);
/// The memory that noted writes are writing, by their number.
static NOTED: Mutex<BTreeMap<u64, Vec<Range<usize>>>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The number of nested passes that this thread holds; only the outermost is counted in the gate.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Access to isolated memory, held with the outermost pass.
    static ACCESS: RefCell<Option<Access>> = const { RefCell::new(None) };
}

/// The right to write to device memory, until dropped.
#[derive(Debug)]
pub struct Pass(());

impl Pass {
    /// Takes a pass; waits while a thread is exclusive.
    pub fn take() -> Self {
        enter();
        Self(())
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        leave();
    }
}

/// Begins a pass of this thread, which [`leave`] ends.
pub fn enter() {
    let depth = DEPTH.replace(DEPTH.get() + 1);
    if depth == 0 {
        GATE.take();
        ACCESS.set(Access::open());
    }
}

/// Ends a pass that [`enter`] began.
pub fn leave() {
    let depth = DEPTH.get() - 1;
    DEPTH.set(depth);
    if depth == 0 {
        ACCESS.set(None);
        GATE.give_back();
    }
}

/// Exclusivity: no host thread holds a pass until this is dropped.
#[derive(Debug)]
pub struct Exclusive(());

impl Drop for Exclusive {
    fn drop(&mut self) {
        GATE.admit();
    }
}

/// Waits until the deadline for a moment without passes, to become exclusive. `None` if there is none, and for a thread that holds
/// a pass itself.
pub fn exclusive(deadline: Instant) -> Option<Exclusive> {
    let is_exclusive = unlocked(|unlocked| {
        GATE.exclude(|changed, state| {
            let left = deadline.saturating_duration_since(Instant::now());
            let goes_on = !left.is_zero() && DEPTH.get() == 0;
            (if goes_on { wait_timeout(changed, state, left, unlocked).0 } else { state }, goes_on)
        })
    });
    is_exclusive.then(|| Exclusive(()))
}

/// Writes of other threads to ranges of memory, from construction to drop.
#[derive(Debug)]
pub struct HostWrites {
    number: u64,
    _access: Option<Access>,
}

impl HostWrites {
    /// Notes the ranges; waits while a thread is exclusive.
    pub fn new(ranges: Vec<Range<usize>>) -> Self {
        let _pass = Pass::take();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NOTED.lock().insert(number, ranges);
        Self { number, _access: Access::open() }
    }
}

impl Drop for HostWrites {
    fn drop(&mut self) {
        NOTED.lock().remove(&self.number);
    }
}

/// True if noted writes overlap a range.
pub fn is_written(range: &Range<usize>) -> bool {
    NOTED.lock().values().flatten().any(|noted| noted.start < range.end && range.start < noted.end)
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_gate() {
        let soon = || Instant::now() + Duration::from_millis(2);
        let outer = Pass::take();
        let inner = Pass::take();
        assert!(exclusive(soon()).is_none(), "this thread holds a pass");
        drop(outer);
        assert!(thread::spawn(move || exclusive(soon()).is_none()).join().unwrap(), "another thread does");
        drop(inner);
        let alone = exclusive(Instant::now() + Duration::from_secs(60)).unwrap();
        let writer = thread::spawn(|| HostWrites::new(iter::once(100..200).collect()));
        thread::sleep(Duration::from_millis(5));
        assert!(!writer.is_finished() && !is_written(&(0..1000)));
        drop(alone);
        let noted = writer.join().unwrap();
        assert_eq!([0..100, 150..160, 199..300, 200..300].map(|range| is_written(&range)), [false, true, true, false]);
        drop(noted);
        assert!(!is_written(&(150..160)));
    }
}
