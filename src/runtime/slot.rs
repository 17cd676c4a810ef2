//! Slot of a parallel loop: the caller publishes the chunks in it, and helpers take some of them.
//!
//! One word holds the state: claimed by a caller or not, open to helpers or not, how many helpers may enter, and how many are
//! inside. A helper enters by a compare-and-swap that finds the slot open and adds itself. From then until it leaves, the job is
//! valid, because the caller closes the slot and waits for `inside == 0` before it returns. A helper may enter another job than the
//! one it saw; this is harmless, because it reads the job only after entering.
//!
//! The chunks are divided into *shares*, one for each thread that may take part. A thread takes chunks from the share of its core
//! first, by adding to the share's counter, then from the others. The caller therefore runs whatever no other thread has claimed.
//! Successive loops over the same memory find most of it in the same core's cache, whichever threads run them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, UnsafeCell, yield_now};
use crate::tuning::sharing::MAX_SHARES;
use crate::tuning::waking::SPINS_BEFORE_YIELD;

const INSIDE: u64 = 0xffff;
const LIMIT_SHIFT: u32 = 16;
const OPEN: u64 = 1 << 32;
const CLAIMED: u64 = 1 << 33;

/// The share, of the given number of shares, that belongs to this thread's core; `None` if the core is not known.
pub type OwnShare = fn(usize) -> Option<usize>;

/// A loop: `body(0..count)`.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub count: usize,
    /// Chunks per claim.
    pub grain: usize,
    pub body: LoopBody<'a>,
}

pub type LoopBody<'a> = &'a (dyn Fn(usize) + Sync);

/// A loop: `body(0..count)` in `shares` shares, claimed `grain` chunks at a time.
#[derive(Clone, Copy, Debug)]
struct Job {
    count: usize,
    shares: usize,
    grain: usize,
    body: *const (dyn Fn(usize) + Sync),
}

impl Job {
    /// The first chunk of a share; the start of the next share is its end.
    fn start(&self, share: usize) -> usize {
        self.count * share / self.shares
    }
}

/// The first unclaimed chunk of a share, in its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Next(AtomicUsize);

/// A slot for one parallel loop at a time. Aligned so that neighbours do not share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Slot {
    state: AtomicU64,
    next: [Next; MAX_SHARES],
    job: UnsafeCell<Option<Job>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written by the thread that claimed the slot while it is not open, and read by threads that entered while it was
// open; the `state` word orders the two (see the module's documentation). The body behind it is `Sync`.
unsafe impl Sync for Slot {}

impl Slot {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        let next = [const { Next(AtomicUsize::new(0)) }; MAX_SHARES];
        Self { state: AtomicU64::new(0), next, job: UnsafeCell::new(None), panic: Mutex::new(None) }
    }

    /// Claims a free slot for a loop of the caller.
    #[inline]
    pub fn claim(&self) -> Option<Claim<'_>> {
        // Acquire: pairs with the store that freed the slot, in `Claim::run`.
        let claimed = self.state.compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then(|| Claim { slot: self })
    }

    /// Joins the loop that is open here, if there is room; returns true if it ran a chunk. `own_share` gives the share to begin
    /// with.
    #[inline]
    pub fn help(&self, own_share: OwnShare) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & OPEN == 0 || state & INSIDE >= state >> LIMIT_SHIFT & INSIDE {
                return false;
            }
            // Acquire: pairs with the store that opened the slot, so that the job is visible.
            match self.state.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let ran = self.run_chunks(own_share, 1 + (state & INSIDE) as usize);
        // Release: pairs with the load in `Claim::run` that finds nobody inside.
        self.state.fetch_sub(1, Ordering::Release);
        ran
    }

    /// Runs chunks until none is left, beginning with the share of this thread's core or, if that is unknown, share `number`.
    /// Called by the claimant and by helpers inside.
    fn run_chunks(&self, own_share: OwnShare, number: usize) -> bool {
        // SAFETY: nobody writes `job` while the slot is open or a helper is inside.
        let Some(job) = self.job.with(|job| unsafe { *job }) else { return false };
        // SAFETY: the claimant keeps the body alive until no helper is inside.
        let body = unsafe { &*job.body };
        let own = own_share(job.shares).unwrap_or(number);
        let mut ran = false;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for share in (own..own + job.shares).map(|share| share % job.shares) {
                let end = job.start(share + 1);
                loop {
                    let first = self.next[share].0.fetch_add(job.grain, Ordering::Relaxed);
                    if first >= end {
                        break;
                    }
                    ran = true;
                    (first..end.min(first + job.grain)).for_each(body);
                }
            }
        }));
        if let Err(panic) = outcome {
            self.next.iter().for_each(|next| next.0.store(job.count, Ordering::Relaxed));
            self.panic.lock().get_or_insert(panic);
        }
        ran
    }
}

/// A claimed slot that is not open yet.
#[derive(Debug)]
pub struct Claim<'a> {
    slot: &'a Slot,
}

impl Claim<'_> {
    /// Opens the slot to at most `helpers` helpers, calls `opened`, runs chunks, and returns when all are done. `own_share` gives
    /// the share to begin with. If a chunk panics, resumes its panic after all helpers have left.
    #[inline]
    pub fn run(self, work: Work<'_>, helpers: usize, own_share: OwnShare, opened: impl FnOnce()) {
        let Work { count, grain, body } = work;
        let slot = self.slot;
        // SAFETY: only the lifetime changes; the body outlives every use, since this call returns after the last helper has left.
        let body: LoopBody<'static> = unsafe { std::mem::transmute::<LoopBody<'_>, LoopBody<'static>>(body) };
        let job = Job { count, shares: (helpers + 1).clamp(1, MAX_SHARES), grain, body };
        // SAFETY: this thread has claimed the slot, which is not open, so nobody reads `job`.
        slot.job.with_mut(|target| unsafe { *target = Some(job) });
        for (share, next) in slot.next.iter().enumerate().take(job.shares) {
            next.0.store(job.start(share), Ordering::Relaxed);
        }
        let limit = (helpers as u64).min(INSIDE) << LIMIT_SHIFT;
        // Release: pairs with the entering helper's compare-and-swap.
        slot.state.store(CLAIMED | OPEN | limit, Ordering::Release);
        opened();
        slot.run_chunks(own_share, 0);
        self.close();
        let panic = slot.panic.lock().take();
        drop(self);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Closes the slot and waits for the helpers inside.
    #[inline]
    fn close(&self) {
        // Acquire, here and below: pairs with the release of leaving helpers, so that what they wrote is visible.
        let mut state = self.slot.state.fetch_and(!OPEN, Ordering::Acquire);
        let mut spins = 0;
        while state & INSIDE != 0 {
            pause(spins);
            spins += 1;
            state = self.slot.state.load(Ordering::Acquire);
        }
    }
}

impl Drop for Claim<'_> {
    /// Frees the slot, even if `opened` unwinds.
    #[inline]
    fn drop(&mut self) {
        if self.slot.state.load(Ordering::Relaxed) & OPEN != 0 {
            self.close();
        }
        // Release: pairs with the next claim.
        self.slot.state.store(0, Ordering::Release);
    }
}

/// One step of waiting for another thread: spins at first, then yields.
#[inline]
fn pause(spins: u32) {
    if spins >= SPINS_BEFORE_YIELD {
        yield_now();
    } else {
        #[cfg(not(loom))]
        super::sync::spin_loop();
    }
}
