//! C ABI of the streams, and of tasks that run C functions.
//!
//! A stream is named by its device and its id, a `c10::StreamId`; 0 is the device's default stream. Streams live to the end of the
//! process. Priorities are 0 (normal) and -1 (high), as in CUDA.

use std::ffi::{CStr, c_char, c_void};

use smallvec::SmallVec;

use super::rd_device::{current_stream, device_index};
use super::rd_operator::elements;
use super::{guard, rd_status, rd_text, shield, write};
use crate::call::declared;
use crate::runtime::error::Cause;
use crate::runtime::stream::Stream;
use crate::runtime::task::demand::Products;
use crate::runtime::task::{Access, Shape, Task, Work};
use crate::runtime::trace::{About, Kind};
use crate::runtime::{Error, device};

/// The stream with that device and id.
pub(super) fn find(device: i32, id: i64) -> Result<&'static Stream, Error> {
    device::find_stream(device_index(device)?, id)
}

fn priority(value: i32) -> Result<i32, Error> {
    match value {
        -1 | 0 => Ok(value),
        _ => Err(Error::InvalidArgument(format!("stream priorities are 0 (normal) and -1 (high), not {value}"))),
    }
}

/// This thread's current stream of the device.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_current(device: i32) -> i64 {
    shield(0, || {
        device_index(device).ok().filter(|index| *index < device::count()).map_or(0, |index| device::current_stream(index).id())
    })
}

/// Sets this thread's current stream of the device and returns the previous one; an unknown stream changes nothing.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_exchange(device: i32, stream: i64) -> i64 {
    shield(0, || find(device, stream).map_or_else(|_| rd_stream_current(device), |stream| device::exchange_stream(stream).id()))
}

/// The next stream of the pool, round robin over the 32 streams of that priority.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_from_pool(device: i32, priority: i32, stream: &mut i64) -> rd_status {
    write(stream, || Ok::<_, Error>(device::get(device_index(device)?)?.stream_from_pool(self::priority(priority)?).id()))
}

/// The native handle of a stream; null for an unknown stream.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_handle(device: i32, stream: i64) -> *mut c_void {
    shield(std::ptr::null_mut(), || find(device, stream).map_or(std::ptr::null_mut(), native))
}

/// A stream's address: streams are never freed or moved.
pub(crate) fn native(stream: &'static Stream) -> *mut c_void {
    std::ptr::from_ref(stream).cast_mut().cast()
}

/// True if nothing is queued or running on the stream.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_query(device: i32, stream: i64, done: &mut bool) -> rd_status {
    write(done, || find(device, stream)?.query())
}

/// Waits for everything on the stream and raises the failure of a task.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_synchronize(device: i32, stream: i64) -> rd_status {
    guard(|| Ok(find(device, stream)?.synchronize()?))
}

/// As [`rd_stream_synchronize`], for this thread's current stream of the device. `name`: the operator that waits, for the error if
/// the stream is capturing.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_synchronize_current(device: i32, name: rd_text) -> rd_status {
    guard(|| Ok(current_stream(device)?.synchronize_for(|| name.lossy().into_owned())?))
}

/// A byte range that a task reads or writes; `end` is exclusive.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rd_access {
    pub begin: *const c_void,
    pub end: *const c_void,
    pub write: bool,
}

/// A task as a C function: returns true for success, or false after writing a NUL-terminated text of at most `capacity` bytes to
/// `message`. It is called once or, if the task was captured in a graph, once per replay, never two calls at a time.
pub type rd_task_run = unsafe extern "C" fn(context: *mut c_void, message: *mut c_char, capacity: usize) -> bool;
/// Frees the context of a task: called exactly once, on any thread, after the last run or if the task will not run.
pub type rd_task_destroy = unsafe extern "C" fn(context: *mut c_void);

/// Capacity for the error text of a C function.
const MESSAGE_BYTES: usize = 4096;
/// Byte ranges that fit inside a task; more are boxed.
const INLINE_ACCESSES: usize = 8;

/// The caller's context of a C function; destroyed when dropped.
pub(super) struct Context {
    pub(super) context: *mut c_void,
    pub(super) destroy: rd_task_destroy,
}

// SAFETY: by the contract of `rd_task_destroy` it may be called on any thread.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the caller promised that `destroy` may be called with `context`; a value is dropped once.
        unsafe { (self.destroy)(self.context) };
    }
}

/// A C function as work, with its context.
pub(super) struct Foreign {
    run: rd_task_run,
    context: Context,
    accesses: SmallVec<[Access; INLINE_ACCESSES]>,
    kind: Kind,
    products: Option<Products>,
}

impl Foreign {
    /// Work that reports no memory accesses. `run` may be called with the context on any thread.
    pub(super) fn new(run: rd_task_run, context: Context) -> Self {
        Self { run, context, accesses: SmallVec::new(), kind: Kind::Custom, products: None }
    }
}

impl Work for Foreign {
    fn run(&mut self) -> Result<(), Cause> {
        let mut message = [0 as c_char; MESSAGE_BYTES];
        // SAFETY: the caller promised that `run` may be called with `context`; the buffer has the capacity that is passed.
        if unsafe { (self.run)(self.context.context, message.as_mut_ptr(), MESSAGE_BYTES) } {
            return Ok(());
        }
        message[MESSAGE_BYTES - 1] = 0;
        // SAFETY: the last byte of the buffer is NUL.
        let text = unsafe { CStr::from_ptr(message.as_ptr()) };
        Err(text.to_string_lossy().into())
    }

    fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        self.accesses.iter().for_each(|access| visit(*access, None));
    }

    fn products(&self) -> Option<Products> {
        self.products
    }

    fn about(&self) -> About {
        About::kind(self.kind)
    }
}

/// Enqueues a C function as a task. `name` is null or NUL-terminated; `is_aten`: it is a CPU kernel of PyTorch.
///
/// # Safety
/// As [`rd_stream_submit`].
unsafe fn submit(
    (device, stream): (i32, i64),
    name: *const c_char,
    (accesses, count): (*const rd_access, usize),
    cost: u64,
    (run, context): (rd_task_run, Context),
    is_aten: bool,
) -> rd_status {
    // SAFETY: the caller's promise.
    let accesses = unsafe { elements::<rd_access>(accesses.cast(), count) };
    // SAFETY: as above.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    let name = name.and_then(|name| name.to_str().ok()).unwrap_or("task");
    let (kind, products) = match name.starts_with("compiled::") {
        _ if is_aten => (Kind::Aten, declared::products()),
        true => (Kind::Compiled, None),
        false => (Kind::Custom, None),
    };
    let access = |access: &rd_access| Access { begin: access.begin.addr(), end: access.end.addr(), write: access.write };
    let work = Foreign { run, context, accesses: accesses.iter().map(access).collect(), kind, products };
    guard(move || Ok(find(device, stream)?.submit(Task::new(name, cost, work))?))
}

/// Enqueues device work. A name that starts with `compiled::` marks the work as compiler-generated in traces.
///
/// # Safety
/// `name` is null or a NUL-terminated string that outlives the process; `accesses` is valid for `num_accesses` reads. `run` and
/// `destroy` may be called with `context` on any thread, `destroy` exactly once after all runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_stream_submit(
    device: i32,
    stream: i64,
    name: *const c_char,
    accesses: *const rd_access,
    num_accesses: usize,
    cost: u64,
    run: rd_task_run,
    context: *mut c_void,
    destroy: rd_task_destroy,
) -> rd_status {
    let work = (run, Context { context, destroy });
    // SAFETY: the caller's promise.
    unsafe { submit((device, stream), name, (accesses, num_accesses), cost, work, false) }
}

/// As [`rd_stream_submit`], for a CPU kernel of PyTorch.
///
/// # Safety
/// As [`rd_stream_submit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_stream_submit_aten(
    device: i32,
    stream: i64,
    name: *const c_char,
    accesses: *const rd_access,
    num_accesses: usize,
    cost: u64,
    run: rd_task_run,
    context: *mut c_void,
    destroy: rd_task_destroy,
) -> rd_status {
    let work = (run, Context { context, destroy });
    // SAFETY: the caller's promise.
    unsafe { submit((device, stream), name, (accesses, num_accesses), cost, work, true) }
}
