//! C ABI of the process, the devices and parallel work.

use std::ffi::{CString, c_char, c_void};
use std::sync::LazyLock;

use super::{guard, rd_status, shield};
use crate::runtime::config::{self, config};
use crate::runtime::stream::Stream;
use crate::runtime::{Error, device, fork, name, parallel_for};

/// Converts a device index from C.
pub(super) fn device_index(device: i32) -> Result<usize, Error> {
    usize::try_from(device).map_err(|_| Error::InvalidArgument(format!("invalid device ordinal {device}")))
}

/// This thread's current stream of a device.
pub(super) fn current_stream(device: i32) -> Result<&'static Stream, Error> {
    let index = device_index(device)?;
    device::get(index)?;
    Ok(device::current_stream(index))
}

/// Reads the environment and creates the devices; idempotent.
#[unsafe(no_mangle)]
pub extern "C" fn rd_init() -> rd_status {
    guard(|| {
        config::init()?;
        device::get(0)?;
        Ok(())
    })
}

/// The name of the backend, which is that of its devices for PyTorch.
#[unsafe(no_mangle)]
pub extern "C" fn rd_backend_name() -> *const c_char {
    static NAME: LazyLock<CString> = LazyLock::new(|| CString::new(name::name()).unwrap_or_default());
    NAME.as_ptr()
}

/// The number of devices; 0 if the configuration is invalid or in a forked child.
#[unsafe(no_mangle)]
pub extern "C" fn rd_device_count() -> i32 {
    shield(0, || config::init().map_or(0, |config| small(config.device_count)))
}

/// True if a device was used in this process, which starts the runtime.
#[unsafe(no_mangle)]
pub extern "C" fn rd_is_started() -> bool {
    fork::is_started()
}

/// This thread's current device.
#[unsafe(no_mangle)]
pub extern "C" fn rd_device_current() -> i32 {
    small(device::current())
}

/// Makes `device` this thread's current device.
#[unsafe(no_mangle)]
pub extern "C" fn rd_device_set_current(device: i32) -> rd_status {
    guard(|| Ok(device::set_current(device_index(device)?)?))
}

/// Waits for all work of the device; raises the failure of a task.
#[unsafe(no_mangle)]
pub extern "C" fn rd_device_synchronize(device: i32) -> rd_status {
    guard(|| Ok(device::get(device_index(device)?)?.synchronize()?))
}

/// Called in the child of `fork()`: the runtime is unusable there if the parent had started it.
#[unsafe(no_mangle)]
pub extern "C" fn rd_fork_child() {
    fork::in_child();
}

/// The setting `AUTOGRAD_THREADS`.
#[unsafe(no_mangle)]
pub extern "C" fn rd_autograd_threads() -> bool {
    shield(false, || config().autograd_threads)
}

/// Runs one chunk of parallel work.
pub type rd_chunk_run = unsafe extern "C" fn(context: *mut c_void, chunk: usize);

/// Runs chunks `0..count` on the pool and the calling thread; returns when all are done. `cost`: estimated nanoseconds on one
/// thread.
///
/// # Safety
/// `run` may be called with `context` from several threads at once, once for each chunk, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_parallel(count: usize, cost: u64, run: rd_chunk_run, context: *mut c_void) -> rd_status {
    struct Context(*mut c_void);
    // SAFETY: the caller allows calls with this pointer from several threads.
    unsafe impl Sync for Context {}
    guard(|| {
        let context = &Context(context);
        parallel_for::parallel_for(count, cost, &|chunk| {
            let Context(pointer) = context;
            // SAFETY: the caller's promise about `run` and `context`.
            unsafe { run(*pointer, chunk) };
        });
        Ok(())
    })
}

/// Converts a count for C, saturating.
pub(super) fn small(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
