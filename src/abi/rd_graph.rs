//! C ABI of the graphs: capture, replay by one call.

use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::ptr;
use std::sync::atomic::AtomicU64;

use super::rd_device::device_index;
use super::rd_stream::{find, give};
use super::{Failure, RD_INVALID_ARGUMENT, RD_OK, guard, rd_status, shield};
use crate::runtime::device;
use crate::runtime::graph::Graph;
use crate::runtime::graph::capture::{self, Capture, Mode};
use crate::runtime::graph::graph_rng::Start;
use crate::runtime::pools::private_pool::{self, PrivatePool};
use crate::runtime::stream::Stream;
use crate::runtime::sync::Arc;

/// A capture under way, opaque to the other side.
#[allow(non_camel_case_types)]
pub struct rd_capture(Arc<Capture>);

/// A captured graph, opaque to the other side.
#[allow(non_camel_case_types)]
pub struct rd_graph(Graph);

/// Nobody may wait for the device.
pub const RD_CAPTURE_GLOBAL: i32 = 1;
/// The thread that captures may not wait for the device.
pub const RD_CAPTURE_THREAD_LOCAL: i32 = 2;
/// Who waits for the device does so for the streams that do not capture.
pub const RD_CAPTURE_RELAXED: i32 = 3;

/// Where a generator begins to draw; offsets count 32-bit numbers.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rd_start {
    pub seed: u64,
    pub offset: u64,
}

/// Where a captured kernel finds the state that it draws from: addresses for two scalars of the kind `RD_SCALAR_CELL`.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rd_cell {
    pub seed: i64,
    pub offset: i64,
}

fn invalid(message: String) -> Failure {
    Failure::new(RD_INVALID_ARGUMENT, message)
}

/// The graph behind a handle.
///
/// # Safety
/// `graph` is null or came from [`rd_capture_end`] and was not destroyed.
unsafe fn borrow<'a>(graph: *const rd_graph) -> Result<&'a Graph, Failure> {
    // SAFETY: the caller's promise.
    let found = unsafe { graph.as_ref() };
    found.map(|graph| &graph.0).ok_or_else(|| invalid("the graph is null".into()))
}

/// A number for a memory pool that graphs are to share.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_pool_handle() -> u64 {
    private_pool::new_number()
}

/// Makes this thread's stream of the device capture. `pool`: the number of the memory pool, 0 for a new one; `mode`: `RD_CAPTURE_*`.
///
/// # Safety
/// `capture` is valid for a write; what is written there goes to [`rd_capture_end`] or [`rd_capture_abort`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_begin(device: i32, pool: u64, mode: i32, capture: *mut *mut rd_capture) -> rd_status {
    guard(|| {
        let index = device_index(device)?;
        device::get(index)?;
        let mode = match mode {
            RD_CAPTURE_GLOBAL => Mode::Global,
            RD_CAPTURE_THREAD_LOCAL => Mode::ThreadLocal,
            RD_CAPTURE_RELAXED => Mode::Relaxed,
            _ => return Err(invalid(format!("{mode} is no mode of a capture"))),
        };
        let pool = PrivatePool::for_graph(if pool == 0 { private_pool::new_number() } else { pool });
        let begun = Capture::begin(device::current_stream(index), pool, mode)?;
        // SAFETY: the caller's promise.
        unsafe { give(capture, Box::into_raw(Box::new(rd_capture(begun)))) };
        Ok(())
    })
}

/// Ends a capture. On failure `graph` is null; the capture goes on only if `is_over` is false.
///
/// # Safety
/// `capture` came from [`rd_capture_begin`] and did not end before; `graph` and `is_over` are valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_end(capture: *mut rd_capture, graph: *mut *mut rd_graph, is_over: *mut bool) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { give(graph, ptr::null_mut()) };
        // SAFETY: the caller's promise.
        let Some(known) = (unsafe { capture.as_ref() }) else { return Err(invalid("the capture is null".into())) };
        let ended = known.0.end();
        let is_done = !known.0.is_under_way();
        // SAFETY: the caller's promise.
        unsafe { give(is_over, is_done) };
        if is_done {
            // SAFETY: the caller hands back what `rd_capture_begin` made with `Box::into_raw`, and does not use it again.
            drop(unsafe { Box::from_raw(capture) });
        }
        let made = Box::into_raw(Box::new(rd_graph(ended?)));
        // SAFETY: the caller's promise.
        unsafe { give(graph, made) };
        Ok(())
    })
}

/// Ends a capture and forgets what it recorded; null is allowed.
///
/// # Safety
/// `capture` came from [`rd_capture_begin`] and did not end before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_abort(capture: *mut rd_capture) {
    shield((), || {
        if !capture.is_null() {
            // SAFETY: the caller hands back what `rd_capture_begin` made with `Box::into_raw`.
            unsafe { Box::from_raw(capture) }.0.abort();
        }
    });
}

/// Whether what is put on a stream is recorded.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_is_capturing(device: i32, stream: i64) -> bool {
    shield(false, || find(device, stream).is_ok_and(Stream::is_capturing))
}

/// Refuses what cannot be captured if this thread's stream of the device captures, which invalidates the capture. `what`: who is refused,
/// as the subject of a sentence.
///
/// # Safety
/// `what` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_refuse(device: i32, what: *const c_char) -> rd_status {
    // A generator may be seeded where the runtime must not start, and in a forked child.
    if !capture::is_under_way() {
        return RD_OK;
    }
    guard(|| {
        let index = device_index(device)?;
        device::get(index)?;
        // SAFETY: the caller's promise.
        let what = unsafe { CStr::from_ptr(what) };
        Ok(device::current_stream(index).refuse_capturing(|| what.to_string_lossy().into_owned())?)
    })
}

/// Takes or gives back a share in a generator, on any thread.
#[allow(non_camel_case_types)]
pub type rd_generator_share = unsafe extern "C" fn(generator: *mut c_void);

/// A share in a generator.
struct Share {
    generator: *mut c_void,
    release: rd_generator_share,
}

// SAFETY: by the contract of `rd_generator_share` shares may be given back on any thread, and nothing else is done with one.
unsafe impl Send for Share {}
// SAFETY: as for `Send`.
unsafe impl Sync for Share {}

impl Drop for Share {
    fn drop(&mut self) {
        // SAFETY: the promise to `rd_capture_draw`; a share is dropped once.
        unsafe { (self.release)(self.generator) };
    }
}

/// If this thread's stream of the device captures, the cells of a kernel that draws `numbers` random numbers from a generator; `captures`
/// says whether it does. The graph takes a share in the generator with `retain` and gives it back with `release`.
///
/// # Safety
/// `generator` is live; `retain` and `release` may be called with it on any thread and do not unwind; `cell` and `captures` are valid for a
/// write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_capture_draw(
    device: i32,
    generator: *mut c_void,
    retain: rd_generator_share,
    release: rd_generator_share,
    numbers: u64,
    cell: *mut rd_cell,
    captures: *mut bool,
) -> rd_status {
    guard(|| {
        let index = device_index(device)?;
        device::get(index)?;
        let capture = device::current_stream(index).capture();
        // SAFETY: the caller's promise.
        unsafe { give(captures, capture.is_some()) };
        let Some(capture) = capture else { return Ok(()) };
        let keeper = || -> Box<dyn Send + Sync> {
            // SAFETY: the caller's promise.
            unsafe { retain(generator) };
            Box::new(Share { generator, release })
        };
        let found = capture.draw(generator.expose_provenance(), numbers, keeper)?;
        let address = |place: &'static AtomicU64| ptr::from_ref(place).expose_provenance() as i64;
        // SAFETY: the caller's promise.
        unsafe { give(cell, rd_cell { seed: address(&found.seed), offset: address(&found.offset) }) };
        Ok(())
    })
}

/// Whether nothing was recorded; true for null.
///
/// # Safety
/// `graph` is null or a live graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_is_empty(graph: *const rd_graph) -> bool {
    // SAFETY: the caller's promise.
    shield(true, || unsafe { borrow(graph) }.map_or(true, Graph::is_empty))
}

/// The number of its memory pool; 0 for null.
///
/// # Safety
/// `graph` is null or a live graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_pool(graph: *const rd_graph) -> u64 {
    // SAFETY: the caller's promise.
    shield(0, || unsafe { borrow(graph) }.map_or(0, Graph::pool))
}

/// The device that it was captured on; -1 for null.
///
/// # Safety
/// `graph` is null or a live graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_device(graph: *const rd_graph) -> i32 {
    // SAFETY: the caller's promise.
    shield(-1, || unsafe { borrow(graph) }.map_or(-1, |graph| super::rd_device::small(graph.device())))
}

/// Called with a generator that a graph draws from, and how far a replay moves its offset on.
#[allow(non_camel_case_types)]
pub type rd_generator_visit = unsafe extern "C" fn(context: *mut c_void, generator: *mut c_void, numbers: u64);

/// Calls the function for each generator that the graph draws from, in order.
///
/// # Safety
/// `graph` is null or a live graph; `visit` may be called with `context` and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_generators(graph: *const rd_graph, visit: rd_generator_visit, context: *mut c_void) {
    shield((), || {
        // SAFETY: the caller's promise.
        if let Ok(graph) = unsafe { borrow(graph) } {
            for (generator, numbers) in graph.generators().iter() {
                // SAFETY: the caller's promise.
                unsafe { visit(context, ptr::with_exposed_provenance_mut(generator), numbers) };
            }
        }
    });
}

/// Starts the recorded work on this thread's stream of the graph's device. `starts`: where each of its generators begins to draw, in their
/// order.
///
/// # Safety
/// `graph` is a live graph; `starts` is valid for `count` reads, or null where `count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_replay(graph: *const rd_graph, starts: *const rd_start, count: usize) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let graph = unsafe { borrow(graph) }?;
        let stream = device::current_stream(graph.device());
        let start = |index: usize| {
            // SAFETY: the caller's promise, for an index below `count`.
            let place = unsafe { starts.add(index) };
            // SAFETY: as above.
            let rd_start { seed, offset } = unsafe { place.read() };
            Start { seed, offset }
        };
        Ok(graph.replay(stream, (0..count).map(start))?)
    })
}

/// Writes the graph in the DOT language to a file.
///
/// # Safety
/// `graph` is a live graph; `path` is a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_dump(graph: *const rd_graph, path: *const c_char) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let text = unsafe { borrow(graph) }?.dump();
        // SAFETY: the caller's promise.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
        fs::write(&*path, text).map_err(|error| invalid(format!("debug_dump: cannot write {path}: {error}")))
    })
}

/// Destroys a graph; null is allowed. Replays under way end as usual, and keep its memory until then.
///
/// # Safety
/// `graph` came from [`rd_capture_end`] and was not destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_graph_destroy(graph: *mut rd_graph) {
    shield((), || {
        if !graph.is_null() {
            // SAFETY: the caller hands back what `rd_capture_end` made with `Box::into_raw`.
            drop(unsafe { Box::from_raw(graph) });
        }
    });
}
