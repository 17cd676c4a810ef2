//! Traces: the tasks that ran on the devices between two moments, with their times.
//!
//! While a trace records, every task gets a [`Mark`], the number of its entry in the trace. The submitting thread writes the
//! entry's submission once, and the running thread writes the times, so an entry needs no lock. It is read only after the trace was
//! stopped and its streams were synchronised. Without a trace, a launch costs one relaxed load.
//!
//! A replay of a graph has one entry for the call, of [`Kind::Replay`], and one with the times for each of its nodes ([`Nodes`]).
//!
//! A trace holds up to [`limit`] entries, in chunks that are allocated on demand. Further tasks are counted, not kept.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::time::{SystemTime, UNIX_EPOCH};

use super::memory::Timeline;
use super::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering};
use super::{Error, affinity, observers};

/// Entries per chunk.
const CHUNK: usize = 1024;
/// The default of [`limit`]: about 30 MB.
const DEFAULT_LIMIT: usize = 256 * CHUNK;

static LIMIT: AtomicUsize = AtomicUsize::new(DEFAULT_LIMIT);
/// The number of traces so far. A thread discards the ranges that it remembers of an earlier trace.
static COUNT: AtomicU64 = AtomicU64::new(0);
static CURRENT: Mutex<Option<Arc<Trace>>> = Mutex::new(None);

/// The simulated time of the host, in nanoseconds, while the clock of a profile is on.
static HOST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static RANGES: RefCell<Ranges> = RefCell::default();
}

/// The kind of memory that an operand of a copy is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Memory of the stream's device.
    Device,
    /// Memory of another device.
    Peer,
    Pinned,
    Pageable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A kernel of the operator table.
    Kernel,
    /// A copy, from and to.
    Copy(MemoryKind, MemoryKind),
    Fill,
    /// A CPU kernel of `PyTorch` that runs as a task.
    Aten,
    /// A kernel that a compiler generated.
    Compiled,
    /// A C function of another library.
    Custom,
    /// A CPU kernel of `PyTorch` on the caller's thread.
    Fallback,
    Host,
    Sleep,
    /// A replay of a graph's kernels. The entry stands for the call only; each node has its own entry.
    Replay,
}

/// The description of a task's work, for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub kind: Kind,
    /// Bytes that a copy or a fill writes; 0 for other kinds.
    pub bytes: u64,
}

impl About {
    /// Work of that kind, without a number of bytes.
    pub const fn kind(kind: Kind) -> Self {
        Self { kind, bytes: 0 }
    }
}

/// How the work of an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Failed,
    /// Skipped after a failure, or not begun when the trace was read.
    NotRun,
    /// Still running when the trace was read; its end is that moment.
    Running,
}

/// A task of a finished trace. Times are nanoseconds of the system's clock since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub task: Submission,
    pub submission: (u64, u64),
    /// (0, 0) if it did not run.
    pub run: (u64, u64),
    /// The number of tasks that were fused, including this one; each is assigned its share of the time.
    pub members: u64,
    pub outcome: Outcome,
}

/// What the submitting thread writes.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    pub name: &'static str,
    pub about: About,
    pub stream: &'static dyn Timeline,
    /// The system's id of that thread.
    pub thread: i32,
    /// The profiler's ids of the innermost operator and of the innermost user range around the submission; 0 for none.
    pub operator: u64,
    pub range: u64,
    begin: u64,
    /// For a node of a graph, the number of the replay's row.
    pub replay: Option<usize>,
}

#[derive(Debug, Default)]
struct Entry {
    submission: OnceLock<Submission>,
    submitted: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
    members: AtomicU64,
    failed: AtomicBool,
    /// The simulated times of the run, in place of `begin` and `end`.
    planned: OnceLock<(u64, u64)>,
}

#[derive(Debug)]
pub struct Trace {
    /// Entries claimed so far, including those that found no room.
    claimed: AtomicUsize,
    chunks: Box<[OnceLock<Box<[Entry]>>]>,
    /// The time at which the trace was stopped and its streams were synchronised.
    stopped: AtomicU64,
    number: u64,
    /// Maps each user range to the user range around it.
    parents: Mutex<HashMap<u64, u64>>,
    /// The time of the start, by the system's clock and by the simulated one.
    anchor: (u64, u64),
}

/// A reference to the entry of a task.
#[derive(Clone, Debug)]
pub struct Mark {
    trace: Arc<Trace>,
    index: usize,
}

/// The entries of the nodes of a replay.
#[derive(Debug)]
pub struct Nodes {
    trace: Arc<Trace>,
    first: usize,
}

/// Nanoseconds of the system's clock.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// Sets the simulated time of the host.
pub(super) fn set_host(nanoseconds: u64) {
    HOST.store(nanoseconds, Ordering::Relaxed);
}

#[inline]
pub fn is_on() -> bool {
    observers::has(observers::TRACE)
}

/// The capacity of the next traces, in entries.
pub fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Sets the capacity of the next traces, rounded up to a multiple of 1024 entries. Fails with `InvalidValue` for 0 and for more
/// than 2^30.
pub fn set_limit(entries: usize) -> Result<(), Error> {
    if entries == 0 || entries > 1 << 30 {
        return Err(Error::InvalidValue(format!("a trace has room for 1 to {} tasks, not {entries}", 1 << 30)));
    }
    LIMIT.store(entries.next_multiple_of(CHUNK), Ordering::Relaxed);
    Ok(())
}

/// Starts a trace and returns its number, which is positive. Fails with `InvalidArgument` while another trace is recording.
pub fn start() -> Result<u64, Error> {
    let mut current = CURRENT.lock();
    if current.is_some() {
        return Err(Error::InvalidArgument("a trace of the tasks is being taken already".to_owned()));
    }
    let chunks = (0..limit() / CHUNK).map(|_| OnceLock::new()).collect();
    let number = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let (claimed, stopped, parents) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(HashMap::new()));
    let anchor = (now(), HOST.load(Ordering::Relaxed));
    *current = Some(Arc::new(Trace { claimed, chunks, stopped, number, parents, anchor }));
    observers::set(observers::TRACE, true);
    Ok(number)
}

/// Stops the trace of that number, if it is recording, and waits for the streams that have tasks in it. Failures are kept for the
/// next synchronising call.
pub fn stop(number: u64) -> Option<Arc<Trace>> {
    let trace = {
        let mut current = CURRENT.lock();
        let trace = current.take_if(|trace| trace.number == number)?;
        observers::set(observers::TRACE, false);
        trace
    };
    for stream in trace.busy_streams() {
        // If this thread runs a task that the stream waits for, `finish` does not wait, and the trace that is read is incomplete.
        stream.finish();
    }
    trace.stopped.store(trace.now(), Ordering::Release);
    Some(trace)
}

/// The mark of a task that is about to be submitted; `None` without a trace, and for tasks that are no work.
#[cold]
pub fn mark(stream: &'static dyn Timeline, name: &'static str, about: Option<About>) -> Option<Mark> {
    Mark::new(stream, name, about?)
}

/// The marks of a replay that is about to be submitted and of its nodes; `None` without a trace or without room in it.
pub fn mark_replay(
    stream: &'static dyn Timeline,
    name: &'static str,
    nodes: impl ExactSizeIterator<Item = (&'static str, About)>,
) -> Option<(Mark, Nodes)> {
    if !is_on() {
        return None;
    }
    let mark = Mark::new(stream, name, About::kind(Kind::Replay))?;
    let trace = Arc::clone(&mark.trace);
    let call = trace.get(mark.index)?.submission.get()?;
    let first = trace.claimed.fetch_add(nodes.len(), Ordering::Relaxed);
    for (index, (name, about)) in (first..).zip(nodes) {
        let Some(entry) = trace.make(index) else { break };
        // No other thread has this index, so the slot is empty.
        let _ = entry.submission.set(Submission { name, about, replay: Some(mark.index), ..*call });
    }
    Some((mark, Nodes { trace, first }))
}

/// A mark with a name that differs from the task's; `None` without a trace.
pub fn mark_named(stream: &'static dyn Timeline, name: &'static str, kind: Kind) -> Option<Mark> {
    if is_on() { Mark::new(stream, name, About::kind(kind)) } else { None }
}

/// The mark of work that this thread starts now, in the order of `stream`; `None` without a trace.
pub fn mark_call(stream: &'static dyn Timeline, name: &'static str, kind: Kind) -> Option<Mark> {
    let mark = mark_named(stream, name, kind)?;
    mark.begin();
    Some(mark)
}

impl Mark {
    fn new(stream: &'static dyn Timeline, name: &'static str, about: About) -> Option<Self> {
        let trace = CURRENT.lock().clone()?;
        let index = trace.claimed.fetch_add(1, Ordering::Relaxed);
        let entry = trace.make(index)?;
        let (operator, range) = RANGES.with_borrow(Ranges::innermost);
        let thread = affinity::thread();
        let begin = trace.now();
        let submission = Submission { name, about, stream, thread, operator, range, begin, replay: None };
        // No other thread has this index, so the slot is empty.
        let _ = entry.submission.set(submission);
        Some(Self { trace, index })
    }

    fn write(&self, write: impl FnOnce(&Entry)) {
        if let Some(entry) = self.trace.get(self.index) {
            write(entry);
        }
    }

    pub fn submitted(&self) {
        self.write(|entry| entry.submitted.store(self.trace.now(), Ordering::Release));
    }

    pub fn begin(&self) {
        self.write(|entry| entry.begin.store(now(), Ordering::Release));
    }

    pub fn end(&self, failed: bool) {
        self.write(|entry| {
            entry.failed.store(failed, Ordering::Relaxed);
            entry.end.store(now(), Ordering::Release);
        });
    }

    /// Notes that the task was one of `members` fused tasks, with its share of their time.
    pub fn share(&self, begin: u64, end: u64, members: usize) {
        self.write(|entry| {
            entry.members.store(members as u64, Ordering::Relaxed);
            entry.begin.store(begin, Ordering::Release);
            entry.end.store(end, Ordering::Release);
        });
    }

    /// Notes the simulated times of the run.
    pub(super) fn plan(&self, begin: u64, end: u64) {
        // A task runs once, so the slot is empty.
        self.write(|entry| _ = entry.planned.set((self.trace.of_host(begin), self.trace.of_host(end))));
    }

    pub fn fail(&self) {
        self.write(|entry| entry.failed.store(true, Ordering::Relaxed));
    }
}

impl Nodes {
    /// The mark of a node, by its number within the replay.
    pub fn mark(&self, number: usize) -> Mark {
        Mark { trace: Arc::clone(&self.trace), index: self.first + number }
    }
}

impl Trace {
    /// A simulated time, in nanoseconds of the system's clock, which runs as the simulated one from the trace's start on.
    fn of_host(&self, simulated: u64) -> u64 {
        let (system, host) = self.anchor;
        (system + simulated).saturating_sub(host)
    }

    /// The time of the host: simulated, if the clock of a profile is on.
    fn now(&self) -> u64 {
        if observers::has(observers::CLOCK) { self.of_host(HOST.load(Ordering::Relaxed)) } else { now() }
    }

    fn make(&self, index: usize) -> Option<&Entry> {
        let chunk = self.chunks.get(index / CHUNK)?;
        Some(&chunk.get_or_init(|| (0..CHUNK).map(|_| Entry::default()).collect())[index % CHUNK])
    }

    fn get(&self, index: usize) -> Option<&Entry> {
        Some(&self.chunks.get(index / CHUNK)?.get()?[index % CHUNK])
    }

    pub fn count(&self) -> usize {
        self.claimed.load(Ordering::Relaxed).min(self.chunks.len() * CHUNK)
    }

    /// The number of tasks that found no room.
    pub fn dropped(&self) -> usize {
        self.claimed.load(Ordering::Relaxed) - self.count()
    }

    fn busy_streams(&self) -> Vec<&'static dyn Timeline> {
        let mut streams: Vec<&'static dyn Timeline> = Vec::new();
        for entry in (0..self.count()).filter_map(|index| self.get(index)) {
            if let (Some(submission), 0) = (entry.submission.get(), entry.end.load(Ordering::Acquire))
                && !streams.iter().any(|known| std::ptr::addr_eq(*known, submission.stream))
            {
                streams.push(submission.stream);
            }
        }
        streams
    }

    /// The user range around a user range; 0 for none.
    pub fn parent(&self, range: u64) -> u64 {
        self.parents.lock().get(&range).copied().unwrap_or(0)
    }

    /// An entry; `None` if `index` is at least [`Trace::count`], and if its submission was unfinished when the trace was stopped.
    pub fn row(&self, index: usize) -> Option<Row> {
        let entry = self.get(index)?;
        let known = entry.submission.get()?;
        // Acquire: pairs with the stores of the thread that ran the task.
        let (begin, end) = (entry.begin.load(Ordering::Acquire), entry.end.load(Ordering::Acquire));
        let stopped = self.stopped.load(Ordering::Acquire);
        let (run, outcome) = match (begin, end) {
            (0, _) => ((0, 0), Outcome::NotRun),
            (begin, 0) => ((begin, stopped.max(begin)), Outcome::Running),
            // The system's clock may be set back.
            (begin, end) if entry.failed.load(Ordering::Relaxed) => ((begin, end.max(begin)), Outcome::Failed),
            (begin, end) => ((begin, end.max(begin)), Outcome::Done),
        };
        let run = entry.planned.get().copied().filter(|_| outcome != Outcome::NotRun).unwrap_or(run);
        let call = known.replay.and_then(|replay| self.get(replay)).unwrap_or(entry);
        let submitted = match call.submitted.load(Ordering::Acquire) {
            0 => stopped,
            submitted => submitted,
        };
        Some(Row {
            task: *known,
            submission: (known.begin, submitted.max(known.begin)),
            run,
            members: entry.members.load(Ordering::Relaxed).max(1),
            outcome,
        })
    }
}

impl Kind {
    /// The tier of the operator; for other work, a similar word.
    pub fn tier(self) -> &'static CStr {
        match self {
            Self::Kernel | Self::Copy(..) | Self::Fill => c"rust",
            Self::Aten => c"aten",
            Self::Compiled => c"compiled",
            Self::Custom => c"custom",
            Self::Fallback => c"fallback",
            Self::Host => c"host",
            Self::Sleep => c"sleep",
            Self::Replay => c"graph",
        }
    }

    /// The function that submits such work, of the C ABI or of `torch.rustdev`.
    pub fn call(self) -> &'static CStr {
        match self {
            Self::Kernel | Self::Copy(..) | Self::Fill => c"rd_launch",
            Self::Aten | Self::Compiled | Self::Custom => c"rd_stream_submit",
            Self::Fallback => c"cpu_fallback",
            Self::Host => c"launch_host_func",
            Self::Sleep => c"_sleep",
            Self::Replay => c"rd_graph_replay",
        }
    }

    /// The title that profilers show: for a copy or a fill as CUDA names it, for other work the task's name.
    pub fn title(self, name: &'static str) -> String {
        match self {
            Self::Copy(from, to) => {
                let direction = match (from.is_host(), to.is_host()) {
                    (true, true) => "HtoH",
                    (true, false) => "HtoD",
                    (false, true) => "DtoH",
                    (false, false) if (from, to) == (MemoryKind::Device, MemoryKind::Device) => "DtoD",
                    (false, false) => "PtoP",
                };
                format!("Memcpy {direction} ({} -> {})", from.text(), to.text())
            }
            Self::Fill => "Memset (Device)".to_owned(),
            _ => name.to_owned(),
        }
    }
}

impl MemoryKind {
    pub fn is_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Pageable)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Device | Self::Peer => "Device",
            Self::Pinned => "Pinned",
            Self::Pageable => "Pageable",
        }
    }
}

impl Outcome {
    pub fn text(self) -> &'static CStr {
        match self {
            Self::Done => c"done",
            Self::Failed => c"failed",
            Self::NotRun => c"not run",
            Self::Running => c"running",
        }
    }
}

/// The operators and user ranges that this thread is in according to the profiler, innermost last.
#[derive(Debug, Default)]
struct Ranges {
    trace: u64,
    operators: Vec<u64>,
    users: Vec<u64>,
}

impl Ranges {
    /// One of the lists. Both are emptied at the first use in a new trace, because operators in which the previous trace ended are
    /// never left.
    fn list(&mut self, is_user: bool) -> &mut Vec<u64> {
        let trace = COUNT.load(Ordering::Relaxed);
        if self.trace != trace {
            *self = Self { trace, ..Self::default() };
        }
        if is_user { &mut self.users } else { &mut self.operators }
    }

    fn innermost(&self) -> (u64, u64) {
        if self.trace != COUNT.load(Ordering::Relaxed) {
            return (0, 0);
        }
        let last = |list: &Vec<u64>| list.last().copied().unwrap_or(0);
        (last(&self.operators), last(&self.users))
    }
}

/// This thread enters an operator or a user range with the profiler's id `id`.
pub fn enter(id: u64, is_user: bool) {
    let around = RANGES.with_borrow_mut(|ranges| {
        let list = ranges.list(is_user);
        list.push(id);
        list.iter().nth_back(1).copied()
    });
    if let (true, Some(around)) = (is_user, around)
        && let Some(trace) = &*CURRENT.lock()
    {
        trace.parents.lock().insert(id, around);
    }
}

/// This thread leaves the innermost operator or user range; no effect if there is none.
pub fn leave(is_user: bool) {
    RANGES.with_borrow_mut(|ranges| _ = ranges.list(is_user).pop());
}
