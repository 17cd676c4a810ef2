//! Guarded blocks: each allocation gets a guard after its bytes, and a freed block stays out of the pool, in the [`Quarantine`],
//! until newer ones displace it.
//!
//! Fills and checks are tasks on the block's own stream, so they run in stream order with the block's other tasks. Blocks of
//! private pools, blocks that other streams or processes use, and blocks of a capturing stream go back to the pool at once, because
//! their memory may still be in use after the free.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::{has_guards, place};
use crate::runtime::error::Cause;
use crate::runtime::memory::caching_pool::GENERAL;
use crate::runtime::memory::device_pool::DevicePool;
use crate::runtime::memory::label::Label;
use crate::runtime::memory::process_pools;
use crate::runtime::observers::{self, FILL};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{Arc, AtomicBool, LazyLock, Mutex, Ordering};
use crate::runtime::task::{Access, Closure, Task};
use crate::runtime::{Error, exit};

/// The least length of a guard in bytes; blocks are aligned to it, too.
const GUARD: usize = 512;
const GUARD_BYTE: u8 = 0xfa;
/// The value of the bytes of new and freed memory: NaN in every floating-point dtype, -1 in the signed integers.
const POISON_BYTE: u8 = 0xff;

/// The most bytes in the quarantine, over all devices.
const CAPACITY: usize = 16 << 20;

static BLOCKS: LazyLock<Mutex<Blocks>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Blocks {
    live: BTreeMap<usize, GuardedBlock>,
    freed: Quarantine,
}

/// A block of the general pool.
struct GuardedBlock {
    /// The requested bytes.
    bytes: usize,
    /// The requested bytes plus the guard.
    length: usize,
    stream: &'static Stream,
    /// The source line of the allocation.
    place: String,
    label: Option<Label>,
    /// Becomes true when the guard is written.
    guarded: Arc<AtomicBool>,
}

impl GuardedBlock {
    fn text(&self) -> String {
        let label = self.label.as_ref().map_or_else(String::new, |label| format!(" ({label})"));
        format!("a block of {} bytes{label}, allocated for {:?} at {}", self.bytes, self.stream, self.place)
    }
}

struct Freed {
    block: GuardedBlock,
    /// The source line of the free.
    place: String,
    /// Becomes true when its poison is written.
    poisoned: Arc<AtomicBool>,
}

#[derive(Default)]
struct Quarantine {
    order: VecDeque<usize>,
    blocks: BTreeMap<usize, Freed>,
    bytes: usize,
}

impl Quarantine {
    fn put(&mut self, address: usize, freed: Freed) {
        self.bytes += freed.block.length;
        self.order.push_back(address);
        self.blocks.insert(address, freed);
    }

    /// Removes the oldest block if the capacity is exceeded, or if `all` are to go.
    fn take(&mut self, all: bool) -> Option<(usize, Freed)> {
        if self.bytes <= if all { 0 } else { CAPACITY } {
            return None;
        }
        let address = self.order.pop_front()?;
        let freed = self.blocks.remove(&address)?;
        self.bytes -= freed.block.length;
        Some((address, freed))
    }

    /// A freed block that overlaps a range, with its address; the one with the highest address below the range's end.
    fn overlapping(&self, begin: usize, end: usize) -> Option<(usize, &Freed)> {
        let (&address, freed) = self.blocks.range(..end).next_back()?;
        (begin < address + freed.block.bytes).then_some((address, freed))
    }
}

/// As [`DevicePool::allocate`], and fills and guards the block as the mode asks.
pub fn allocate(pool: &'static DevicePool, stream: &'static Stream, source: u64, bytes: usize) -> Result<usize, Error> {
    let is_guarded = has_guards() && source == GENERAL && !stream.is_capturing();
    let length = if is_guarded { guarded_length(bytes) } else { bytes };
    let mut served = pool.allocate(stream, source, length);
    if served.is_err() && has_guards() {
        empty_quarantine();
        served = pool.allocate(stream, source, length);
    }
    let address = served?;
    if observers::has(FILL) {
        fill(stream, address..address + bytes, POISON_BYTE);
    }
    if is_guarded {
        let guarded = fill(stream, address + bytes..address + length, GUARD_BYTE);
        let block = GuardedBlock { bytes, length, stream, place: place(), label: None, guarded };
        BLOCKS.lock().live.insert(address, block);
    }
    Ok(address)
}

fn guarded_length(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(GUARD).map_or(bytes, |rounded| rounded.saturating_add(GUARD))
}

/// As [`DevicePool::free`], with the checks of guarded blocks.
pub fn free(pool: &'static DevicePool, address: usize) -> bool {
    let label = pool.lock().label(address);
    let Some(mut block) = BLOCKS.lock().live.remove(&address) else { return pool.free(address) };
    if exit::is_exiting() || block.stream.is_capturing() || pool.lock().is_shared(address) {
        return pool.free(address);
    }
    block.label = label;
    check_guard(address, &block);
    let poisoned = fill(block.stream, address..address + block.bytes, POISON_BYTE);
    BLOCKS.lock().freed.put(address, Freed { block, place: place(), poisoned });
    release(false);
    true
}

/// Returns every freed block to the pools.
pub fn empty_quarantine() {
    release(true);
}

fn release(all: bool) {
    loop {
        let Some((address, freed)) = BLOCKS.lock().freed.take(all) else { return };
        check_poison(address, freed);
        if let Some(pool) = process_pools::pool_of(address as *const u8) {
            pool.free(address);
        }
    }
}

/// Refuses a task that accesses freed memory. Fails with `InvalidArgument` and the source lines of the allocation and of the free.
pub fn check_accesses(task: &Task) -> Result<(), Error> {
    let blocks = BLOCKS.lock();
    let mut found = None;
    task.accesses(&mut |access: Access| {
        if access.begin < access.end && found.is_none() {
            found = blocks.freed.overlapping(access.begin, access.end).map(|(address, freed)| (access, address, freed));
        }
    });
    let Some((access, address, freed)) = found else { return Ok(()) };
    Err(Error::InvalidArgument(format!(
        "{} {} device memory that was freed: offset {} of {}, freed at {}. Keep the tensor alive for as long as its memory is used",
        task.name(),
        if access.write { "writes" } else { "reads" },
        access.begin.saturating_sub(address),
        freed.block.text(),
        freed.place,
    )))
}

/// Describes an address, as the end of a sentence. `None` if the address is unknown or another thread holds the lock.
pub fn describe(address: usize) -> Option<String> {
    let blocks = BLOCKS.try_lock()?;
    if let Some((start, freed)) = blocks.freed.overlapping(address, address + 1) {
        return Some(format!("byte {} of {}, freed at {}", address - start, freed.block.text(), freed.place));
    }
    let (start, block) = blocks.live.range(..=address).next_back()?;
    Some(format!("byte {} of {}", address - start, block.text()))
}

/// Fills a range on a stream; returns what becomes true when it is filled. A failed stream skips the fill.
fn fill(stream: &'static Stream, range: Range<usize>, value: u8) -> Arc<AtomicBool> {
    let done = Arc::new(AtomicBool::new(false));
    let filled = Arc::clone(&done);
    submit(stream, "memory_fill", &range.clone(), true, move || {
        // SAFETY: the range is part of a block that the submitter holds, or keeps in quarantine, until the stream has passed this
        // task.
        unsafe { std::ptr::write_bytes(range.start as *mut u8, value, range.len()) };
        filled.store(true, Ordering::Relaxed);
        Ok(())
    });
    done
}

fn check_guard(address: usize, block: &GuardedBlock) {
    let text = block.text();
    let (bytes, place) = (block.bytes, place());
    let range = address + block.bytes..address + block.length;
    check(block.stream, range, GUARD_BYTE, Arc::clone(&block.guarded), move |offset| {
        format!("byte {} of {text} was written, past its end; found when it was freed at {place}", bytes + offset)
    });
}

fn check_poison(address: usize, Freed { block, place, poisoned }: Freed) {
    if exit::is_exiting() || block.stream.is_capturing() {
        return;
    }
    check(block.stream, address..address + block.bytes, POISON_BYTE, poisoned, move |offset| {
        let text = block.text();
        format!(
            "byte {offset} of {text} was written after it was freed at {place}. Keep the tensor alive for as long as its memory is used"
        )
    });
}

/// Puts a task on a stream that fails if a range, once it is `filled`, contains another byte than `value`. `finding` makes the
/// failure's text from the offset of the first one.
fn check(
    stream: &'static Stream,
    range: Range<usize>,
    value: u8,
    filled: Arc<AtomicBool>,
    finding: impl Fn(usize) -> String + Send + 'static,
) {
    submit(stream, "memory_check", &range.clone(), false, move || {
        if !filled.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: as in `fill`.
        let bytes = unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) };
        bytes.iter().position(|byte| *byte != value).map_or(Ok(()), |offset| Err(finding(offset).into()))
    });
}

/// Submits a fill or a check. A failure of the submission is a failure of the capture, which the program learns of anyway.
fn submit(
    stream: &'static Stream,
    name: &'static str,
    range: &Range<usize>,
    write: bool,
    body: impl FnMut() -> Result<(), Cause> + Send + 'static,
) {
    let access = Access { begin: range.start, end: range.end, write };
    let _ = stream.submit(Task::new(name, 0, Closure::with_access(access, body)));
}
