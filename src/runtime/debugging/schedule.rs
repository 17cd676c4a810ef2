//! Adversarial orders: the next task is chosen so that a missing wait between streams becomes visible.
//!
//! While an order is on, no compute thread drains a stream. Tasks run serially on the thread that submits or waits, so that a
//! single-threaded program sees the same order each time; only callbacks have threads of their own. A sleep blocks the thread that
//! runs it.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use super::super::name::Device;
use crate::runtime::config::order::{Order, open_log};
use crate::runtime::memory::Timeline;
use crate::runtime::observers::{self, SCHEDULE};
use crate::runtime::stream::Stream;
use crate::runtime::stream::registry::streams;
use crate::runtime::sync::Mutex;
use crate::runtime::task::DrainableStream;
use crate::runtime::{Error, rng};

/// How long a lazy wait that finds nothing to run restricts itself to the tasks it needs.
const PATIENCE: Duration = Duration::from_millis(20);

static CURRENT: Mutex<Option<(Order, Draws)>> = Mutex::new(None);
static LOG: Mutex<Option<File>> = Mutex::new(None);

/// Turns an order on when the runtime starts.
pub(super) fn begin(order: Order, log: Option<&str>) {
    *LOG.lock() = log.and_then(|path| open_log(path).ok());
    install(Some(order));
}

fn install(order: Option<Order>) {
    let mut current = CURRENT.lock();
    *current = order.map(|order| (order, Draws::new(order)));
    observers::set(SCHEDULE, order.is_some());
}

/// Switches to another order, or to none, after all submitted tasks are done; returns the previous order. Failures are kept for the
/// streams' next synchronising calls. Fails with `TaskFailed` if a stream is stuck.
pub fn switch(order: Option<Order>) -> Result<Option<Order>, Error> {
    super::start();
    streams().try_for_each(Stream::finish)?;
    let before = CURRENT.lock().as_ref().map(|(order, _)| *order);
    install(order);
    if order.is_none() {
        streams().for_each(Stream::hand_over);
    }
    Ok(before)
}

/// The random state of an order.
struct Draws {
    seed: u64,
    count: u64,
    /// The probability, in eighths, that a task runs after a submission, and another one after each task.
    hurry: u32,
    /// The probability, in sixteenths, that a task changes the rank of its stream.
    change: u32,
    /// Ranks of streams; the highest rank runs first.
    ranks: HashMap<(usize, i64), u32>,
}

impl Draws {
    fn new(order: Order) -> Self {
        let seed = if let Order::Random(seed) = order { seed } else { 0 };
        let mut draws = Self { seed, count: 0, hurry: 0, change: 0, ranks: HashMap::new() };
        // Few rank changes find tasks that run much too late; many find adjacent tasks that are swapped.
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

    /// Chooses one of `ready`, which is not empty.
    fn choose(&mut self, ready: &[&'static Stream]) -> &'static Stream {
        for stream in ready {
            if !self.ranks.contains_key(&stream.key()) {
                let rank = self.next();
                self.ranks.insert(stream.key(), rank);
            }
        }
        let chosen = ready.iter().max_by_key(|stream| self.ranks[&stream.key()]).copied().unwrap_or(ready[0]);
        if self.below(16) < self.change {
            self.ranks.remove(&chosen.key());
        }
        chosen
    }
}

/// The streams that have a task to run.
fn ready() -> Vec<&'static Stream> {
    streams().filter(|stream| stream.queue.is_ready()).collect()
}

fn order() -> Option<Order> {
    CURRENT.lock().as_ref().map(|(order, _)| *order)
}

/// Runs the tasks that the order allows after a submission.
pub(super) fn after_submission() {
    match order() {
        Some(Order::Eager) => _ = run_all(),
        Some(Order::Random(_)) => while hurries() && run_one() {},
        _ => {}
    }
}

/// Runs a task towards the completion of `target` tasks of a stream; returns true if there was anything to run. `idle`: how long
/// there was nothing. After [`PATIENCE`], the lazy order runs other tasks, too, because a callback may wait for a task that nobody
/// has waited for.
pub(super) fn help(stream: &'static dyn DrainableStream, target: u64, idle: Duration) -> bool {
    match order() {
        Some(Order::Eager) => run_all(),
        Some(Order::Random(_) | Order::ReversePriority) => run_one(),
        Some(Order::Lazy) if idle > PATIENCE => run_one(),
        Some(Order::Lazy) | None => stream.help_until(target),
    }
}

/// Makes progress for a program that polls until something is done.
pub(in crate::runtime) fn after_query(stream: &'static dyn DrainableStream) {
    help(stream, stream.completed() + 1, Duration::ZERO);
    after_submission();
}

/// Runs all tasks that can run; returns true if there was one.
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

/// Runs the task at the head of the chosen stream; returns true if there was one.
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

/// Logs a task that runs.
pub(super) fn note(stream: &Stream, name: &str) {
    if let Some(log) = LOG.lock().as_mut() {
        // If the log cannot be written, the program continues without the entry.
        let _ = log.write_all(format!("{} stream {}: {name}\n", Device(stream.device()), stream.id()).as_bytes());
    }
}
