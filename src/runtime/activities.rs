//! Activities: the rows of a trace as profilers draw them.
//!
//! A task becomes two activities with one number and an arrow from the first to the second: the call that submitted it, on its
//! thread's line, and its execution, on its stream's line. Both are linked to the operator around the call. A graph replay is one
//! call and one activity per executed node on the stream, with an arrow to each. User ranges and the names of the lines follow
//! after the tasks. Activities are made lazily, because a large trace has a million of them.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{CStr, CString};
use std::process;

use super::device;
use super::stream::Stream;
use super::sync::Arc;
use super::trace::{Kind, Outcome, Row, Trace};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A computation, or other work that keeps the stream busy.
    Kernel = 0,
    /// A copy.
    Copy = 1,
    /// A fill.
    Fill = 2,
    /// The part of a user range that ran on one stream. Its name is that of the range it is linked to.
    Range = 3,
    /// A call that submitted work.
    Call = 4,
    /// The name of a stream's line; not an activity itself.
    Line = 5,
}

/// A stream's line: the index of its device and its id.
type Line = (usize, i64);

/// A key and a value that a profiler shows with an activity.
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    pub key: &'static CStr,
    pub value: CString,
    /// True if the value is a text, false if it is a number.
    pub is_text: bool,
}

/// One activity. Times are nanoseconds of the system's clock since 1970.
#[derive(Debug)]
pub struct Activity {
    pub kind: Type,
    pub name: CString,
    /// Begin and end.
    pub run: (u64, u64),
    /// The device or, for a call, the process.
    pub device: usize,
    /// The stream's id or, for a call, the thread.
    pub resource: i64,
    /// The number of the task, if positive.
    pub id: usize,
    /// The number of the arrow from the call to its execution; 0 for none.
    pub arrow: usize,
    /// The profiler's id of the operator around the call, or else of the user range; 0 for none.
    pub linked: u64,
    pub notes: Vec<Note>,
}

/// An iterator over the activities of a finished trace, in the order of its rows.
#[derive(Debug)]
pub struct Activities {
    trace: Arc<Trace>,
    /// A bit set of [`Type`].
    types: u32,
    /// The number of the next row.
    index: usize,
    ready: VecDeque<Activity>,
    /// For each user range and line, the first begin and the last end of the tasks submitted in it.
    ranges: BTreeMap<(u64, Line), (u64, u64)>,
    lines: BTreeSet<Line>,
}

impl Activities {
    pub fn new(trace: Arc<Trace>, types: u32) -> Self {
        let (ready, ranges, lines) = (VecDeque::new(), BTreeMap::new(), BTreeSet::new());
        Self { trace, types, index: 0, ready, ranges, lines }
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    fn has(&self, kind: Type) -> bool {
        self.types >> kind as u32 & 1 != 0
    }

    /// Queues the activities of the next row; `false` after the last row.
    fn read(&mut self) -> bool {
        if self.index >= self.trace.count() {
            return false;
        }
        self.index += 1;
        if let Some(row) = self.trace.row(self.index - 1) {
            self.add(&row);
        }
        true
    }

    fn add(&mut self, row: &Row) {
        if row.task.replay.is_none() && self.has(Type::Call) {
            self.ready.push_back(call(row, self.index));
        }
        if row.outcome == Outcome::NotRun || row.task.about.kind == Kind::Replay {
            return;
        }
        if self.has(type_of(row)) {
            self.ready.push_back(run(row, self.index));
            self.lines.insert(line_of(row));
        }
        if self.has(Type::Range) {
            self.note_range(row);
        }
    }

    fn note_range(&mut self, row: &Row) {
        let (begin, end) = row.run;
        let mut range = row.task.range;
        while range != 0 {
            let whole = self.ranges.entry((range, line_of(row))).or_insert(row.run);
            *whole = (whole.0.min(begin), whole.1.max(end));
            range = self.trace.parent(range);
        }
    }

    /// The activity of the next range. Ranges have no operator, because their tasks are linked to operators already.
    fn next_range(&mut self) -> Option<Activity> {
        let ((range, line), run) = self.ranges.pop_first()?;
        self.lines.insert(line);
        Some(Activity { run, linked: range, ..on_line(Type::Range, CString::default(), line) })
    }

    fn next_line(&mut self) -> Option<Activity> {
        let line = self.lines.pop_first()?;
        Some(on_line(Type::Line, text(name_of(line)), line))
    }
}

impl Iterator for Activities {
    type Item = Activity;

    fn next(&mut self) -> Option<Activity> {
        while self.ready.is_empty() && self.read() {}
        self.ready.pop_front().or_else(|| self.next_range()).or_else(|| self.next_line())
    }
}

fn type_of(row: &Row) -> Type {
    match row.task.about.kind {
        Kind::Copy(..) => Type::Copy,
        Kind::Fill => Type::Fill,
        _ => Type::Kernel,
    }
}

fn line_of(row: &Row) -> Line {
    row.task.stream.key()
}

fn name_of((device, stream): Line) -> String {
    let priority = device::get(device).ok().and_then(|device| device.stream(stream)).map_or(0, Stream::priority);
    match (stream, priority) {
        (0, _) => "stream 0 (default)".to_owned(),
        (_, -1) => format!("stream {stream} (high priority)"),
        _ => format!("stream {stream}"),
    }
}

fn on_line(kind: Type, name: CString, (device, resource): Line) -> Activity {
    Activity { kind, name, run: (0, 0), device, resource, id: 0, arrow: 0, linked: 0, notes: Vec::new() }
}

/// The call of a row; `id` is positive.
fn call(row: &Row, id: usize) -> Activity {
    let mut notes = vec![said(c"task", text(row.task.name))];
    if row.outcome == Outcome::NotRun {
        notes.push(outcome(row));
    }
    let line = (process::id() as usize, i64::from(row.task.thread));
    let call = on_line(Type::Call, row.task.about.kind.call().to_owned(), line);
    Activity { run: row.submission, id, arrow: id, linked: linked(row), notes, ..call }
}

/// The execution of a row's task; `id` is positive.
fn run(row: &Row, id: usize) -> Activity {
    let arrow = row.task.replay.map_or(id, |replay| replay + 1);
    let ran = on_line(type_of(row), text(row.task.about.kind.title(row.task.name)), line_of(row));
    Activity { run: row.run, id, arrow, linked: linked(row), notes: description(row, id), ..ran }
}

fn linked(row: &Row) -> u64 {
    if row.task.operator == 0 { row.task.range } else { row.task.operator }
}

fn description(row: &Row, id: usize) -> Vec<Note> {
    let mut notes = vec![
        counted(c"device", &row.task.stream.device()),
        counted(c"stream", &row.task.stream.id()),
        counted(c"correlation", &id),
        said(c"tier", row.task.about.kind.tier().to_owned()),
    ];
    if matches!(type_of(row), Type::Copy | Type::Fill) {
        let bytes = row.task.about.bytes;
        notes.push(counted(c"bytes", &bytes));
        // A byte per nanosecond is a gigabyte per second.
        let bandwidth = bytes as f64 / (row.run.1 - row.run.0).max(1) as f64;
        notes.push(counted(c"memory bandwidth (GB/s)", &bandwidth));
    }
    if row.members > 1 {
        notes.push(counted(c"fused", &row.members));
    }
    if row.outcome != Outcome::Done {
        notes.push(outcome(row));
    }
    notes
}

fn outcome(row: &Row) -> Note {
    said(c"outcome", row.outcome.text().to_owned())
}

fn said(key: &'static CStr, value: CString) -> Note {
    Note { key, value, is_text: true }
}

fn counted(key: &'static CStr, value: &impl ToString) -> Note {
    Note { key, value: text(value.to_string()), is_text: false }
}

fn text(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).unwrap_or_default()
}
