//! Which pool the memory comes from that a thread asks for: the general one, that of a graph, or one that the program chose.
//!
//! A program chooses a private pool for the memory of one device and one thread, until it takes the choice back. Choices nest, and the
//! last one counts; a capture that began after it counts more. What a graph takes from a chosen pool keeps that pool in use.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::runtime::memory::caching_pool::GENERAL;
use crate::runtime::pools::private_pool::PrivatePool;
use crate::runtime::stream::Stream;
use crate::runtime::{Error, device};

/// How many choices are in force, of all threads.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The choices of this thread, the last one at the end.
    static CHOICES: RefCell<Vec<Choice>> = const { RefCell::new(Vec::new()) };
}

struct Choice {
    device: usize,
    pool: PrivatePool,
    /// The pool of the capture that the thread's stream took part in then, or the general one.
    within: u64,
}

impl Drop for Choice {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Takes this thread's memory of a device from the pool of that number, until [`restore`].
///
/// # Errors
/// As [`device::get`].
pub fn choose(device: usize, number: u64) -> Result<(), Error> {
    device::get(device)?;
    COUNT.fetch_add(1, Ordering::Relaxed);
    let choice = Choice { device, pool: PrivatePool::new(number), within: device::current_stream(device).private_pool() };
    CHOICES.with_borrow_mut(|choices| choices.push(choice));
    Ok(())
}

/// Takes back this thread's last choice of that pool for the device.
///
/// # Errors
/// `InvalidArgument` if there is none.
pub fn restore(device: usize, number: u64) -> Result<(), Error> {
    let is_it = |choice: &Choice| choice.device == device && choice.pool.number() == number;
    // Dropped after the list was given up.
    let choice = CHOICES.with_borrow_mut(|choices| choices.iter().rposition(is_it).map(|place| choices.remove(place)));
    choice.map(drop).ok_or_else(|| {
        Error::InvalidArgument(format!("use_mem_pool: this thread's memory of rustdev:{device} does not come from pool {number}"))
    })
}

/// The number of the pool that memory for a stream comes from when this thread asks.
#[inline]
pub fn source(stream: &Stream) -> u64 {
    // A thread sees its own choices counted.
    if COUNT.load(Ordering::Relaxed) == 0 { stream.private_pool() } else { chosen(stream) }
}

#[cold]
fn chosen(stream: &Stream) -> u64 {
    let capture = stream.capture();
    let own = capture.as_ref().map_or(GENERAL, |capture| capture.pool());
    let last = CHOICES.with_borrow(|choices| {
        let choice = choices.iter().rfind(|choice| choice.device == stream.device())?;
        Some((choice.pool.number(), choice.within))
    });
    match (last, capture) {
        (Some((number, _)), None) => number,
        (Some((number, within)), Some(capture)) if within == own => {
            capture.retain(number);
            number
        }
        _ => own,
    }
}
