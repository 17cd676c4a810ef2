//! C ABI of pinned host memory.

use std::ffi::c_void;

use super::rd_memory::rd_stat;
use super::rd_stream::find;
use super::{guard, rd_status, shield, write};
use crate::runtime::memory::pinned_pool::{self, HostStats};
use crate::runtime::pools;

/// Statistics of a duration, in microseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct rd_duration {
    pub total: i64,
    pub max: i64,
    pub min: i64,
    pub count: i64,
}

impl From<pinned_pool::Duration> for rd_duration {
    fn from(time: pinned_pool::Duration) -> Self {
        Self { total: time.total, max: time.max, min: time.min, count: time.count }
    }
}

/// The counters of the pinned pool, as in `at::HostStats`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rd_host_stats {
    pub active_requests: rd_stat,
    pub active_bytes: rd_stat,
    pub allocations: rd_stat,
    pub allocated_bytes: rd_stat,
    pub host_alloc_time: rd_duration,
    pub host_free_time: rd_duration,
    pub num_host_alloc: i64,
    pub num_host_free: i64,
    pub bucket_allocation: [i64; 64],
}

/// Allocates a page-aligned block of at least `bytes` bytes of pinned host memory; null for 0 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_allocate(bytes: usize, pointer: &mut *mut c_void) -> rd_status {
    write(pointer, || pools::allocate_host(bytes).map(<*mut u8>::cast))
}

/// Frees a block; null is allowed. Never waits, never fails.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_free(pointer: *mut c_void) {
    shield((), || pools::free_host(pointer.cast()));
}

/// True if the pointer lies in a live block.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_is_pinned(pointer: *const c_void) -> bool {
    shield(false, || pools::host().is_pinned(pointer as usize))
}

/// Notes that tasks of the stream use the block that contains `pointer`: once freed, it is not reused before they are done.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_record_stream(pointer: *mut c_void, device: i32, stream: i64) -> rd_status {
    guard(|| Ok(pools::record_host_stream(pointer.cast(), find(device, stream)?)?))
}

/// Releases every cached block.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_empty_cache() -> rd_status {
    guard(|| {
        pools::host().empty_cache();
        Ok(())
    })
}

/// The counters of the pinned pool.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_get_stats(stats: &mut rd_host_stats) -> rd_status {
    guard(|| {
        let counters = pools::host().stats();
        *stats = rd_host_stats {
            active_requests: counters.active_requests.into(),
            active_bytes: counters.active_bytes.into(),
            allocations: counters.allocations.into(),
            allocated_bytes: counters.allocated_bytes.into(),
            host_alloc_time: counters.host_alloc_time.into(),
            host_free_time: counters.host_free_time.into(),
            num_host_alloc: counters.num_host_alloc,
            num_host_free: counters.num_host_free,
            bucket_allocation: counters.bucket_allocation,
        };
        Ok(())
    })
}

/// Resets every peak to the current value or, if `accumulated`, the totals of every counter and the event counts.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_reset_stats(accumulated: bool) -> rd_status {
    guard(|| {
        pools::host().with_stats(if accumulated { HostStats::reset_accumulated } else { HostStats::reset_peak });
        Ok(())
    })
}
