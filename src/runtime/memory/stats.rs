//! Counters of the device pool, with the keys and the meaning of `torch.cuda.memory_stats`.
//!
//! They change under the pool's lock together with the state that they count, so a reading is always exact:
//! `allocated_bytes.current` is the sum of the live blocks, `reserved_bytes.current` the sum of the segments, and so on.
//! `src/python/py_memory/py_stats.rs` returns them to Python, key by key.

#![forbid(unsafe_code)]

/// A counter with its peak and its totals.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The value now.
    pub current: i64,
    /// The largest value since the last reset of the peak.
    pub peak: i64,
    /// The sum of all increases since the last reset of the totals.
    pub allocated: i64,
    /// The sum of all decreases since the last reset of the totals.
    pub freed: i64,
}

impl Stat {
    #[inline]
    pub fn increase(&mut self, amount: usize) {
        let amount = amount as i64;
        self.current += amount;
        self.peak = self.peak.max(self.current);
        self.allocated += amount;
    }

    #[inline]
    pub fn decrease(&mut self, amount: usize) {
        let amount = amount as i64;
        self.current -= amount;
        self.freed += amount;
        debug_assert!(self.current >= 0, "a counter of the pool fell below zero");
    }

    #[inline]
    pub fn change(&mut self, amount: i64) {
        if amount >= 0 {
            self.increase(amount as usize);
        } else {
            self.decrease(amount.unsigned_abs() as usize);
        }
    }

    /// Counts `amount` as freed and allocated again.
    pub fn pass(&mut self, amount: usize) {
        self.allocated += amount as i64;
        self.freed += amount as i64;
    }

    /// Resets the peak or, if `accumulated`, the totals.
    pub fn reset(&mut self, accumulated: bool) {
        if accumulated {
            (self.allocated, self.freed) = (0, 0);
        } else {
            self.peak = self.current;
        }
    }
}

/// A counter over everything and over each of the two kinds of segments; indices as in `c10::CachingAllocator::StatType`: all,
/// small, large.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind {
    pub values: [Stat; 3],
}

impl PerKind {
    #[inline]
    pub fn increase(&mut self, kind: usize, amount: usize) {
        self.values[0].increase(amount);
        self.values[kind].increase(amount);
    }

    #[inline]
    pub fn decrease(&mut self, kind: usize, amount: usize) {
        self.values[0].decrease(amount);
        self.values[kind].decrease(amount);
    }

    #[inline]
    pub fn change(&mut self, kind: usize, amount: i64) {
        self.values[0].change(amount);
        self.values[kind].change(amount);
    }

    /// Counts `amount` of the kind `kind` as freed and allocated again.
    pub fn pass(&mut self, kind: usize, amount: usize) {
        self.values[0].pass(amount);
        self.values[kind].pass(amount);
    }

    /// The value now, over both kinds.
    pub fn current(&self) -> i64 {
        self.values[0].current
    }
}

/// Every counter of one device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Allocations that the caller holds.
    pub allocation: PerKind,
    /// Segments of committed memory.
    pub segment: PerKind,
    /// Blocks that the caller holds or that wait for another stream.
    pub active: PerKind,
    /// Free blocks that share their segment with others.
    pub inactive_split: PerKind,
    /// Bytes of the blocks that the caller holds.
    pub allocated_bytes: PerKind,
    /// Bytes of the segments.
    pub reserved_bytes: PerKind,
    /// Bytes of the active blocks.
    pub active_bytes: PerKind,
    /// Bytes of the free blocks that share their segment with others.
    pub inactive_split_bytes: PerKind,
    /// Bytes that the caller asked for, before rounding.
    pub requested_bytes: PerKind,
    /// Allocations of at least `max_split_size`.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: Stat,
    /// Requests that ran out of budget and were retried after the cache was released.
    pub num_alloc_retries: i64,
    /// Out-of-memory errors.
    pub num_ooms: i64,
    /// Times that the device was synchronised to reclaim memory.
    pub num_sync_all_streams: i64,
    /// Segments committed.
    pub num_device_alloc: i64,
    /// Segments released.
    pub num_device_free: i64,
    /// The setting; -1 means no limit.
    pub max_split_size: i64,
}

impl Stats {
    /// The counters that there are for each kind of segment.
    pub(super) fn per_kind(&mut self) -> [&mut PerKind; 9] {
        [
            &mut self.allocation,
            &mut self.segment,
            &mut self.active,
            &mut self.inactive_split,
            &mut self.allocated_bytes,
            &mut self.reserved_bytes,
            &mut self.active_bytes,
            &mut self.inactive_split_bytes,
            &mut self.requested_bytes,
        ]
    }

    /// Resets every peak or, if `accumulated`, every total and event count.
    pub fn reset(&mut self, accumulated: bool) {
        self.per_kind().into_iter().flat_map(|stat| &mut stat.values).for_each(|stat| stat.reset(accumulated));
        self.oversize_allocations.reset(accumulated);
        self.oversize_segments.reset(accumulated);
        if accumulated {
            self.num_alloc_retries = 0;
            self.num_ooms = 0;
            self.num_sync_all_streams = 0;
            self.num_device_alloc = 0;
            self.num_device_free = 0;
        }
    }
}
