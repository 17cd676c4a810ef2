//! C ABI of the graphs: capture, and replay by one call.
//!
//! A call that does not fit the state of the graph fails with PyTorch's name of the function.

use std::{fs, mem};

use super::rd_stream::find;
use super::{Failure, RD_INVALID_ARGUMENT, consume, guard, rd_status, rd_text, shield, write};
use crate::runtime::device;
use crate::runtime::graph::Graph;
use crate::runtime::graph::capture::{Capture, Mode};
use crate::runtime::pools::private_pool::{self, PrivatePool};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, Mutex};

/// A `torch.cuda.CUDAGraph` equivalent, opaque to C.
pub struct rd_graph {
    keeps_graph: bool,
    /// Values are moved out of the lock before use, so that it is not held while tasks are dropped.
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Empty,
    Capturing(Arc<Capture>),
    Captured(Graph),
}

/// A value of `at::GraphCaptureMode`.
const GLOBAL: i32 = 1;
/// A value of `at::GraphCaptureMode`.
const RELAXED: i32 = 3;

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(RD_INVALID_ARGUMENT, message)
}

impl rd_graph {
    /// The captured graph. `method`: the caller's name, for the error.
    fn captured(&self, method: &str) -> Result<Graph, Failure> {
        match &*self.state.lock() {
            State::Captured(graph) => Ok(graph.clone()),
            _ => Err(invalid(format!("{method}: this graph holds no capture"))),
        }
    }

    fn begin(&self, pool: (u64, u64), mode: i32) -> Result<(), Failure> {
        let mut state = self.state.lock();
        match &*state {
            State::Empty => {}
            State::Capturing(_) => return Err(invalid("capture_begin: this graph is capturing already")),
            State::Captured(_) => {
                return Err(invalid("capture_begin: this graph holds a capture. Make another graph, or call reset() first"));
            }
        }
        let number = match pool {
            (0, 0) => private_pool::new_number(),
            (0, number) => number,
            (first, second) => {
                return Err(invalid(format!("capture_begin: ({first}, {second}) is not the name of a memory pool")));
            }
        };
        let mode = match mode {
            GLOBAL => Mode::Global,
            RELAXED => Mode::Relaxed,
            _ => Mode::ThreadLocal,
        };
        let index = device::current();
        device::get(index)?;
        let stream = device::current_stream(index);
        *state = State::Capturing(Capture::begin(stream, PrivatePool::for_graph(number), mode)?);
        Ok(())
    }

    /// Ends the capture; returns true if nothing was recorded.
    fn end(&self) -> Result<bool, Failure> {
        let capture = match &*self.state.lock() {
            State::Capturing(capture) => Arc::clone(capture),
            _ => return Err(invalid("capture_end: this graph is not capturing")),
        };
        let ended = capture.end();
        if !capture.is_under_way() {
            *self.state.lock() = State::Empty;
        }
        let graph = ended?;
        let is_empty = graph.is_empty();
        *self.state.lock() = State::Captured(graph);
        Ok(is_empty)
    }

    fn reset(&self) {
        let state = mem::take(&mut *self.state.lock());
        if let State::Capturing(capture) = state {
            capture.abort();
        }
    }
}

/// A graph without a capture. `keeps_graph`: it may be instantiated explicitly. The caller destroys it.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_create(keeps_graph: bool) -> *mut rd_graph {
    Box::into_raw(Box::new(rd_graph { keeps_graph, state: Mutex::default() }))
}

/// Destroys a graph. Replays under way finish normally and keep its memory until then.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_destroy(graph: Box<rd_graph>) {
    consume(graph, |graph| graph.reset());
}

/// Starts a capture on this thread's current stream. The memory pool is named by two numbers, (0, 0) for a new pool; `mode` is an
/// `at::GraphCaptureMode`.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_capture_begin(graph: &rd_graph, pool_first: u64, pool_second: u64, mode: i32) -> rd_status {
    guard(|| graph.begin((pool_first, pool_second), mode))
}

/// Ends the capture and writes whether nothing was recorded. On failure the capture continues or the graph is empty.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_capture_end(graph: &rd_graph, is_empty: &mut bool) -> rd_status {
    write(is_empty, || graph.end())
}

/// True if the stream's tasks are recorded into a graph.
#[unsafe(no_mangle)]
pub extern "C" fn rd_stream_is_capturing(device: i32, stream: i64) -> bool {
    shield(false, || find(device, stream).is_ok_and(Stream::is_capturing))
}

/// Checks that the graph holds a capture and was made with `keeps_graph`; a capture needs no further instantiation.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_instantiate(graph: &rd_graph) -> rd_status {
    guard(|| {
        graph.captured("instantiate")?;
        if graph.keeps_graph {
            return Ok(());
        }
        Err(invalid("instantiate: only for a graph with keep_graph=True; others are instantiated by capture_end"))
    })
}

/// Enqueues the recorded work on this thread's current stream of the graph's device, and advances its generators as the recorded
/// calls would.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_replay(graph: &rd_graph) -> rd_status {
    guard(|| {
        let graph = graph.captured("replay")?;
        Ok(graph.replay(device::current_stream(graph.device()))?)
    })
}

/// Ends a capture that is under way, and discards what was recorded.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_reset(graph: &rd_graph) {
    shield((), || graph.reset());
}

/// The number of the graph's memory pool, whose name is (0, number).
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_pool(graph: &rd_graph, number: &mut u64) -> rd_status {
    write(number, || graph.captured("pool").map(|captured| captured.pool()))
}

/// Writes the graph to a file in the DOT language.
#[unsafe(no_mangle)]
pub extern "C" fn rd_graph_dump(graph: &rd_graph, path: rd_text) -> rd_status {
    guard(|| {
        let path = path.lossy();
        let text = graph.captured("debug_dump")?.dump();
        fs::write(&*path, text).map_err(|error| invalid(format!("debug_dump: cannot write {path}: {error}")))
    })
}
