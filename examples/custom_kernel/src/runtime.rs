//! The part of rustdev's C ABI (`shim/rustdev.h`) that this crate uses, as functions of the module that Python has loaded.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// `RD_OK`.
pub const OK: i32 = 0;
/// The status of a call before `connect`; rustdev has no such status.
pub const NOT_CONNECTED: i32 = -1;

/// `rd_task_run`.
pub type Run = unsafe extern "C" fn(context: *mut c_void, message: *mut c_char, capacity: usize) -> bool;
/// `rd_task_destroy`.
pub type Destroy = unsafe extern "C" fn(context: *mut c_void);
/// `rd_chunk_run`.
pub type RunChunk = unsafe extern "C" fn(context: *mut c_void, chunk: usize);

/// `rd_access`: the memory that a task reads or writes.
#[repr(C)]
pub struct Access {
    begin: *const c_void,
    end: *const c_void,
    write: bool,
}

impl Access {
    /// An access that reads `count` elements.
    pub fn read<T>(begin: *const T, count: usize) -> Self {
        Self { begin: begin.cast(), end: begin.wrapping_add(count).cast(), write: false }
    }

    /// An access that writes `count` elements.
    pub fn write<T>(begin: *mut T, count: usize) -> Self {
        Self { write: true, ..Self::read(begin, count) }
    }
}

type StreamCurrent = unsafe extern "C" fn(device: i32) -> i64;
type StreamSubmit = unsafe extern "C" fn(
    device: i32,
    stream: i64,
    name: *const c_char,
    accesses: *const Access,
    num_accesses: usize,
    cost: u64,
    run: Run,
    context: *mut c_void,
    destroy: Destroy,
) -> i32;
type Parallel = unsafe extern "C" fn(count: usize, cost: u64, run: RunChunk, context: *mut c_void) -> i32;

/// The functions, in the order in which `custom_kernel.py` lists them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Runtime {
    stream_current: StreamCurrent,
    stream_submit: StreamSubmit,
    parallel: Parallel,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Stores the functions; later calls change nothing.
pub fn set(runtime: Runtime) {
    let _ = RUNTIME.set(runtime);
}

/// The functions, after `set`.
pub fn get() -> Option<Runtime> {
    RUNTIME.get().copied()
}

impl Runtime {
    /// `rd_stream_submit` on this thread's current stream of the device.
    ///
    /// # Safety
    /// `run` and `destroy` may be called with `context` on any thread; the accesses cover all memory that they touch.
    #[expect(clippy::too_many_arguments, reason = "as rd_stream_submit")]
    pub unsafe fn submit(
        &self,
        device: i32,
        name: &'static CStr,
        accesses: &[Access],
        cost: u64,
        run: Run,
        context: *mut c_void,
        destroy: Destroy,
    ) -> i32 {
        // SAFETY: the function accepts any number.
        let stream = unsafe { (self.stream_current)(device) };
        let (list, count) = (accesses.as_ptr(), accesses.len());
        // SAFETY: the caller's promise; the name and the list live through the call, which copies them.
        unsafe { (self.stream_submit)(device, stream, name.as_ptr(), list, count, cost, run, context, destroy) }
    }

    /// `rd_parallel`.
    ///
    /// # Safety
    /// `run` may be called with `context` on several threads at once.
    pub unsafe fn parallel(&self, count: usize, cost: u64, run: RunChunk, context: *mut c_void) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { (self.parallel)(count, cost, run, context) }
    }
}
