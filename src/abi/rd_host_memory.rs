//! C ABI of pinned host memory.

use std::ffi::c_void;

use super::rd_stream::find;
use super::{Failure, guard, rd_status, shield, write};
#[allow(unused_imports, reason = "the type of a field, which C names")]
pub use crate::runtime::memory::pinned_pool::Duration as rd_duration;
pub use crate::runtime::memory::pinned_pool::HostStats as rd_host_stats;
use crate::runtime::pools;

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
    write(stats, || Ok::<_, Failure>(pools::host().stats()))
}

/// Resets every peak to the current value or, if `accumulated`, the totals of every counter and the event counts.
#[unsafe(no_mangle)]
pub extern "C" fn rd_host_reset_stats(accumulated: bool) -> rd_status {
    guard(|| {
        pools::host().reset_stats(accumulated);
        Ok(())
    })
}
