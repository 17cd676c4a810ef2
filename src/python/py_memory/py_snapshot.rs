//! Snapshots with the structure of `torch.cuda.memory._snapshot`, for PyTorch's memory_viz.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::{Bound, intern};

use super::py_recording::Frames;
use crate::runtime::config::config;
use crate::runtime::memory::block::State;
use crate::runtime::memory::history::{Action, Detail, Entry, capture};
use crate::runtime::memory::snapshot::{BlockSnapshot, SegmentSnapshot};
use crate::runtime::name::variable;
use crate::runtime::{fork, pools};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: memory_snapshot, memory_traceback)
}

#[pyfunction]
fn memory_snapshot(py: Python<'_>, traces: bool) -> PyResult<Bound<'_, PyDict>> {
    fork::check()?;
    let context = capture(Detail::State);
    let mut frames = Frames::new(py);
    let (segments, device_traces) = (PyList::empty(py), PyList::empty(py));
    for (device, pool) in pools::all().iter().enumerate() {
        let snapshot = pool.snapshot(context.as_ref());
        for segment in &snapshot.segments {
            segments.append(self::segment(py, device, segment, &mut frames)?)?;
        }
        let entries = PyList::empty(py);
        for entry in snapshot.entries.iter().filter(|_| traces) {
            entries.append(self::entry(py, entry, &mut frames)?)?;
        }
        device_traces.append(entries)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("segments", segments)?;
    dict.set_item("device_traces", device_traces)?;
    dict.set_item("allocator_settings", settings(py)?)?;
    dict.set_item("external_annotations", PyList::empty(py))?;
    Ok(dict)
}

#[pyfunction]
fn memory_traceback(py: Python<'_>, address: usize) -> PyResult<Option<Bound<'_, PyList>>> {
    fork::check()?;
    let pool = pools::all().iter().find(|pool| pool.contains(address));
    match pool.and_then(|pool| pool.context(address)) {
        Some(context) => Frames::new(py).of(Some(&context)).map(Some),
        None => Ok(None),
    }
}

fn segment<'py>(
    py: Python<'py>,
    device: usize,
    segment: &SegmentSnapshot,
    frames: &mut Frames<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let sum = |counts: fn(&BlockSnapshot) -> usize| segment.blocks.iter().map(counts).sum::<usize>();
    let blocks = PyList::empty(py);
    for block in &segment.blocks {
        blocks.append(self::block(py, block, frames)?)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("device", device)?;
    dict.set_item("address", segment.address)?;
    dict.set_item("total_size", segment.size)?;
    dict.set_item("allocated_size", sum(|block| if block.state == State::Allocated { block.size } else { 0 }))?;
    dict.set_item("active_size", sum(|block| if block.state == State::Free { 0 } else { block.size }))?;
    dict.set_item("requested_size", sum(|block| block.requested))?;
    dict.set_item("stream", segment.stream)?;
    dict.set_item("segment_type", if segment.large { "large" } else { "small" })?;
    dict.set_item("segment_pool_id", (0, segment.pool))?;
    dict.set_item("is_expandable", false)?;
    dict.set_item("frames", frames.of(segment.context.as_ref())?)?;
    dict.set_item("blocks", blocks)?;
    Ok(dict)
}

fn block<'py>(py: Python<'py>, block: &BlockSnapshot, frames: &mut Frames<'py>) -> PyResult<Bound<'py, PyDict>> {
    let state = match block.state {
        State::Allocated => intern!(py, "active_allocated"),
        State::Pending | State::InFrontCache => intern!(py, "active_awaiting_free"),
        State::Free | State::Vacant => intern!(py, "inactive"),
    };
    let dict = PyDict::new(py);
    dict.set_item("address", block.address)?;
    dict.set_item("size", block.size)?;
    dict.set_item("requested_size", block.requested)?;
    dict.set_item("state", state)?;
    dict.set_item("frames", frames.of(block.context.as_ref())?)?;
    if let Some(label) = &block.label {
        dict.set_item("label", &**label)?;
    }
    Ok(dict)
}

fn entry<'py>(py: Python<'py>, entry: &Entry, frames: &mut Frames<'py>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("action", entry.action.name())?;
    dict.set_item(if entry.action == Action::OutOfMemory { "device_free" } else { "addr" }, entry.address)?;
    dict.set_item("size", entry.size)?;
    dict.set_item("stream", entry.stream)?;
    dict.set_item("time_us", entry.time)?;
    dict.set_item("pool_id", (0, 0))?;
    dict.set_item("frames", frames.of(entry.context.as_ref())?)?;
    Ok(dict)
}

fn settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let conf = &config().alloc_conf;
    let dict = PyDict::new(py);
    dict.set_item(
        "PYTORCH_ALLOC_CONF",
        std::env::var(variable("ALLOC_CONF")).or_else(|_| std::env::var("PYTORCH_ALLOC_CONF")).unwrap_or_default(),
    )?;
    dict.set_item("max_split_size", conf.max_split_size.and_then(|size| i64::try_from(size).ok()).unwrap_or(-1))?;
    dict.set_item("garbage_collection_threshold", conf.garbage_collection_threshold.unwrap_or(0.0))?;
    dict.set_item("expandable_segments", false)?;
    Ok(dict)
}
