//! Routes: which pool serves an allocation of a thread, the general one, a graph's, or one that the program chose.
//!
//! A program chooses a private pool for one device and one thread, until it revokes the choice. Choices nest, and the last one
//! wins, unless a capture began after it. A graph that allocates from a chosen pool keeps that pool in use.

use std::cell::RefCell;

use super::super::name::Device;
use crate::runtime::memory::caching_pool::GENERAL;
use crate::runtime::open_loops::Counted;
use crate::runtime::pools::private_pool::PrivatePool;
use crate::runtime::stream::Stream;
use crate::runtime::sync::{AtomicUsize, Ordering};
use crate::runtime::{Error, device};

/// The number of choices in force, over all threads.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The choices of this thread, the latest at the end.
    static CHOICES: RefCell<Vec<Choice>> = const { RefCell::new(Vec::new()) };
}

struct Choice {
    device: usize,
    pool: PrivatePool,
    /// The pool of the capture that the thread's stream was in at the choice, or the general pool.
    within: u64,
    _counted: Counted,
}

/// Makes this thread's allocations on a device use the pool of that number, until [`restore`].
pub fn choose(device: usize, number: u64) -> Result<(), Error> {
    device::get(device)?;
    let (pool, within) = (PrivatePool::new(number), device::current_stream(device).private_pool());
    let choice = Choice { device, pool, within, _counted: Counted::new(&COUNT) };
    CHOICES.with_borrow_mut(|choices| choices.push(choice));
    Ok(())
}

/// Revokes this thread's last choice of that pool for the device. Fails with `InvalidArgument` if there is none.
pub fn restore(device: usize, number: u64) -> Result<(), Error> {
    let is_it = |choice: &Choice| choice.device == device && choice.pool.number() == number;
    // Dropped after the borrow of the list has ended.
    let choice = CHOICES.with_borrow_mut(|choices| choices.iter().rposition(is_it).map(|place| choices.remove(place)));
    choice.map(drop).ok_or_else(|| {
        Error::InvalidArgument(format!("use_mem_pool: this thread's memory of {} does not come from pool {number}", Device(device)))
    })
}

/// The number of the pool that serves allocations of this thread for a stream.
#[inline]
pub fn source(stream: &Stream) -> u64 {
    // Relaxed is enough: a thread sees its own increments.
    if COUNT.load(Ordering::Relaxed) == 0 { stream.private_pool() } else { chosen(stream) }
}

#[cold]
fn chosen(stream: &Stream) -> u64 {
    let recorder = stream.recorder();
    let own = recorder.as_ref().map_or(GENERAL, |recorder| recorder.pool());
    let last = CHOICES.with_borrow(|choices| {
        let choice = choices.iter().rfind(|choice| choice.device == stream.device())?;
        Some((choice.pool.number(), choice.within))
    });
    match (last, recorder) {
        (Some((number, _)), None) => number,
        (Some((number, within)), Some(recorder)) if within == own => {
            recorder.retain(number);
            number
        }
        _ => own,
    }
}
