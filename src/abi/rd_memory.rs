//! C ABI of device memory.
//!
//! Blocks are aligned to 512 bytes. Reuse is stream-ordered: freed memory is reused by later tasks of the stream that the block was
//! allocated for, without a wait.

use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;

use super::rd_device::device_index;
use super::rd_stream::find;
use super::{guard, rd_status, rd_text, shield, write};
use crate::runtime::memory::device_pool::DevicePool;
use crate::runtime::memory::observe::{self, Usage};
#[allow(unused_imports, reason = "the type of a field, which C names")]
pub use crate::runtime::memory::stats::PerKind as rd_stat_per_kind;
#[allow(unused_imports, reason = "the type of a field, which C names")]
pub use crate::runtime::memory::stats::Stat as rd_stat;
pub use crate::runtime::memory::stats::Stats as rd_memory_stats;
use crate::runtime::{Error, device, pools};

/// Called after each allocation (`bytes` positive) and free (`bytes` negative).
pub type rd_memory_observer = extern "C" fn(pointer: *mut c_void, bytes: i64, allocated: u64, reserved: u64, device: i32);

fn pool(device: i32) -> Result<&'static DevicePool, Error> {
    pools::pool(device_index(device)?)
}

/// Allocates a block of at least `bytes` bytes on this thread's current device, for tasks of its current stream; null for 0 bytes.
/// `device` is written even on failure.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_allocate(bytes: usize, pointer: &mut *mut c_void, device: &mut i32) -> rd_status {
    guard(|| {
        let index = device::current();
        *device = index as i32;
        *pointer = pools::allocate_on(index, bytes)?.cast();
        Ok(())
    })
}

/// Frees a block; null is allowed. Never waits, never fails.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_free(pointer: *mut c_void) {
    shield((), || pools::free(pointer.cast()));
}

/// Notes that tasks of the stream use the block that starts at `pointer`: once freed, it is not reused before they are done.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_record_stream(pointer: *mut c_void, device: i32, stream: i64) -> rd_status {
    guard(|| Ok(pools::record_stream(pointer.cast(), find(device, stream)?)?))
}

/// Releases the cached memory of a device; -1 means every device.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_empty_cache(device: i32) -> rd_status {
    guard(|| {
        if device == -1 {
            pools::all().iter().for_each(DevicePool::empty_cache);
        } else {
            pool(device)?.empty_cache();
        }
        Ok(())
    })
}

/// Free and total bytes of the device's budget.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_info(device: i32, free: &mut u64, total: &mut u64) -> rd_status {
    guard(|| {
        let info = pool(device)?.lock().info();
        (*free, *total) = (info.0 as u64, info.1 as u64);
        Ok(())
    })
}

/// The counters of the device.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_get_stats(device: i32, stats: &mut rd_memory_stats) -> rd_status {
    write(stats, || pool(device).map(DevicePool::stats))
}

/// Resets every peak to the current value or, if `accumulated`, the totals of every counter and the event counts.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_reset_stats(device: i32, accumulated: bool) -> rd_status {
    guard(|| {
        pool(device)?.lock().stats.reset(accumulated);
        Ok(())
    })
}

static OBSERVER: OnceLock<rd_memory_observer> = OnceLock::new();

/// Sets the function to call after each allocation and free; only the first call has an effect.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_set_observer(observer: rd_memory_observer) {
    OBSERVER.get_or_init(|| observer);
    observe::set_usage_observer(Some(notify));
}

fn notify(usage: &Usage) {
    if let Some(observer) = OBSERVER.get() {
        observer(usage.address as *mut c_void, usage.bytes, usage.allocated, usage.reserved, usage.device as i32);
    }
}

/// Sets the label of the live block that starts at `pointer`, or removes it if `label` is null. Returns true if there is such a
/// block.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_set_label(pointer: *const c_void, label: rd_text) -> bool {
    shield(false, || pools::set_label(pointer.cast(), label.given().map(|label| label.to_string_lossy().into())))
}

/// The label of the live block that starts at `pointer`, to be freed by `rd_string_free`; null if it has none.
#[unsafe(no_mangle)]
pub extern "C" fn rd_memory_label(pointer: *const c_void) -> *mut c_char {
    shield(std::ptr::null_mut(), || {
        let label = pools::label(pointer.cast()).and_then(|label| CString::new(&*label).ok());
        label.map_or(std::ptr::null_mut(), CString::into_raw)
    })
}

/// The index of the device whose address range contains `pointer`, else -1.
#[unsafe(no_mangle)]
pub extern "C" fn rd_pointer_device(pointer: *const c_void) -> i32 {
    pools::device_of(pointer.cast()).map_or(-1, |device| device as i32)
}
