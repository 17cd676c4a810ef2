//! Device pool: a caching pool behind its lock, and the steps that free memory when a request cannot be served at once.
//!
//! The lock is never held across a wait: contexts are captured before it is taken; streams are synchronised and observers called
//! after it is released.

use std::io;

use super::super::name::Device;
use super::caching_pool::{Pool, Refusal, Request, Settings};
use super::device_memory::DeviceMemory;
use super::history::{Action, Context, Detail, capture};
use super::observe::{self, Shortage, Usage};
use super::shared_budget::SharedBudget;
use super::snapshot::Snapshot;
use super::stats::Stats;
use super::{Timeline, arena, race_notes, text};
use crate::runtime::Error;
use crate::runtime::observers::{self, RACES, USAGE};
use crate::runtime::sync::{Arc, Mutex, MutexGuard};

/// What a device's pool needs from the rest of the process.
pub trait Surroundings: Send + Sync {
    /// The streams of the device that have been used so far.
    fn streams(&self) -> Vec<&'static dyn Timeline>;

    /// Reserves the device's address range. Fails if there is no range of that length.
    fn reserve(&self, length: usize) -> io::Result<Box<dyn DeviceMemory>> {
        arena::reserve(length)
    }

    /// The budget that the device shares with other devices, if it does.
    fn shared_budget(&self) -> Option<Arc<SharedBudget>> {
        None
    }

    /// Releases the caches of the other devices that share the budget.
    fn empty_other_caches(&self) {}

    /// Frees blocks that their receivers in other processes have returned.
    fn collect_sends(&self) {}

    /// Frees blocks that a debugging mode keeps.
    fn empty_quarantine(&self) {}
}

/// Surroundings that consist of streams only.
impl<F: Fn() -> Vec<&'static dyn Timeline> + Send + Sync> Surroundings for F {
    fn streams(&self) -> Vec<&'static dyn Timeline> {
        self()
    }
}

pub struct DevicePool {
    device: usize,
    pool: Mutex<Pool>,
    surroundings: Box<dyn Surroundings>,
    base: usize,
    length: usize,
}

impl DevicePool {
    /// The pool of a device. Its streams are waited for before memory is released. Fails with `Internal` if the process may not
    /// have that much address space.
    pub fn new(device: usize, settings: Settings, surroundings: Box<dyn Surroundings>) -> Result<Self, Error> {
        let refused = |error| Error::Internal(format!("no address space for the memory of device {}: {error}", Device(device)));
        let mut pool = Pool::over(settings, &|length| surroundings.reserve(length)).map_err(refused)?;
        pool.shared = surroundings.shared_budget();
        let (base, length) = pool.arena.bounds();
        Ok(Self { device, pool: Mutex::new(pool), surroundings, base, length })
    }

    /// Locks the pool and settles pending changes. The lock must not be held across a wait.
    pub fn lock(&self) -> MutexGuard<'_, Pool> {
        let mut pool = self.pool.lock();
        pool.settle();
        pool
    }

    /// True if an address lies in the device's range.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.length
    }

    /// Allocates a block of at least `bytes` bytes (not 0) for the stream from the pool with number `private`; returns its address.
    /// Fails with `OutOfMemory` if releasing the cache did not help.
    #[inline]
    pub fn allocate(&self, stream: &'static dyn Timeline, private: u64, bytes: usize) -> Result<usize, Error> {
        let request = Request { stream, private, bytes, context: capture(Detail::State), collected: false };
        let mut pool = self.pool.lock();
        match pool.allocate(&request) {
            Ok(block) => Ok(self.granted(pool, &request, block)),
            Err(refusal) => {
                drop(pool);
                self.allocate_under_pressure(request, refusal)
            }
        }
    }

    #[inline]
    fn granted(&self, pool: MutexGuard<'_, Pool>, request: &Request, (address, size): (usize, usize)) -> usize {
        if observers::has(RACES | USAGE) {
            if let Some(detector) = race_notes::detector() {
                detector.allocated(request.stream, address, size);
            }
            self.report(pool, address, size as i64);
        }
        address
    }

    #[cold]
    fn report(&self, mut pool: MutexGuard<'_, Pool>, address: usize, bytes: i64) {
        if !observers::has(USAGE) {
            return;
        }
        pool.settle();
        let (allocated, reserved) = (pool.stats.allocated_bytes.current() as u64, pool.stats.reserved_bytes.current() as u64);
        drop(pool);
        observe::report(&Usage { address, bytes, allocated, reserved, device: self.device });
    }

    #[cold]
    fn allocate_under_pressure(&self, mut request: Request, refusal: Refusal) -> Result<usize, Error> {
        if refusal == Refusal::Garbage {
            self.finish_streams();
            let mut pool = self.lock();
            pool.collect_garbage(request.context.as_ref());
            request.collected = true;
            if let Ok(block) = pool.allocate(&request) {
                return Ok(self.granted(pool, &request, block));
            }
        }
        let mut pool = self.give_back(&request);
        match pool.allocate(&request).or_else(|refusal| pool.borrow(&request).ok_or(refusal)) {
            Ok(block) => Ok(self.granted(pool, &request, block)),
            Err(refusal) => Err(self.out_of_memory(pool, &request, refusal)),
        }
    }

    /// Releases the cache before a request is retried.
    fn give_back(&self, request: &Request) -> MutexGuard<'_, Pool> {
        self.finish_streams();
        self.surroundings.collect_sends();
        self.surroundings.empty_other_caches();
        let mut pool = self.lock();
        pool.stats.num_sync_all_streams += 1;
        pool.reclaim();
        pool.release_cached(request.context.as_ref());
        pool.stats.num_alloc_retries += 1;
        pool
    }

    /// Refuses a request as out of memory, with the given reason.
    #[cold]
    pub fn refuse(&self, stream: &'static dyn Timeline, private: u64, bytes: usize, reason: &str) -> Error {
        let request = Request { stream, private, bytes, context: capture(Detail::State), collected: true };
        let error = self.out_of_memory(self.give_back(&request), &request, Refusal::Limit);
        Error::OutOfMemory(format!("{error} The shortage is {reason}."))
    }

    fn out_of_memory(&self, mut pool: MutexGuard<'_, Pool>, request: &Request, refusal: Refusal) -> Error {
        pool.stats.num_ooms += 1;
        let (free, total) = pool.info();
        let allocated = pool.stats.allocated_bytes.current() as usize;
        let reserved = pool.stats.reserved_bytes.current() as usize;
        let (settings, largest) = (pool.settings, pool.largest_labels(text::LABELS));
        pool.history.record(Action::OutOfMemory, free, request.bytes, request.stream.id(), request.context.as_ref());
        drop(pool);
        let shortage = Shortage { device: self.device, asked: request.bytes, total, free, allocated, reserved };
        observe::out_of_memory(&shortage);
        Error::OutOfMemory(text::out_of_memory(&shortage, &settings, refusal, &largest))
    }

    /// Frees a block; `false` if no live block starts at the address.
    #[inline]
    pub fn free(&self, address: usize) -> bool {
        let context = capture(Detail::All);
        let mut pool = self.pool.lock();
        let is_observed = observers::has(RACES | USAGE);
        let detector = if is_observed { race_notes::detector() } else { None };
        let race = detector.and_then(|detector| detector.freed(&pool.use_of(address)?, address));
        let freed = pool.free(address, context.as_ref());
        let keeps = std::mem::take(&mut pool.keeps);
        if let Some(size) = freed
            && is_observed
        {
            self.report(pool, address, -(size as i64));
        } else {
            drop(pool);
        }
        if let Some(race) = race {
            race(context);
        }
        if keeps {
            self.surroundings.collect_sends();
        }
        freed.is_some()
    }

    /// The context that was captured when the live block at an address was allocated.
    pub fn context(&self, address: usize) -> Option<Context> {
        let pool = self.lock();
        pool.live(address).and_then(|id| pool.contexts.get(&id).cloned())
    }

    /// Notes that tasks of another stream use the block that starts at `address`; `false` if no live block starts there. No effect on
    /// memory of another process: its receiver waits for every stream before it gives the memory back.
    pub fn record_stream(&self, address: usize, stream: &'static dyn Timeline) -> bool {
        let mut pool = self.lock();
        pool.record_stream(address, stream) || pool.is_foreign(address)
    }

    /// Releases every cached segment, after waiting for the device.
    pub fn empty_cache(&self) {
        let context = capture(Detail::All);
        self.surroundings.empty_quarantine();
        self.finish_streams();
        let mut pool = self.lock();
        pool.reclaim();
        pool.release_cached(context.as_ref());
    }

    /// Releases the memory of a private pool: immediately if every stream is idle, else with the next release of segments.
    pub fn release_private(&self, private: u64) {
        let mut pool = self.lock();
        pool.release_private(private);
        let streams = self.surroundings.streams().into_iter().chain(pool.waiting.timelines());
        if streams.into_iter().all(|stream| stream.completed() >= stream.submitted()) {
            pool.reclaim();
            pool.release_idle(private);
        }
    }

    /// Waits for all tasks that may use memory of this device. Failures are kept for the streams' own next synchronising call.
    fn finish_streams(&self) {
        let foreign = self.lock().waiting.timelines();
        for stream in self.surroundings.streams().into_iter().chain(foreign) {
            stream.finish();
        }
    }

    pub fn stats(&self) -> Stats {
        let mut pool = self.lock();
        pool.reclaim();
        pool.stats
    }

    /// A snapshot of segments, blocks and history events.
    pub fn snapshot(&self, context: Option<&Context>) -> Snapshot {
        let mut pool = self.lock();
        pool.reclaim();
        pool.history.record(Action::Snapshot, 0, 0, 0, context);
        pool.snapshot()
    }
}
