//! Recording of Python stacks, which are the contexts of allocations.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::python::{frames, interpreter};
use crate::runtime::memory::history::{self, Action, Context, Detail, Recording};
use crate::runtime::sanitizer::finding::Frame;
use crate::runtime::sync::Mutex;
use crate::runtime::{isolation, pools};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // The module may be loaded again, with the same functions.
    _ = history::CAPTURE.set(capture);
    _ = isolation::PLACE.set(place);
    add_functions!(module: memory_record_history)
}

/// A Python stack: code objects and line numbers, innermost first. Names are looked up only for snapshots.
struct Stack(Lines);

type Lines = Vec<(Py<PyAny>, u32)>;

/// Stacks that were dropped by threads without the GIL; the next capture of a stack frees them.
static LEFT: Mutex<Vec<Lines>> = Mutex::new(Vec::new());

impl Drop for Stack {
    fn drop(&mut self) {
        if !interpreter::is_held() {
            LEFT.lock().push(std::mem::take(&mut self.0));
        }
    }
}

/// The Python stack of this thread; `None` if the thread never ran Python.
fn capture() -> Option<Context> {
    let stack = frames::read(walk)?;
    Some(Arc::new(stack) as Arc<dyn Any + Send + Sync>)
}

fn walk(py: Python<'_>) -> PyResult<Stack> {
    let left = std::mem::take(&mut *LEFT.lock());
    drop(left);
    let mut stack = Stack(Vec::new());
    frames::visit(py, |frame| {
        let (code, line) = frames::place(frame)?;
        stack.0.push((code.unbind(), line));
        Ok(true)
    })?;
    Ok(stack)
}

/// The innermost frames outside of torch and rustdev, as text.
fn place() -> Option<String> {
    let of_libraries = |frame: &Frame| ["/torch/", "/rustdev/", "<frozen"].iter().any(|library| frame.file.contains(library));
    let text = |frame: Frame| format!("{}:{} in {}", frame.file, frame.line, frame.function);
    let frames = frames(&capture()?).into_iter().filter(|frame| !of_libraries(frame)).take(PLACE_FRAMES).map(text);
    let text = frames.collect::<Vec<_>>().join(", called at ");
    (!text.is_empty()).then_some(text)
}

/// The number of frames that `place` names.
const PLACE_FRAMES: usize = 3;

/// The frames of a context, innermost first; empty if the interpreter is not available.
pub fn frames(context: &Context) -> Vec<Frame> {
    let Some(stack) = context.downcast_ref::<Stack>() else { return Vec::new() };
    interpreter::attach(|py| read_frames(py, stack)).and_then(Result::ok).unwrap_or_default()
}

fn read_frames(py: Python<'_>, stack: &Stack) -> PyResult<Vec<Frame>> {
    stack.0.iter().map(|(code, line)| frame(code.bind(py), *line)).collect()
}

fn frame(code: &Bound<'_, PyAny>, line: u32) -> PyResult<Frame> {
    let text = |name: &Bound<'_, PyString>| code.getattr(name)?.extract::<String>();
    let (file, function) = (text(intern!(code.py(), "co_filename"))?, text(intern!(code.py(), "co_name"))?);
    Ok(Frame { file, line, function })
}

/// The frames of contexts as Python lists, cached so that there is one list per context.
pub(super) struct Frames<'py> {
    py: Python<'py>,
    empty: Bound<'py, PyList>,
    known: HashMap<*const (), Bound<'py, PyList>>,
}

impl<'py> Frames<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Self { py, empty: PyList::empty(py), known: HashMap::new() }
    }

    /// The frames of a context, innermost first; empty without a context.
    pub(super) fn of(&mut self, context: Option<&Context>) -> PyResult<Bound<'py, PyList>> {
        let Some(stack) = context.and_then(|context| context.downcast_ref::<Stack>()) else { return Ok(self.empty.clone()) };
        let key = std::ptr::from_ref(stack).cast();
        if let Some(frames) = self.known.get(&key) {
            return Ok(frames.clone());
        }
        let py = self.py;
        let frames = PyList::empty(py);
        for (code, line) in &stack.0 {
            let frame = PyDict::new(py);
            frame.set_item(intern!(py, "name"), code.getattr(py, intern!(py, "co_name"))?)?;
            frame.set_item(intern!(py, "filename"), code.getattr(py, intern!(py, "co_filename"))?)?;
            frame.set_item(intern!(py, "line"), *line)?;
            frames.append(frame)?;
        }
        self.known.insert(key, frames.clone());
        Ok(frames)
    }
}

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python's becomes a vector")]
fn memory_record_history(events: bool, detail: Option<&str>, max_entries: usize, skip: Vec<String>, clear: bool) -> PyResult<()> {
    let detail = match detail {
        None => Detail::Never,
        Some("state") => Detail::State,
        Some("alloc") => Detail::Alloc,
        Some("all") => Detail::All,
        Some(other) => return Err(PyValueError::new_err(format!("context is None, 'state', 'alloc' or 'all', not {other:?}"))),
    };
    if let Some(name) = skip.iter().find(|name| !Action::NAMES.contains(&name.as_str())) {
        return Err(PyValueError::new_err(format!("skip_actions: there is no action {name:?}")));
    }
    let pools = pools::make_all()?;
    history::set_detail(detail);
    for pool in pools {
        pool.lock().history.configure(Recording { events, detail, max_entries, skip: skip.clone() }, clear);
    }
    Ok(())
}
