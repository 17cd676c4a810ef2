//! Sends of this process: converts memory to a shared file, and tracks each send until it is over.

use std::io::ErrorKind;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::super::name::name;
use super::counters::Counters;
use super::file::{self, Place};
use super::hold_streams;
use super::process::Process;
use crate::runtime::memory::device_pool::DevicePool;
use crate::runtime::memory::sent::Whereabouts;
use crate::runtime::sync::{Arc, OnceLock};
use crate::runtime::{Error, device, fork, gate, pools};

/// How long a send waits for host threads that write to the segment.
const PATIENCE: Duration = Duration::from_millis(100);

/// A block of this process: its device and address.
type SentBlock = (usize, usize);

static COUNTERS: OnceLock<Result<Counters<SentBlock>, Error>> = OnceLock::new();

fn counters() -> Result<&'static Counters<SentBlock>, Error> {
    let made = COUNTERS.get_or_init(|| {
        _ = pools::COLLECTOR.set(collect);
        Process::current().and_then(Counters::new).map_err(|error| cannot_share(&error))
    });
    made.as_ref().map_err(Clone::clone)
}

/// The description of sent memory for the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The index of the device, in both processes.
    pub device: usize,
    /// The file that backs its segment.
    pub file: Place,
    /// The size of the segment.
    pub size: usize,
    /// The offset of the memory in the segment.
    pub offset: usize,
    /// The file with the sender's counters.
    pub counters: Place,
}

impl Shared {
    /// The length of the description in words.
    pub const WORDS: usize = 3 + 2 * Place::WORDS;

    pub fn words(&self) -> [u64; Self::WORDS] {
        let mut words = [0; Self::WORDS];
        words[..3].copy_from_slice(&[self.device as u64, self.size as u64, self.offset as u64]);
        words[3..3 + Place::WORDS].copy_from_slice(&self.file.words());
        words[3 + Place::WORDS..].copy_from_slice(&self.counters.words());
        words
    }

    pub fn of_words(words: [u64; Self::WORDS]) -> Self {
        let [device, size, offset, file @ .., a, b, c, d] = words;
        let file = Place::of_words(file);
        Self {
            device: device as usize,
            file,
            size: size as usize,
            offset: offset as usize,
            counters: Place::of_words([a, b, c, d]),
        }
    }
}

/// Sends the memory at an address: converts its segment to a file, waits for the queued tasks of the streams that use it, and
/// counts the send. `None`: other host threads write to the segment, so it cannot be converted now. Fails with `InvalidArgument`
/// for memory that does not belong to a pool of this process, in a forked child, and while the current stream captures;
/// `OutOfMemory` if the system refuses a file; the failure of a task of the current stream.
pub fn send(address: usize) -> Result<Option<(Shared, u64)>, Error> {
    fork::check()?;
    let counters = counters()?;
    collect();
    let device = pools::device_of(address as *const u8)
        .ok_or_else(|| Error::InvalidArgument("only memory of the device can be sent to another process".to_owned()))?;
    let pool = pools::pool(device)?;
    if pool.lock().is_foreign(address) {
        return Err(Error::InvalidArgument(format!(
            "a {} tensor that was received from another process cannot be sent on: send a clone() of it",
            name()
        )));
    }
    let find = || {
        pool.lock()
            .whereabouts(address)
            .ok_or_else(|| Error::InvalidArgument(format!("no live block of device memory holds {address:#x}")))
    };
    let found = find()?;
    device::current_stream(device).synchronize_for(|| "sending a tensor to another process".to_owned())?;
    found.timelines.iter().for_each(|timeline| timeline.finish());
    if found.file.is_none() && !share(pool, &found)? {
        return Ok(None);
    }
    let Whereabouts { block, segment: (start, size), file, .. } = find()?;
    let file = file.ok_or_else(|| Error::Internal("a shared segment has no file".to_owned()))?;
    let file = Process::current().and_then(|process| Place::of(&file, process)).map_err(|error| cannot_share(&error))?;
    let number = counters.send((device, block));
    let number = number.ok_or_else(|| Error::InvalidArgument("other processes hold too many tensors of this one".to_owned()))?;
    pool.lock().send(block);
    Ok(Some((Shared { device, file, size, offset: address - start, counters: counters.place }, number)))
}

fn cannot_share(error: &std::io::Error) -> Error {
    Error::Internal(format!("memory cannot be shared with other processes: {error}"))
}

/// Converts a segment's memory to a file; `false` if host threads keep writing to it.
fn share(pool: &DevicePool, found: &Whereabouts) -> Result<bool, Error> {
    let (start, size) = found.segment;
    let range: Range<usize> = start..start + size;
    let refused = |error: std::io::Error| {
        let text =
            format!("the system refuses {size} bytes of shared memory for a tensor that is sent to another process: {error}");
        if error.kind() == ErrorKind::OutOfMemory { Error::OutOfMemory(text) } else { Error::InvalidArgument(text) }
    };
    let file = Arc::new(file::create(c"rustdev", size).map_err(refused)?);
    let outcome = hold_streams::alone(Instant::now() + PATIENCE, || {
        if gate::is_written(&range) {
            return Ok(false);
        }
        // SAFETY: all streams are stopped, nobody holds a pass, and no noted writer of the segment is active. Device memory has no
        // other writers except foreign libraries that were given its address, and their users must order those accesses.
        unsafe { pool.lock().replace(start, file) }.map(|()| true)
    })?;
    outcome.unwrap_or(Ok(false)).map_err(refused)
}

/// Frees sent blocks that no other process uses: their receivers returned them or have ended.
pub fn collect() {
    if let Some(Ok(counters)) = COUNTERS.get()
        && !fork::is_child()
    {
        for (device, block) in counters.take_over() {
            if let Ok(pool) = pools::pool(device) {
                pool.lock().end_send(block);
            }
        }
    }
}

/// Cancels sends that nobody has received or will receive; no effect on received ones.
pub fn cancel(numbers: &[u64]) {
    if let Some(Ok(counters)) = COUNTERS.get() {
        for &number in numbers {
            counters.cancel(number);
        }
    }
}
