//! Received memory: mapped segments of other processes, and the counters that tell the senders when this process is done.
//!
//! A segment is mapped once, into the device's own range, and unmapped with its last tensor. A send is returned when its tensor has
//! been released and all tasks that were queued by then are done.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io;

use super::super::name::{Device, name};
use super::counters::Receipts;
use super::file::Place;
use super::sends::Shared;
use crate::runtime::pools;
use crate::runtime::stream::{Stream, registry};
use crate::runtime::sync::{Arc, LazyLock, Mutex};
use crate::runtime::task::{Closure, Task};
use crate::runtime::{Error, device, exit};

/// A mapped segment, and the number of its sends that this process holds.
struct Segment {
    address: usize,
    users: usize,
}

#[derive(Default)]
struct State {
    /// Segments by device and file.
    segments: HashMap<(usize, Place), Segment>,
    /// Counters by file, each with the number of its sends that this process holds.
    receipts: HashMap<Place, (Arc<Receipts>, usize)>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

impl State {
    fn receipts(&mut self, place: Place) -> io::Result<Arc<Receipts>> {
        if let Some((receipts, _)) = self.receipts.get(&place) {
            return Ok(Arc::clone(receipts));
        }
        let receipts = Arc::new(Receipts::open(place)?);
        self.receipts.insert(place, (Arc::clone(&receipts), 0));
        Ok(receipts)
    }

    fn forget_receipts(&mut self, place: Place) {
        if self.receipts.get(&place).is_some_and(|(_, users)| *users == 0) {
            self.receipts.remove(&place);
        }
    }

    /// Maps a segment unless it is mapped already; returns its address.
    fn map(&mut self, shared: &Shared) -> Result<usize, Error> {
        let key = (shared.device, shared.file);
        if let Some(segment) = self.segments.get_mut(&key) {
            segment.users += 1;
            return Ok(segment.address);
        }
        let pool = pools::pool(shared.device)?;
        let file = shared.file.open().map_err(|error| gone(shared, &error))?;
        let is_whole = file.metadata().is_ok_and(|facts| facts.len() == shared.size as u64);
        if !is_whole {
            return Err(Error::Internal("a shared segment has another size than its sender says".to_owned()));
        }
        let address = pool.map_foreign(&file, shared.size).map_err(|error| {
            let text = format!("no room for {} bytes of another process on device {}: {error}", shared.size, Device(shared.device));
            Error::OutOfMemory(text)
        })?;
        self.segments.insert(key, Segment { address, users: 1 });
        Ok(address)
    }

    fn unmap(&mut self, shared: &Shared) {
        let key = (shared.device, shared.file);
        let Some(segment) = self.segments.get_mut(&key) else { return };
        segment.users -= 1;
        if segment.users == 0 {
            if let Ok(pool) = pools::pool(shared.device) {
                pool.lock().unmap_foreign(segment.address);
            }
            self.segments.remove(&key);
        }
    }
}

fn gone(shared: &Shared, error: &io::Error) -> Error {
    let process = shared.file.process.id;
    let text = match error.kind() {
        io::ErrorKind::AlreadyExists => format!("the message with a {} tensor was received before", name()),
        io::ErrorKind::NotFound => format!(
            "process {process}, which sent a {} tensor, has ended, or taken it back: a process that sends has to run until the tensor \
             is received",
            name()
        ),
        _ => format!("a {} tensor of process {process} cannot be received: {error}", name()),
    };
    Error::InvalidArgument(text)
}

/// A send that this process holds. It may outlive the tensor until the tasks that use the memory are done.
#[derive(Debug)]
pub struct Received {
    shared: Shared,
    number: u64,
    receipts: Arc<Receipts>,
    address: usize,
}

impl Received {
    /// Receives a send. Fails with `InvalidArgument` if its sender has ended, if it was received before, and for a device that this
    /// process does not have; `OutOfMemory` if there is no room for it.
    pub fn new(shared: Shared, number: u64) -> Result<Self, Error> {
        device::get(shared.device)?;
        let mut state = STATE.lock();
        let receipts = state.receipts(shared.counters).map_err(|error| gone(&shared, &error))?;
        let mapped = receipts.receive(number).map_err(|error| gone(&shared, &error)).and_then(|()| {
            // If the mapping fails, the send is returned, because nobody else can receive it.
            state.map(&shared).inspect_err(|_| receipts.give_back(number))
        });
        let address = match mapped {
            Ok(address) => address,
            Err(error) => {
                state.forget_receipts(shared.counters);
                return Err(error);
            }
        };
        if let Some((_, users)) = state.receipts.get_mut(&shared.counters) {
            *users += 1;
        }
        Ok(Self { shared, number, receipts, address })
    }

    /// The address of the memory in this process.
    pub fn address(&self) -> usize {
        self.address + self.shared.offset
    }

    /// Releases the send when every task that is queued now is done.
    pub fn let_go(self) {
        if exit::is_exiting() {
            // At exit tasks are abandoned; the sender detects the end of this process.
            std::mem::forget(self);
            return;
        }
        let held = Arc::new(self);
        for stream in registry::streams().filter(|stream| is_busy(stream)) {
            let held = Arc::clone(&held);
            // The drop of the task releases the send; it happens even if the stream has failed.
            let keep = Closure::new(move || {
                let _ = &held;
                Ok(())
            });
            let _ = stream.enqueue(Task::new("let_go", 0, keep), false);
        }
    }
}

fn is_busy(stream: &Stream) -> bool {
    let submitted = stream.submitted();
    stream.completed() < submitted
}

impl Drop for Received {
    fn drop(&mut self) {
        let mut state = STATE.lock();
        state.unmap(&self.shared);
        self.receipts.give_back(self.number);
        if let Some((_, users)) = state.receipts.get_mut(&self.shared.counters) {
            *users -= 1;
        }
        state.forget_receipts(self.shared.counters);
    }
}

/// Returns a send whose memory this process has received already. Fails with `InvalidArgument` as for [`Received::new`].
pub fn give_back(shared: &Shared, number: u64) -> Result<(), Error> {
    let mut state = STATE.lock();
    let receipts = state.receipts(shared.counters).map_err(|error| gone(shared, &error))?;
    let received = receipts.receive(number).map_err(|error| gone(shared, &error));
    if received.is_ok() {
        receipts.give_back(number);
    }
    state.forget_receipts(shared.counters);
    received
}
