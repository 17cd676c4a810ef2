//! Captures: streams that record their tasks into a graph.
//!
//! A capture begins on one stream, its origin. Another stream joins it by waiting for an event that was recorded on a stream of the
//! capture, and stays until the capture ends. By then the origin must have waited for everything that the other streams recorded.
//!
//! Each stream of a capture has a *tail*: the nodes that its next node depends on. A new node replaces the tail of its stream. An
//! event stores the tail at its recording, and a stream that waits for the event adds that to its own tail.
//!
//! An operation that cannot be recorded (reading a value, waiting) is refused and **invalidates** the capture: it records nothing
//! more, and its end reports the reason.
//!
//! Lock order: a stream's own slot, then the state of the capture.

use std::any::Any;
use std::fmt;
use std::thread::{self, ThreadId};

use super::super::name::Device;
use super::graph_rng::{Cell, Generators};
use super::hold::Hold;
use super::{Graph, Node};
use crate::runtime::generator::Generator;
use crate::runtime::memory::Timeline;
use crate::runtime::pools::private_pool::PrivatePool;
use crate::runtime::stream::Stream;
use crate::runtime::stream::observer::Recorder;
use crate::runtime::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::runtime::task::Task;
use crate::runtime::vector_clock::VectorClock;
use crate::runtime::{Error, device, sanitizer};

/// Which threads a capture forbids to wait for its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every thread.
    Global,
    /// The thread that captures.
    ThreadLocal,
    /// None; a wait then covers only the streams that do not capture.
    Relaxed,
}

/// The number of captures that are under way.
static COUNT: AtomicUsize = AtomicUsize::new(0);

pub struct Capture {
    origin: &'static Stream,
    thread: ThreadId,
    mode: Mode,
    /// The number of the pool that its memory comes from.
    pool: u64,
    state: Mutex<State>,
}

struct State {
    /// `None` once the capture has ended.
    recording: Option<Recorded>,
    invalid: Option<String>,
}

pub(super) struct Recorded {
    pub nodes: Vec<Node>,
    branches: Vec<Branch>,
    pub generators: Generators,
    /// The pools that its memory comes from: the capture's own, and others that memory was taken from.
    pub pools: Vec<PrivatePool>,
    pub hold: Option<Hold>,
}

/// A stream of the capture with its tail.
struct Branch {
    stream: &'static Stream,
    tail: Vec<usize>,
}

/// An event's recording on a capturing stream: a point of that stream.
#[derive(Clone, Debug)]
pub struct Point {
    capture: Arc<Capture>,
    tail: Vec<usize>,
    /// The vector clock at the point, if the race detector is on.
    clock: Option<VectorClock>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a capture of {:?}", self.origin)
    }
}

impl Recorded {
    fn branch(&mut self, stream: &'static Stream) -> &mut Branch {
        let place = self.branches.iter().position(|branch| std::ptr::eq(branch.stream, stream)).unwrap_or_else(|| {
            self.branches.push(Branch { stream, tail: Vec::new() });
            self.branches.len() - 1
        });
        &mut self.branches[place]
    }

    /// A stream whose work the origin has not waited for.
    fn unjoined(&self) -> Option<&'static Stream> {
        let mut is_before_end = vec![false; self.nodes.len()];
        let mut open = self.branches[0].tail.clone();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut is_before_end[node], true) {
                open.extend(&self.nodes[node].after);
            }
        }
        let is_left = |branch: &&Branch| branch.tail.iter().any(|&node| !is_before_end[node]);
        self.branches.iter().find(is_left).map(|branch| branch.stream)
    }
}

impl Recorder for Capture {
    fn record(&self, stream: &'static Stream, task: Task) -> Result<(), Error> {
        self.with(|recorded| {
            let index = recorded.nodes.len();
            let after = std::mem::replace(&mut recorded.branch(stream).tail, vec![index]);
            recorded.nodes.push(Node { task, stream, after });
        })
    }

    fn refuse(&self, what: &str) -> Error {
        let text = format!("{what} is not permitted while a stream is capturing");
        self.state.lock().invalid.get_or_insert_with(|| text.clone());
        Error::InvalidArgument(text)
    }

    /// Refuses as the mode says; the capture is then invalid.
    fn check_wait(&self, device: usize) -> Result<(), Error> {
        let refuses = match self.mode {
            Mode::Global => true,
            Mode::ThreadLocal => self.thread == thread::current().id(),
            Mode::Relaxed => false,
        };
        if refuses { Err(self.refuse(&format!("waiting for device {}", Device(device)))) } else { Ok(()) }
    }

    fn pool(&self) -> u64 {
        self.pool
    }

    /// No effect on an invalid capture.
    fn retain(&self, number: u64) {
        let _ = self.with(|recorded| {
            if !recorded.pools.iter().any(|pool| pool.number() == number) {
                recorded.pools.push(PrivatePool::for_graph(number));
            }
        });
    }

    fn hold(&self) -> Result<&'static dyn Timeline, Error> {
        self.with(|recorded| recorded.hold.get_or_insert_with(Hold::begin).timeline())
    }
}

impl Capture {
    pub fn of(stream: &Stream) -> Option<Arc<Self>> {
        let recorder: Arc<dyn Any + Send + Sync> = stream.recorder()?;
        recorder.downcast().ok()
    }

    /// Starts a capture on a stream. Memory for its streams comes from `pool` from here on. Fails with `InvalidArgument` if the
    /// stream captures already.
    pub fn begin(origin: &'static Stream, pool: PrivatePool, mode: Mode) -> Result<Arc<Self>, Error> {
        let number = pool.number();
        let branches = vec![Branch { stream: origin, tail: Vec::new() }];
        let recorded = Recorded { nodes: Vec::new(), branches, generators: Generators::default(), pools: vec![pool], hold: None };
        let state = Mutex::new(State { recording: Some(recorded), invalid: None });
        let capture = Arc::new(Self { origin, thread: thread::current().id(), mode, pool: number, state });
        if !origin.start_recording(Arc::clone(&capture) as Arc<dyn Recorder>) {
            return Err(Error::InvalidArgument(format!("capture_begin: {origin:?} is capturing already")));
        }
        COUNT.fetch_add(1, Ordering::Release);
        Ok(capture)
    }

    /// Ends the capture. Afterwards its streams run their tasks again. Fails with `InvalidArgument`. The capture then continues if
    /// the call comes from another thread (unless the mode is relaxed) or the thread's current stream is not the origin. It ends
    /// and keeps nothing if it was invalidated or a stream was not joined.
    pub fn end(self: &Arc<Self>) -> Result<Graph, Error> {
        if self.mode != Mode::Relaxed && thread::current().id() != self.thread {
            return Err(Error::InvalidArgument("capture_end: a capture must end on the thread that began it".to_owned()));
        }
        if !std::ptr::eq(device::current_stream(self.origin.device()), self.origin) {
            return Err(Error::InvalidArgument(format!("capture_end: the capture began on another stream, {:?}", self.origin)));
        }
        let (recorded, invalid) = self.stop();
        let recorded = recorded.ok_or_else(|| Error::InvalidArgument("capture_end: the capture has ended already".to_owned()))?;
        if let Some(text) = invalid {
            return Err(Error::InvalidArgument(format!("capture_end: the capture was invalidated: {text}")));
        }
        if let Some(stream) = recorded.unjoined() {
            return Err(Error::InvalidArgument(format!(
                "capture_end: {stream:?} was not joined: the stream that the capture began on must wait for its last work"
            )));
        }
        Ok(Graph::new(self.origin.device(), self.pool, recorded))
    }

    /// Ends the capture and discards what it recorded.
    pub fn abort(self: &Arc<Self>) {
        drop(self.stop());
    }

    fn stop(self: &Arc<Self>) -> (Option<Recorded>, Option<String>) {
        let mut state = self.state.lock();
        let stopped = (state.recording.take(), state.invalid.take());
        drop(state);
        COUNT.fetch_sub(usize::from(stopped.0.is_some()), Ordering::Release);
        let streams = stopped.0.iter().flat_map(|recorded| &recorded.branches).map(|branch| branch.stream);
        streams.for_each(Stream::stop_recording);
        sanitizer::end_capture(&**self);
        stopped
    }

    pub fn is_under_way(&self) -> bool {
        self.state.lock().recording.is_some()
    }

    fn with<R>(&self, change: impl FnOnce(&mut Recorded) -> R) -> Result<R, Error> {
        let mut state = self.state.lock();
        let State { recording, invalid } = &mut *state;
        match (recording, invalid) {
            (None, _) => Err(Error::InvalidArgument("the capture has ended".to_owned())),
            (_, Some(text)) => Err(Error::InvalidArgument(format!("the capture was invalidated: {text}"))),
            (Some(recorded), None) => Ok(change(recorded)),
        }
    }

    /// The cell of a kernel that draws this many random numbers from a generator; the graph keeps the generator. Fails with
    /// `InvalidArgument` if the capture has ended or was invalidated.
    pub fn draw(&self, generator: &Arc<Generator>, numbers: u64) -> Result<&'static Cell, Error> {
        self.with(|recorded| recorded.generators.draw(generator, numbers))
    }

    /// The end of what a stream has recorded so far.
    pub(in crate::runtime) fn point(self: &Arc<Self>, stream: &'static Stream) -> Result<Point, Error> {
        let tail = self.with(|recorded| recorded.branch(stream).tail.clone())?;
        let clock = sanitizer::is_on().then(|| sanitizer::clock(Some(&**self), stream));
        Ok(Point { capture: Arc::clone(self), tail, clock })
    }

    /// True if a stream of the capture matches.
    fn has(&self, is_it: impl Fn(&'static Stream) -> bool) -> bool {
        let state = self.state.lock();
        state.recording.iter().flat_map(|recorded| &recorded.branches).any(|branch| is_it(branch.stream))
    }
}

impl Point {
    /// Makes a stream join the capture and orders its further tasks after this point.
    pub(in crate::runtime) fn block(&self, stream: &'static Stream) -> Result<(), Error> {
        match Capture::of(stream) {
            Some(other) if !Arc::ptr_eq(&other, &self.capture) => {
                return Err(other.refuse("waiting for an event of another capture"));
            }
            // `start_recording` takes the stream's lock alone, so the capture may have ended before; `with` detects that.
            None if !stream.start_recording(Arc::clone(&self.capture) as Arc<dyn Recorder>) => return self.block(stream),
            Some(_) | None => {}
        }
        let joined = self.capture.with(|recorded| {
            let tail = &mut recorded.branch(stream).tail;
            tail.extend(&self.tail);
            tail.sort_unstable();
            tail.dedup();
        });
        if joined.is_err() && !self.capture.has(|other| std::ptr::eq(other, stream)) {
            stream.stop_recording();
        }
        if joined.is_ok() {
            sanitizer::order(Some(&*self.capture), stream, self.clock.as_ref());
        }
        joined
    }

    /// Refuses an operation that needs to know when the point was reached, which a replay does not define.
    pub(in crate::runtime) fn refuse(&self, what: &str) -> Error {
        let what = format!("{what} of an event that was recorded in a capture");
        if self.capture.is_under_way() {
            return self.capture.refuse(&what);
        }
        Error::InvalidArgument(format!("{what} is not possible: it has no moment"))
    }
}

pub fn is_under_way() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}
