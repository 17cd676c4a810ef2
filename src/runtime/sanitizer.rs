//! Race detector: finds accesses to the same memory that are not ordered by happens-before, judged by the order of the program's
//! calls.
//!
//! Each submission is compared, on the submitting thread, with the earlier accesses ([`shadow`]) under vector clocks
//! ([`detector`]), which advance as streams, events and the host wait for each other. A missing wait is therefore found whether or
//! not the tasks happened to run in the right order, and the same program gives the same report each time.
//!
//! The detector is off by default; a launch then reads only the word of the [`observers`](super::observers). One lock guards all
//! state. Nothing waits while holding it: Python stacks are captured before it is taken, and findings are reported after it is
//! released.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::config::{MAX_DEVICES, RaceMode};
use super::memory::caching_pool::Use;
use super::memory::history::{self, Context};
use super::memory::race_notes::{self, RaceDetector};
use super::memory::{Timeline, process_pools};
use super::observers::{self, RACES};
use super::stream::Stream;
use super::stream::observer::Recorder;
use super::stream::registry;
use super::sync::{Arc, LazyLock, Mutex};
use super::task::{Access, Shape, Task};
use super::vector_clock::VectorClock;
use super::{Error, exit};

pub mod detector;
pub mod finding;
pub mod footprint;
mod shadow;

use detector::{Awaited, COLLECTIVES, Detector, Race, StreamKey, Touch};
use finding::{Extent, Fault, Finding, Frame, Side};
use footprint::Footprint;
use shadow::{Past, Site};

/// Returns the frames of a context, innermost first.
pub type DescribeFrames = fn(&Context) -> Vec<Frame>;

#[derive(Default)]
struct State {
    mode: RaceMode,
    detector: Detector,
    /// The detectors of captures that are under way, by the capture's number.
    captures: BTreeMap<usize, Detector>,
    findings: Vec<Finding>,
    keys: BTreeSet<String>,
    /// The text of a finding that a free made and could not raise.
    late: Option<String>,
    /// Frees of memory that the owning stream must wait for before its next task.
    awaited: Vec<Raw>,
    describe: Option<DescribeFrames>,
    /// Path prefixes of library code, which is left out of stacks.
    libraries: Vec<String>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

/// A finding before its frames and its block's label are looked up, which must happen outside the lock.
struct Raw {
    fault: Fault,
    first: Option<Past>,
    second: Side,
    context: Option<Context>,
    memory: Extent,
    /// The wait that would make this no race.
    awaited: Option<Awaited>,
}

/// Sets how frames are looked up and which files belong to libraries.
pub fn set_front_end(describe: DescribeFrames, libraries: Vec<String>) {
    let mut state = STATE.lock();
    (state.describe, state.libraries) = (Some(describe), libraries);
}

/// Starts checking, or changes the mode.
pub fn enable(mode: RaceMode) {
    let mut state = STATE.lock();
    if !is_on() {
        state.detector.clear();
    }
    state.mode = mode;
    _ = race_notes::DETECTOR.set(&Notes);
    observers::set(RACES, true);
}

/// Stops checking; findings stay.
pub fn disable() {
    let mut state = STATE.lock();
    observers::set(RACES, false);
    state.detector.clear();
    (state.captures, state.late, state.awaited) = (BTreeMap::new(), None, Vec::new());
}

#[inline]
pub fn is_on() -> bool {
    observers::has(RACES)
}

/// The mode; `None` while the detector is off.
pub fn mode() -> Option<RaceMode> {
    is_on().then(|| STATE.lock().mode)
}

pub fn findings() -> Vec<Finding> {
    settle_frees(None);
    STATE.lock().findings.clone()
}

/// Forgets all findings, so that they are reported again.
pub fn clear() {
    let mut state = STATE.lock();
    (state.findings, state.keys, state.late, state.awaited) = (Vec::new(), BTreeSet::new(), None, Vec::new());
}

impl State {
    /// The detector of a capture, or that of the tasks that run.
    fn detector_of(&mut self, capture: Option<&dyn Recorder>) -> &mut Detector {
        match capture {
            Some(capture) => self.captures.entry(number(capture)).or_default(),
            None => &mut self.detector,
        }
    }
}

/// The number of a capture that is under way.
fn number(capture: &dyn Recorder) -> usize {
    std::ptr::from_ref(capture).addr()
}

/// Checks and records a task that is about to be submitted to a stream, or recorded by a capture. Fails with `Race` in
/// [`RaceMode::Error`]: the task must not be submitted.
#[cold]
pub(super) fn submit(capture: Option<&dyn Recorder>, stream: &'static Stream, task: &mut Task) -> Result<(), Error> {
    if capture.is_none() && task.is_callback() {
        task.since = Some(Box::new(STATE.lock().detector.callback(stream.key())));
        return Ok(());
    }
    let touches = touches(task);
    check(stream.key(), capture, task.name(), &touches, |number| describe(task, number))
}

/// Checks and records a replay, which counts as one submission. Like the next functions, it fails with `Race` in the mode `Error`.
#[cold]
pub fn replay(stream: &'static Stream, accesses: impl Iterator<Item = Access>) -> Result<(), Error> {
    let touches: Vec<_> = accesses.filter(is_watched).map(|access| touch(access, None)).collect();
    check(stream.key(), None, "graph", &touches, |_| None)
}

/// True for device memory and pinned memory. Copies from and to pageable host memory always block, so they need no check.
fn is_watched(access: &Access) -> bool {
    let begin = access.begin as *const u8;
    access.begin < access.end && (process_pools::device_of(begin).is_some() || process_pools::host().is_pinned(access.begin))
}

fn touch(access: Access, shape: Option<&Shape<'_>>) -> Touch {
    Touch { footprint: Footprint::new(access.begin, access.end, shape), write: access.write }
}

/// The accesses of a task, one per operand; accesses that are not watched become empty.
fn touches(task: &Task) -> Vec<Touch> {
    let mut touches = Vec::new();
    task.operands(&mut |access, shape| {
        let empty = Access { begin: 0, end: 0, write: false };
        touches.push(if is_watched(&access) { touch(access, shape.as_ref()) } else { touch(empty, None) });
    });
    touches
}

/// Dtype and sizes of the access with this number.
fn describe(task: &Task, number: usize) -> Option<String> {
    let (mut text, mut next) = (None, 0);
    task.operands(&mut |_, shape| {
        if next == number {
            text = shape.map(|shape| shape.to_string());
        }
        next += 1;
    });
    text
}

fn check(
    stream: StreamKey,
    capture: Option<&dyn Recorder>,
    operator: &str,
    touches: &[Touch],
    describe: impl Fn(usize) -> Option<String>,
) -> Result<(), Error> {
    if touches.iter().all(|touch| touch.footprint.begin == touch.footprint.end) {
        return Ok(());
    }
    if capture.is_none() {
        settle_frees(Some(stream));
    }
    let context = history::capture_now();
    let site = Arc::new(Site { operator: operator.into(), stream: Some(stream), context: context.clone() });
    let mut state = STATE.lock();
    let mode = state.mode;
    let detector = state.detector_of(capture);
    let race = detector.race(Some(stream), touches);
    if race.is_none() || mode == RaceMode::Warn {
        detector.submit(stream, touches, &site);
    }
    drop(state);
    match race {
        Some(race) => {
            let shape = describe(race.number);
            tell(raw(race, touches, operator, Some(stream), context, shape))
        }
        None => raise_late(),
    }
}

/// Checks and records a collective: an operation of several processes that starts after what stream `behind` holds and runs outside
/// of it. Returns the clock of its end, for [`order_behind`]; `None` while the detector is off.
pub fn collective(operator: &str, behind: StreamKey, accesses: impl Iterator<Item = Access>) -> Result<Option<VectorClock>, Error> {
    if !is_on() {
        return Ok(None);
    }
    let own = (behind.0, COLLECTIVES);
    {
        let mut state = STATE.lock();
        let before = state.detector.clock(behind).clone();
        state.detector.order(Some(own), &before);
    }
    let touches: Vec<_> = accesses.filter(is_watched).map(|access| touch(access, None)).collect();
    check(own, None, operator, &touches, |_| None)?;
    Ok(Some(STATE.lock().detector.clock(own).clone()))
}

/// Orders a stream, or the host if `None`, after the operation with that clock.
pub fn order_behind(stream: Option<StreamKey>, clock: &VectorClock) {
    STATE.lock().detector.order(stream, clock);
}

/// Checks an access of the host on this thread; `operator` names it in reports.
#[cold]
pub fn host_touches(operator: &str, begin: usize, end: usize, write: bool) -> Result<(), Error> {
    let touches = [Touch { footprint: Footprint::dense(begin, end), write }];
    let race = STATE.lock().detector.race(None, &touches);
    match race {
        Some(race) => tell(raw(race, &touches, operator, None, history::capture_now(), None)),
        None => raise_late(),
    }
}

fn raw(
    race: Race,
    touches: &[Touch],
    operator: &str,
    stream: Option<StreamKey>,
    context: Option<Context>,
    shape: Option<String>,
) -> Raw {
    let Race { first, number } = race;
    let Touch { footprint, write } = &touches[number];
    let (begin, end) = (footprint.begin.max(first.footprint.begin), footprint.end.min(first.footprint.end));
    let second = Side { operator: operator.to_owned(), stream, write: *write, frames: Vec::new() };
    let memory = Extent { begin, end, label: None, shape, was_freed: first.is_freed };
    let fault = fault(begin, [first.site.stream, stream]);
    Raw { fault, first: Some(first), second, context, memory, awaited: None }
}

fn fault(address: usize, streams: [Option<StreamKey>; 2]) -> Fault {
    match process_pools::device_of(address as *const u8) {
        None => Fault::HostMemory,
        Some(device) if streams.into_iter().flatten().any(|(other, _)| other != device) => Fault::OtherDevice,
        Some(_) => Fault::Unordered,
    }
}

/// The clock of a stream's submissions so far, to a capture or to run, for an event.
pub(super) fn clock(capture: Option<&dyn Recorder>, stream: &'static Stream) -> VectorClock {
    STATE.lock().detector_of(capture).clock(stream.key()).clone()
}

/// Orders a stream, in a capture if there is one, after an event that was recorded with that clock.
pub(super) fn order(capture: Option<&dyn Recorder>, stream: &'static Stream, clock: Option<&VectorClock>) {
    if let (true, Some(clock)) = (is_on(), clock) {
        STATE.lock().detector_of(capture).order(Some(stream.key()), clock);
    }
}

/// Forgets a capture that has ended.
pub(super) fn end_capture(capture: &dyn Recorder) {
    if is_on() {
        STATE.lock().captures.remove(&number(capture));
    }
}

/// Notes that the host waits for an event that was recorded with that clock.
pub fn host_waits(clock: Option<&VectorClock>) {
    if let (true, Some(clock)) = (is_on(), clock) {
        STATE.lock().detector.order(None, clock);
    }
}

#[inline]
pub fn host_waits_for(stream: &dyn Timeline) {
    if is_on() {
        STATE.lock().detector.host_waits_for(stream.key());
    }
}

/// Reports a wait for an event that was never recorded. `stream`: the waiting stream.
pub fn waits_for_nothing(stream: Option<StreamKey>) -> Result<(), Error> {
    if !is_on() {
        return Ok(());
    }
    let second = Side { operator: "wait_event".to_owned(), stream, write: false, frames: Vec::new() };
    let (fault, context, memory) = (Fault::NotRecorded, history::capture_now(), Extent::default());
    tell(Raw { fault, first: None, second, context, memory, awaited: None })
}

/// The callbacks of the memory pools.
struct Notes;

impl RaceDetector for Notes {
    fn allocated(&self, owner: &'static dyn Timeline, begin: usize, size: usize) {
        let (owner, end) = (owner.key(), begin + size);
        let capture = registry::find(owner.0, owner.1).and_then(Stream::recorder);
        let mut state = STATE.lock();
        match capture {
            // Memory of a graph's pool: its uses are compared with each other when the graph is replayed.
            Some(capture) => {
                state.detector_of(Some(&*capture)).forget(begin, end);
                state.detector.forget(begin, end);
            }
            None => state.detector.allocated(owner, begin, end),
        }
    }

    fn forget(&self, address: usize, size: usize) {
        STATE.lock().detector.forget(address, address + size);
    }

    fn freed(&self, block: &Use, begin: usize) -> Option<race_notes::Race> {
        if exit::is_exiting() {
            return None;
        }
        let (owner, size) = (block.owner.key(), block.size);
        let mut users = keys(&block.users);
        // Collectives hold their tensors until they end.
        users.push((owner.0, COLLECTIVES));
        let current = registry::current(owner.0, registry::devices).key();
        let (first, awaited) = STATE.lock().detector.freed(owner, begin..begin + size, &users, current)?;
        let mut found = Raw { awaited, ..raw_free(first, begin, size, Some(owner)) };
        found.memory.label = block.label.as_ref().map(ToString::to_string);
        Some(later(found))
    }

    fn host_freed(&self, begin: usize, size: usize, users: &[&'static dyn Timeline]) -> Option<race_notes::Race> {
        if exit::is_exiting() {
            return None;
        }
        let first = STATE.lock().detector.host_freed(begin, begin + size, &keys(users));
        // A graph that may read the block keeps it allocated.
        let first = first.filter(|_| users.iter().all(|user| user.device() < MAX_DEVICES))?;
        Some(later(raw_free(first, begin, size, None)))
    }
}

fn later(found: Raw) -> race_notes::Race {
    Box::new(move |context| tell_later(found, context))
}

fn keys(users: &[&'static dyn Timeline]) -> Vec<StreamKey> {
    users.iter().map(|user| user.key()).collect()
}

fn raw_free(first: Past, begin: usize, size: usize, stream: Option<StreamKey>) -> Raw {
    let second = Side { operator: "free".to_owned(), stream, write: true, frames: Vec::new() };
    let memory = Extent { begin, end: begin + size, ..Extent::default() };
    Raw { fault: Fault::FreedInUse, first: Some(first), second, context: None, memory, awaited: None }
}

/// Reports a finding of a free. A free cannot raise, so the next checked call does.
#[cold]
fn tell_later(found: Raw, context: Option<Context>) {
    let found = Raw { context: context.or_else(history::capture_now), ..found };
    if found.awaited.is_some() {
        STATE.lock().awaited.push(found);
    } else {
        tell_free(found);
    }
}

fn tell_free(found: Raw) {
    if let Err(error) = tell(found) {
        STATE.lock().late = Some(error.message().to_owned());
    }
}

/// Reports the awaited frees of one stream, or of all, whose wait did not happen; drops those whose wait did.
fn settle_frees(stream: Option<StreamKey>) {
    let mut guard = STATE.lock();
    let state = &mut *guard;
    let is_due = |found: &Raw| found.awaited.is_some_and(|awaited| stream.is_none_or(|stream| stream == awaited.stream));
    let (mut due, others): (Vec<_>, Vec<_>) = std::mem::take(&mut state.awaited).into_iter().partition(is_due);
    state.awaited = others;
    due.retain(|found| found.awaited.is_some_and(|awaited| !state.detector.has_waited(awaited)));
    drop(guard);
    due.into_iter().for_each(tell_free);
}

/// As [`raise_late`], including frees that nothing has waited for yet.
pub fn raise_all() -> Result<(), Error> {
    settle_frees(None);
    raise_late()
}

/// Raises the finding of an earlier free, if any. Fails with `Race`, once for all such findings.
pub fn raise_late() -> Result<(), Error> {
    STATE.lock().late.take().map_or(Ok(()), |text| Err(Error::Race(text)))
}

/// Turns a raw finding into a [`Finding`] and reports it.
fn tell(found: Raw) -> Result<(), Error> {
    let Raw { fault, first, mut second, context, mut memory, .. } = found;
    let (describe, libraries) = {
        let state = STATE.lock();
        (state.describe, state.libraries.clone())
    };
    let frames = |context: Option<&Context>| {
        let frames = describe.zip(context).map(|(describe, context)| describe(context)).unwrap_or_default();
        users_own(frames, &libraries)
    };
    second.frames = frames(context.as_ref());
    let first = first.map(|past| {
        let Site { operator, stream, context } = &*past.site;
        Side { operator: operator.to_string(), stream: *stream, write: past.write, frames: frames(context.as_ref()) }
    });
    if memory.label.is_none() && fault != Fault::FreedInUse {
        memory.label = process_pools::label_over(memory.begin as *const u8).map(|label| label.to_string());
    }
    report(Finding { fault, first, second, memory })
}

/// The frames outside of libraries, or all frames if there are none.
fn users_own(frames: Vec<Frame>, libraries: &[String]) -> Vec<Frame> {
    let is_own = |frame: &Frame| !libraries.iter().any(|library| frame.file.starts_with(library.as_str()));
    let own: Vec<_> = frames.iter().filter(|frame| is_own(frame)).cloned().collect();
    if own.is_empty() { frames } else { own }
}

fn report(found: Finding) -> Result<(), Error> {
    let text = found.text();
    let mut state = STATE.lock();
    let is_new = state.keys.insert(found.key());
    if is_new || state.mode == RaceMode::Error {
        state.findings.push(found);
    }
    if state.mode == RaceMode::Error {
        return Err(Error::Race(text));
    }
    drop(state);
    if is_new {
        eprintln!("{text}");
    }
    Ok(())
}
