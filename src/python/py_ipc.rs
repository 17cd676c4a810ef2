//! Memory and events that processes share, for `rustdev/multiprocessing.py` and `rustdev/streams.py`. Handles are bytes.

use std::ptr::with_exposed_provenance;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::abi::rd_event::rd_event;
use crate::abi::rd_ipc::rd_received;
use crate::runtime::shared::file::Place;
use crate::runtime::shared::received::{self, Received};
use crate::runtime::shared::sends::{self, Shared};
use crate::runtime::{Error, fork};

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions!(module: ipc_send, ipc_receive, ipc_give_back, ipc_cancel, ipc_collect, event_share, event_open)
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of<const N: usize>(handle: &[u8]) -> PyResult<[u64; N]> {
    let (words, rest) = handle.as_chunks::<8>();
    let words = words.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect::<Vec<_>>();
    match <[u64; N]>::try_from(words) {
        Ok(words) if rest.is_empty() => Ok(words),
        _ => Err(PyValueError::new_err(format!("a handle of rustdev has {} bytes, not {}", N * 8, handle.len()))),
    }
}

#[pyfunction]
fn ipc_send(py: Python<'_>, address: usize) -> Result<Option<(Vec<u8>, u64)>, Error> {
    let sent = py.detach(|| sends::send(address))?;
    Ok(sent.map(|(shared, number)| (bytes_of(&shared.words()), number)))
}

#[pyfunction]
fn ipc_receive(py: Python<'_>, handle: &[u8], number: u64) -> PyResult<(usize, usize)> {
    fork::check()?;
    let shared = Shared::of_words(words_of(handle)?);
    let received = py.detach(|| Received::new(shared, number))?;
    Ok((received.address(), rd_received::hand_over(received).expose_provenance()))
}

#[pyfunction]
fn ipc_give_back(handle: &[u8], number: u64) -> PyResult<()> {
    fork::check()?;
    Ok(received::give_back(&Shared::of_words(words_of(handle)?), number)?)
}

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python's becomes a vector")]
fn ipc_cancel(numbers: Vec<u64>) {
    sends::cancel(&numbers);
}

#[pyfunction]
fn ipc_collect(py: Python<'_>) {
    py.detach(sends::collect);
}

#[pyfunction]
fn event_share(py: Python<'_>, event: usize, records: bool) -> PyResult<Vec<u8>> {
    fork::check()?;
    // SAFETY: `rustdev/streams.py` passes the id of an Event object that it holds, which keeps its event until it goes itself.
    let event = unsafe { &*with_exposed_provenance::<rd_event>(event) };
    let place = py.detach(|| event.0.share(records))?;
    Ok(bytes_of(&place.words()))
}

#[pyfunction]
fn event_open(event: usize, handle: &[u8]) -> PyResult<()> {
    let place = Place::of_words(words_of(handle)?);
    // SAFETY: as in `event_share`.
    let event = unsafe { &*with_exposed_provenance::<rd_event>(event) };
    Ok(event.0.open(place)?)
}
