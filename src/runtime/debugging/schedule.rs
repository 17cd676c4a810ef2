//! Unlikely orders: which task runs next is chosen so that a missing wait between streams shows.
//!
//! While an order is on, no compute thread drains a stream. Tasks run on the thread that submits or waits, serially, so that a
//! program of one thread meets the same order each time; only callbacks have threads of their own. A sleep takes the time of the thread that
//! runs it.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use super::{DebugMode, is_on as is_mode_on, set};
use crate::runtime::config::order::{Order, open_log};
use crate::runtime::stream::Stream;
use crate::runtime::sync::{self, Mutex, unlocked};
use crate::runtime::task::Drained;
use crate::runtime::{Error, device, exit, rng};

/// How long a wait that finds nothing to run keeps to what it needs.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long a sleeping thread takes to see that the process ends.
const NAP: Duration = Duration::from_millis(50);

/// The order that is on.
static CURRENT: Mutex<Option<(Order, Draws)>> = Mutex::new(None);
static LOG: Mutex<Option<File>> = Mutex::new(None);

/// Whether an order is on.
#[inline]
pub(in crate::runtime) fn is_on() -> bool {
    is_mode_on(DebugMode::Schedule)
}

/// Turns an order on, when the runtime starts.
pub(super) fn begin(order: Order, log: Option<&str>) {
    *LOG.lock() = log.and_then(|path| open_log(path).ok());
    install(Some(order));
}

fn install(order: Option<Order>) {
    let mut current = CURRENT.lock();
    *current = order.map(|order| (order, Draws::new(order)));
    set(DebugMode::Schedule, order.is_some());
}

/// Turns another order on, or none, after everything that was submitted is done; the one before. Failures stay for the streams' next
/// synchronising calls.
///
/// # Errors
/// `TaskFailed` if a stream is stuck.
pub fn switch(order: Option<Order>) -> Result<Option<Order>, Error> {
    let streams = || device::all().iter().flat_map(device::Device::streams);
    streams().try_for_each(Stream::finish)?;
    let before = CURRENT.lock().as_ref().map(|(order, _)| *order);
    install(order);
    if order.is_none() {
        streams().for_each(Stream::hand_over);
    }
    Ok(before)
}

/// What a random order draws from.
struct Draws {
    seed: u64,
    count: u64,
    /// Of 8 submissions, so many let a task run, and so on after each task.
    hurry: u32,
    /// Of 16 tasks, so many change the rank of their stream.
    change: u32,
    /// The stream of the highest rank goes first.
    ranks: HashMap<(usize, i64), u32>,
}

impl Draws {
    fn new(order: Order) -> Self {
        let seed = if let Order::Random(seed) = order { seed } else { 0 };
        let mut draws = Self { seed, count: 0, hurry: 0, change: 0, ranks: HashMap::new() };
        // Few changes find tasks that come much too late, many find neighbours that are exchanged.
        draws.hurry = [0, 1, 4, 7][draws.below(4) as usize];
        draws.change = [0, 1, 8, 16][draws.below(4) as usize];
        draws
    }

    fn next(&mut self) -> u32 {
        self.count += 1;
        rng::block(self.seed, self.count, 0)[0]
    }

    fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next()) * u64::from(bound)) >> 32) as u32
    }

    /// One of some streams, of which there is at least one.
    fn choose(&mut self, ready: &[&'static Stream]) -> &'static Stream {
        for stream in ready {
            if !self.ranks.contains_key(&key(stream)) {
                let rank = self.next();
                self.ranks.insert(key(stream), rank);
            }
        }
        let chosen = ready.iter().max_by_key(|stream| self.ranks[&key(stream)]).copied().unwrap_or(ready[0]);
        if self.below(16) < self.change {
            self.ranks.remove(&key(chosen));
        }
        chosen
    }
}

fn key(stream: &Stream) -> (usize, i64) {
    (stream.device(), stream.id())
}

/// The streams that could go on.
fn ready() -> Vec<&'static Stream> {
    device::all().iter().flat_map(device::Device::streams).filter(|stream| stream.is_ready()).collect()
}

fn order() -> Option<Order> {
    CURRENT.lock().as_ref().map(|(order, _)| *order)
}

/// Runs what may run once a task was put on a stream.
pub(in crate::runtime) fn after_submission() {
    match order() {
        Some(Order::Eager) => _ = run_all(),
        Some(Order::Random(_)) => while hurries() && run_one() {},
        _ => {}
    }
}

/// Runs something of what is needed until so many tasks of a stream are done; returns whether there was anything to run. `idle`: for how
/// long there was not. A callback that ends so late may wait for a task that nobody has waited for.
pub(in crate::runtime) fn help(stream: &'static dyn Drained, target: u64, idle: Duration) -> bool {
    match order() {
        Some(Order::Eager) => run_all(),
        Some(Order::Random(_) | Order::ReversePriority) => run_one(),
        Some(Order::Lazy) if idle > PATIENCE => run_one(),
        Some(Order::Lazy) | None => stream.help_until(target),
    }
}

/// Lets a program that asks again and again whether something is done get on.
pub(in crate::runtime) fn after_query(stream: &'static dyn Drained) {
    help(stream, stream.completed() + 1, Duration::ZERO);
    after_submission();
}

/// Runs every task that may run; returns whether there was one.
fn run_all() -> bool {
    let mut ran = false;
    loop {
        let ready = ready();
        if ready.is_empty() {
            return ran;
        }
        for stream in ready {
            ran |= stream.step(u64::MAX);
        }
    }
}

fn hurries() -> bool {
    CURRENT.lock().as_mut().is_some_and(|(_, draws)| draws.below(8) < draws.hurry)
}

/// Runs the task at the head of the stream that is chosen; returns whether there was one.
fn run_one() -> bool {
    choose(&ready()).is_some_and(|stream| stream.step(stream.completed() + 1))
}

fn choose(ready: &[&'static Stream]) -> Option<&'static Stream> {
    let mut current = CURRENT.lock();
    match current.as_mut()? {
        (Order::Random(_), draws) if !ready.is_empty() => Some(draws.choose(ready)),
        _ => ready.iter().max_by_key(|stream| (stream.priority(), stream.id(), stream.device())).copied(),
    }
}

/// Sleeps on this thread, not past the end of the process.
pub(in crate::runtime) fn sleep(duration: Duration) {
    let begin = Instant::now();
    unlocked(|unlocked| {
        while !exit::is_exiting() && begin.elapsed() < duration {
            sync::sleep(NAP.min(duration.saturating_sub(begin.elapsed())), unlocked);
        }
    });
}

/// Tells the log of a task that runs.
pub(in crate::runtime) fn note(stream: &Stream, name: &str) {
    if let Some(log) = LOG.lock().as_mut() {
        // A log that cannot be written ends; the program goes on.
        let _ = log.write_all(format!("rustdev:{} stream {}: {name}\n", stream.device(), stream.id()).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_written() {
        for text in ["eager", "lazy", "random:18446744073709551615", "reverse-priority"] {
            assert_eq!(text.parse::<Order>().unwrap().to_string(), text);
        }
        for text in ["", "random", "random:", "random:-1", "Lazy"] {
            assert!(text.parse::<Order>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_seed_repeats_its_choices_and_others_choose_differently() {
        let streams: Vec<_> = (0..4).map(|_| device::get(0).unwrap().create_stream(0)).collect();
        let choices = |seed| {
            let mut draws = Draws::new(Order::Random(seed));
            (0..64).map(|_| draws.choose(&streams).id()).collect::<Vec<_>>()
        };
        let all: std::collections::HashSet<_> = (0..32).map(choices).collect();
        assert_eq!(all, (0..32).map(choices).collect());
        assert!(all.len() > 16, "{}", all.len());
        let first: std::collections::HashSet<_> = all.iter().map(|choices| choices[0]).collect();
        assert_eq!(first.len(), streams.len(), "each stream is first under some seed");
    }
}
