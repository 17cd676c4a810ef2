//! A custom kernel for rustdev: `softcap(x) = cap * tanh(x / cap)`, which some language models apply to their logits.
//!
//! The crate neither uses PyTorch nor depends on rustdev. It gets the C functions of the module that Python has loaded
//! ([`runtime`]), so that its tasks go on the same streams as all others. A second copy of the runtime, linked into this
//! library, would have its own streams and threads.

mod runtime;

use std::ffi::{c_char, c_void};

use runtime::{Access, OK, Runtime};

/// Elements that one thread processes at a time.
const CHUNK: usize = 16 * 1024;
/// Nanoseconds per element on one thread; they determine how many threads the runtime uses.
const COST: f64 = 4.0;

/// One call: the data that the task needs when it runs.
struct Softcap {
    runtime: Runtime,
    output: *mut f32,
    input: *const f32,
    count: usize,
    cap: f32,
}

impl Softcap {
    fn cost(&self) -> u64 {
        (self.count as f64 * COST) as u64
    }

    fn chunk(&self, index: usize) {
        let begin = index * CHUNK;
        for place in begin..self.count.min(begin + CHUNK) {
            // SAFETY: `softcap`'s caller promises `count` elements, readable in the order of the stream.
            let x = unsafe { self.input.add(place).read() };
            // SAFETY: as above, for writing; chunks are disjoint.
            unsafe { self.output.add(place).write(self.cap * (x / self.cap).tanh()) };
        }
    }
}

/// Takes the functions of the loaded runtime; must be called once before any operator.
///
/// # Safety
/// `functions` points at the functions that [`Runtime`] lists, in its order, of a module that stays loaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(functions: *const Runtime) {
    // SAFETY: the caller's promise.
    runtime::set(unsafe { functions.read() });
}

/// Enqueues `output[i] = cap * tanh(input[i] / cap)` on this thread's current stream of the device. Returns a status of
/// rustdev: 0, or an error whose message `rd_last_error` returns.
///
/// # Safety
/// [`connect`] was called; both pointers have `count` elements of the device's memory, which stay valid in the order of the
/// stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn softcap(device: i32, output: *mut f32, input: *const f32, count: usize, cap: f32) -> i32 {
    let Some(runtime) = runtime::get() else {
        return runtime::NOT_CONNECTED;
    };
    let work = Box::new(Softcap { runtime, output, input, count, cap });
    let accesses = [Access::write(output, count), Access::read(input, count)];
    let cost = work.cost();
    // SAFETY: `run` and `destroy` take the context that is given here, a boxed `Softcap`.
    unsafe { runtime.submit(device, c"custom_kernel::softcap", &accesses, cost, run, Box::into_raw(work).cast(), destroy) }
}

/// The task. It runs on a thread of the device when all earlier tasks of the stream are done.
unsafe extern "C" fn run(context: *mut c_void, message: *mut c_char, capacity: usize) -> bool {
    // SAFETY: the runtime hands back the context of `softcap`, which lives until `destroy`.
    let work = unsafe { &*context.cast::<Softcap>() };
    // SAFETY: `run_chunk` takes the context that is given here, which outlives the call.
    let status = unsafe { work.runtime.parallel(work.count.div_ceil(CHUNK), work.cost(), run_chunk, context) };
    if status != OK {
        let text = c"no threads to run on".to_bytes_with_nul();
        // SAFETY: the runtime gives room for `capacity` bytes; the text ends with a NUL.
        unsafe { message.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len().min(capacity)) };
    }
    status == OK
}

unsafe extern "C" fn run_chunk(context: *mut c_void, chunk: usize) {
    // SAFETY: as in `run`.
    unsafe { &*context.cast::<Softcap>() }.chunk(chunk);
}

unsafe extern "C" fn destroy(context: *mut c_void) {
    // SAFETY: the runtime calls it once, with the box that `softcap` gave away.
    drop(unsafe { Box::from_raw(context.cast::<Softcap>()) });
}
