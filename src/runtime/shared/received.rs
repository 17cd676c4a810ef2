//! Received memory: mapped segments of other processes, and the counters that tell the senders when this process is done.
//!
//! A segment is mapped once, into the device's own range, and unmapped with its last tensor. A send is returned when its tensor has
//! been released and all tasks that were queued by then are done.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Weak;

use super::super::name::{Device, name};
use super::counters::Receipts;
use super::file::Place;
use super::sends::Shared;
use crate::runtime::pools;
use crate::runtime::stream::{Stream, registry};
use crate::runtime::sync::{Arc, LazyLock, Mutex};
use crate::runtime::task::{Closure, Task};
use crate::runtime::{Error, device, exit};

/// What several sends use, by its key; it ends with the last of them.
type Common<K, T> = LazyLock<Mutex<HashMap<K, Weak<T>>>>;

/// Segments by device and file.
static SEGMENTS: Common<(usize, Place), Segment> = LazyLock::new(Mutex::default);
/// Counters by file.
static RECEIPTS: Common<Place, Receipts> = LazyLock::new(Mutex::default);

/// The value of a key: the one in use, or a new one.
fn common<K: Eq + Hash, T, E>(known: &Common<K, T>, key: K, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
    let mut known = known.lock();
    if let Some(value) = known.get(&key).and_then(Weak::upgrade) {
        return Ok(value);
    }
    let value = Arc::new(make()?);
    known.retain(|_, other| other.strong_count() > 0);
    known.insert(key, Arc::downgrade(&value));
    Ok(value)
}

#[derive(Debug)]
struct Segment {
    device: usize,
    address: usize,
}

impl Segment {
    fn map(shared: &Shared) -> Result<Self, Error> {
        let pool = pools::pool(shared.device)?;
        let file = shared.file.open().map_err(|error| gone(shared, &error))?;
        let is_whole = file.metadata().is_ok_and(|facts| facts.len() == shared.size as u64);
        if !is_whole {
            return Err(Error::Internal("a shared segment has another size than its sender says".to_owned()));
        }
        let address = pool.lock().map_foreign(&file, shared.size).map_err(|error| {
            let text = format!("no room for {} bytes of another process on device {}: {error}", shared.size, Device(shared.device));
            Error::OutOfMemory(text)
        })?;
        Ok(Self { device: shared.device, address })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Ok(pool) = pools::pool(self.device) {
            pool.lock().unmap_foreign(self.address);
        }
    }
}

/// A send that was received, and is returned when this is dropped.
#[derive(Debug)]
struct Held {
    number: u64,
    receipts: Arc<Receipts>,
}

impl Held {
    fn receive(shared: &Shared, number: u64) -> Result<Self, Error> {
        let receipts = common(&RECEIPTS, shared.counters, || Receipts::open(shared.counters));
        let received = receipts.and_then(|receipts| receipts.receive(number).map(|()| Self { number, receipts }));
        received.map_err(|error| gone(shared, &error))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.receipts.give_back(self.number);
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
    segment: Arc<Segment>,
    /// The bytes before the tensor in the segment.
    offset: usize,
    /// Dropped last: the sender may use the memory, and the name of its file, for something else.
    _held: Held,
}

impl Received {
    /// Receives a send. Fails with `InvalidArgument` if its sender has ended, if it was received before, and for a device that this
    /// process does not have; `OutOfMemory` if there is no room for it.
    pub fn new(shared: Shared, number: u64) -> Result<Self, Error> {
        device::get(shared.device)?;
        // If the mapping fails, the send is returned, because nobody else can receive it.
        let held = Held::receive(&shared, number)?;
        let segment = common(&SEGMENTS, (shared.device, shared.file), || Segment::map(&shared))?;
        Ok(Self { segment, offset: shared.offset, _held: held })
    }

    /// The address of the memory in this process.
    pub fn address(&self) -> usize {
        self.segment.address + self.offset
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

/// Returns a send whose memory this process has received already. Fails with `InvalidArgument` as for [`Received::new`].
pub fn give_back(shared: &Shared, number: u64) -> Result<(), Error> {
    Held::receive(shared, number).map(drop)
}
