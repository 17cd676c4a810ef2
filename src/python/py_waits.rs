//! Reports of synchronisation for `rustdev/waits.py`: how often and how long the host waited for the devices, by line of
//! Python.
//!
//! While a report is active, the shim reports the beginning and end of each wait (`src/abi/rd_wait.rs`). A wait belongs to the
//! thread on which it ends. The frames of that thread are read without running Python code, because signal handlers and
//! finalisers could run in between.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;

use super::frames;
use super::py_ops::loaded_shim;
use crate::abi::rd_wait::{RD_WAIT_OBSERVED, observe, rd_wait};
use crate::runtime::sync::{LazyLock, Mutex};
use crate::runtime::{affinity, fork};

/// The most waits that are kept one by one; later ones are only added to the sums.
const SPANS: usize = 1 << 18;

/// A line of Python: file, line and function.
type Line = (String, u32, String);

/// The key of a sum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: i32,
    name: String,
    to_device: bool,
    pinned: bool,
    waits: bool,
    lines: Lines,
}

/// The lines of Python that a wait is attributed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lines {
    /// The innermost line of user code.
    user: Option<Line>,
    /// The innermost line of another library, below the user's line if there is one; with neither, the innermost line of torch
    /// or this package.
    library: Option<Line>,
    prints: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    idle: u64,
    nanoseconds: u64,
    bytes: u64,
}

/// A wait: begin, end, thread, and the index of its sum.
type Span = (u64, u64, i32, usize);

#[derive(Debug, Default)]
struct Recorder {
    reports: usize,
    sums: Vec<(Key, Sum)>,
    indices: HashMap<Key, usize>,
    spans: Vec<Span>,
}

static RECORDER: LazyLock<Mutex<Recorder>> = LazyLock::new(Mutex::default);
static OWNERS: LazyLock<Mutex<Owners>> = LazyLock::new(Mutex::default);

/// The owner of a file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    Library,
    /// Files of torch and of this package.
    Torch,
    /// Files that print tensors.
    Printer,
}

/// Directories that determine the owner of a file, and a cache of files.
#[derive(Debug, Default)]
struct Owners {
    torch: Vec<String>,
    libraries: Vec<String>,
    known: HashMap<String, Owner>,
}

impl Owners {
    fn of(&mut self, file: &str) -> Owner {
        if let Some(owner) = self.known.get(file) {
            return *owner;
        }
        let owner = self.find(file);
        self.known.insert(file.to_owned(), owner);
        owner
    }

    fn find(&self, file: &str) -> Owner {
        let is_in = |directories: &[String]| directories.iter().any(|directory| file.starts_with(directory));
        if file.ends_with("/torch/_tensor_str.py") {
            Owner::Printer
        } else if is_in(&self.torch) {
            Owner::Torch
        } else if is_in(&self.libraries) || ["/site-packages/", "/dist-packages/"].iter().any(|part| file.contains(part)) {
            Owner::Library
        } else {
            Owner::User
        }
    }
}

fn add(wait: &rd_wait, begin: u64, end: u64) {
    let (name, lines) = (wait.name.lossy().into_owned(), frames::read(lines).unwrap_or_default());
    let (kind, to_device, pinned, waits) = (wait.kind, wait.to_device, wait.pinned, !wait.is_asynchronous);
    RECORDER.lock().add(Key { kind, name, to_device, pinned, waits, lines }, wait, begin, end);
}

/// The lines that this thread is executing.
fn lines(py: Python<'_>) -> PyResult<Lines> {
    let (mut lines, mut innermost) = (Lines::default(), None);
    frames::visit(py, |frame| {
        let (code, line) = frames::place(frame)?;
        let text = |name| Ok::<_, PyErr>(code.getattr(name)?.cast::<pyo3::types::PyString>()?.to_string_lossy().into_owned());
        let file = text(intern!(py, "co_filename"))?;
        let owner = OWNERS.lock().of(&file);
        lines.prints |= owner == Owner::Printer;
        let here = match owner {
            Owner::User => &mut lines.user,
            Owner::Library => &mut lines.library,
            Owner::Torch | Owner::Printer => &mut innermost,
        };
        if here.is_none() {
            *here = Some((file, line, text(intern!(py, "co_name"))?));
        }
        Ok(lines.user.is_none())
    })?;
    if lines.user.is_none() && lines.library.is_none() {
        lines.library = innermost;
    }
    Ok(lines)
}

impl Recorder {
    fn add(&mut self, key: Key, wait: &rd_wait, begin: u64, end: u64) {
        if self.reports == 0 {
            return;
        }
        let waits = key.waits;
        let index = self.index(key);
        let sum = &mut self.sums[index].1;
        sum.count += 1;
        sum.bytes += wait.bytes;
        if waits {
            sum.idle += u64::from(wait.is_idle);
            sum.nanoseconds += end - begin;
            self.keep((begin, end, affinity::thread(), index));
        }
    }

    fn index(&mut self, key: Key) -> usize {
        let next = self.sums.len();
        let index = *self.indices.entry(key.clone()).or_insert(next);
        if index == next {
            self.sums.push((key, Sum::default()));
        }
        index
    }

    fn keep(&mut self, span: Span) {
        if self.spans.len() < SPANS {
            self.spans.push(span);
        }
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: waits_start, waits_stop, waits_sums, waits_spans)
}

#[pyfunction]
fn waits_start(torch: Vec<String>, libraries: Vec<String>) -> PyResult<()> {
    fork::check()?;
    let shim = loaded_shim()?;
    *OWNERS.lock() = Owners { torch, libraries, known: HashMap::new() };
    let mut recorder = RECORDER.lock();
    if recorder.reports == 0 {
        *recorder = Recorder::default();
    }
    recorder.reports += 1;
    observe(add);
    (shim.change_wait_flags)(RD_WAIT_OBSERVED, RD_WAIT_OBSERVED);
    Ok(())
}

#[pyfunction]
fn waits_stop() -> PyResult<()> {
    let mut recorder = RECORDER.lock();
    recorder.reports -= 1;
    let bits = if recorder.reports > 0 { RD_WAIT_OBSERVED } else { 0 };
    (loaded_shim()?.change_wait_flags)(RD_WAIT_OBSERVED, bits);
    Ok(())
}

/// Kind (`RD_WAIT_*`), name, to the device, pinned, waits, prints, the user's line, the library's line; count, idle, nanoseconds, bytes.
type Row = ((i32, String, bool, bool, bool, bool, Option<Line>, Option<Line>), (u64, u64, u64, u64));

#[pyfunction]
fn waits_sums() -> Vec<Row> {
    RECORDER.lock().sums.iter().map(row).collect()
}

fn row((key, sum): &(Key, Sum)) -> Row {
    let Key { kind, name, to_device, pinned, waits, lines } = key.clone();
    let Lines { user, library, prints } = lines;
    ((kind, name, to_device, pinned, waits, prints, user, library), (sum.count, sum.idle, sum.nanoseconds, sum.bytes))
}

#[pyfunction]
fn waits_spans(first: usize) -> Vec<Span> {
    RECORDER.lock().spans.get(first..).unwrap_or_default().to_vec()
}
