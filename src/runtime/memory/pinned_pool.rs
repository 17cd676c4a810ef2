//! Pinned pool: the caching pool of pinned host memory.
//!
//! A request is rounded up to a size class: powers of two, each divided into four, at least one page. At most a quarter of a block
//! is unused. Freed blocks are cached by class. A block with recorded streams is reused only after these streams have completed the
//! tasks that they had at its free. Blocks are locked into physical memory if the system allows; the device can read them either
//! way.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::super::name::name;
use super::Timeline;
use super::deferred_free::{Waiting, same};
use super::stats::Stat;
use super::{race_notes, system, text};
use crate::runtime::Error;
use crate::runtime::sync::Mutex;

const PAGE: usize = 4096;

/// Statistics of a duration, in microseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duration {
    pub total: i64,
    pub max: i64,
    pub min: i64,
    pub count: i64,
}

impl Duration {
    fn add(&mut self, since: Instant) {
        let amount = since.elapsed().as_micros() as i64;
        self.total += amount;
        self.count += 1;
        self.max = self.max.max(amount);
        self.min = if self.min == 0 { amount } else { self.min.min(amount) };
    }
}

/// The counters of the host pool, with the names and the meaning of `torch.cuda.host_memory_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostStats {
    /// Blocks that the caller holds or that wait for a stream.
    pub active_requests: Stat,
    /// Bytes of these blocks.
    pub active_bytes: Stat,
    /// All blocks, including cached ones.
    pub allocations: Stat,
    /// Bytes of all blocks.
    pub allocated_bytes: Stat,
    /// The time spent on allocations from the system.
    pub host_alloc_time: Duration,
    /// The time spent on releases to the system.
    pub host_free_time: Duration,
    /// The number of allocations from the system.
    pub num_host_alloc: i64,
    /// The number of releases to the system.
    pub num_host_free: i64,
    /// `num_host_alloc` by the binary logarithm of the size.
    pub bucket_allocation: [i64; 64],
}

impl Default for HostStats {
    fn default() -> Self {
        let (stat, time) = (Stat::default(), Duration::default());
        Self {
            active_requests: stat,
            active_bytes: stat,
            allocations: stat,
            allocated_bytes: stat,
            host_alloc_time: time,
            host_free_time: time,
            num_host_alloc: 0,
            num_host_free: 0,
            bucket_allocation: [0; 64],
        }
    }
}

impl HostStats {
    /// Resets every peak or, if `accumulated`, every total and event count.
    fn reset(&mut self, accumulated: bool) {
        for stat in [&mut self.active_requests, &mut self.active_bytes, &mut self.allocations, &mut self.allocated_bytes] {
            stat.reset(accumulated);
        }
        for time in [&mut self.host_alloc_time, &mut self.host_free_time] {
            if accumulated {
                (time.total, time.count) = (0, 0);
            } else {
                (time.min, time.max) = (0, 0);
            }
        }
        if accumulated {
            (self.num_host_alloc, self.num_host_free, self.bucket_allocation) = (0, 0, [0; 64]);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Cached,
    Live,
    /// Freed, and this many streams may still use it.
    Pending(usize),
}

struct PinnedBlock {
    size: usize,
    state: State,
    uses: Vec<&'static dyn Timeline>,
}

#[derive(Default)]
struct Inner {
    blocks: BTreeMap<usize, PinnedBlock>,
    /// Addresses of cached blocks, by size.
    cached: HashMap<usize, Vec<usize>>,
    waiting: Waiting<usize>,
    stats: HostStats,
}

#[derive(Default)]
pub struct HostPool {
    inner: Mutex<Inner>,
}

/// The size of the block for a request; `None` if the request is larger than any address space.
fn block_size(bytes: usize) -> Option<usize> {
    if bytes > isize::MAX as usize / 2 {
        return None;
    }
    let step = (bytes.max(1).next_power_of_two() / 8).max(PAGE);
    Some(bytes.max(1).next_multiple_of(step))
}

impl HostPool {
    /// Allocates a page-aligned block of at least `bytes` bytes (not 0); returns its address. Fails with `OutOfMemory` if the
    /// machine refuses the memory even after the cache was released.
    pub fn allocate(&self, bytes: usize) -> Result<usize, Error> {
        let refused = || Error::OutOfMemory(format!("{} could not pin {} of host memory", name(), text::size(bytes)));
        let size = block_size(bytes).ok_or_else(refused)?;
        let mut inner = self.inner.lock();
        inner.reclaim();
        if let Some(address) = inner.take_cached(size) {
            return Ok(address);
        }
        drop(inner);
        let start = Instant::now();
        let mapped = system::map_pages(size).or_else(|_| {
            self.empty_cache();
            system::map_pages(size)
        });
        let address = mapped.map_err(|_| refused())?;
        system::lock_pages(address, size);
        self.inner.lock().add(address, size, start);
        Ok(address)
    }

    /// Frees a block; other addresses are ignored.
    pub fn free(&self, address: usize) {
        let mut inner = self.inner.lock();
        let Inner { blocks, waiting, .. } = &mut *inner;
        let Some(block) = blocks.get_mut(&address).filter(|block| block.state == State::Live) else {
            debug_assert!(false, "a pointer was freed that no live host block starts at");
            return;
        };
        let race = race_notes::detector().and_then(|detector| detector.host_freed(address, block.size, &block.uses));
        let waits = std::mem::take(&mut block.uses).into_iter().filter(|&timeline| waiting.push(timeline, address)).count();
        block.state = State::Pending(waits);
        if waits == 0 {
            inner.retire(address);
        }
        drop(inner);
        if let Some(race) = race {
            race(None);
        }
    }

    /// True if an address lies in a live block.
    pub fn is_pinned(&self, address: usize) -> bool {
        self.inner.lock().live(address).is_some()
    }

    /// Notes that tasks of the stream use the block that contains `address`; `false` if there is none.
    pub fn record_stream(&self, address: usize, timeline: &'static dyn Timeline) -> bool {
        let mut inner = self.inner.lock();
        let Some(block) = inner.live(address) else { return false };
        if !block.uses.iter().any(|&known| same(known, timeline)) {
            block.uses.push(timeline);
        }
        true
    }

    pub fn empty_cache(&self) {
        let mut inner = self.inner.lock();
        inner.reclaim();
        for (size, addresses) in std::mem::take(&mut inner.cached) {
            for address in addresses {
                inner.remove(address, size);
            }
        }
    }

    pub fn stats(&self) -> HostStats {
        let mut inner = self.inner.lock();
        inner.reclaim();
        inner.stats
    }

    /// Resets every peak or, if `accumulated`, every total and event count.
    pub fn reset_stats(&self, accumulated: bool) {
        self.inner.lock().stats.reset(accumulated);
    }
}

impl Inner {
    /// The live block that contains `address`.
    fn live(&mut self, address: usize) -> Option<&mut PinnedBlock> {
        let (&start, block) = self.blocks.range_mut(..=address).next_back()?;
        (block.state == State::Live && address - start < block.size).then_some(block)
    }

    fn take_cached(&mut self, size: usize) -> Option<usize> {
        let address = self.cached.get_mut(&size)?.pop()?;
        self.blocks.get_mut(&address)?.state = State::Live;
        self.stats.active_requests.increase(1);
        self.stats.active_bytes.increase(size);
        Some(address)
    }

    fn add(&mut self, address: usize, size: usize, start: Instant) {
        self.blocks.insert(address, PinnedBlock { size, state: State::Live, uses: Vec::new() });
        let stats = &mut self.stats;
        stats.active_requests.increase(1);
        stats.active_bytes.increase(size);
        stats.allocations.increase(1);
        stats.allocated_bytes.increase(size);
        stats.num_host_alloc += 1;
        stats.host_alloc_time.add(start);
        stats.bucket_allocation[size.next_power_of_two().ilog2() as usize] += 1;
    }

    /// Caches the freed blocks whose streams are done.
    fn reclaim(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        for address in self.waiting.take_completed() {
            let Some(block) = self.blocks.get_mut(&address) else { continue };
            if let State::Pending(waits) = &mut block.state {
                *waits -= 1;
                if *waits == 0 {
                    self.retire(address);
                }
            }
        }
    }

    fn retire(&mut self, address: usize) {
        let Some(block) = self.blocks.get_mut(&address) else { return };
        block.state = State::Cached;
        self.cached.entry(block.size).or_default().push(address);
        self.stats.active_requests.decrease(1);
        self.stats.active_bytes.decrease(block.size);
    }

    fn remove(&mut self, address: usize, size: usize) {
        let start = Instant::now();
        self.blocks.remove(&address);
        system::unmap(address, size);
        self.stats.allocations.decrease(1);
        self.stats.allocated_bytes.decrease(size);
        self.stats.num_host_free += 1;
        self.stats.host_free_time.add(start);
    }
}
