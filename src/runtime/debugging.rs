//! Debugging modes: injected [`faults`], a [`watchdog`], adversarial task orders ([`schedule`]), [dry runs](dry_run),
//! [errors that stay](sticky), [isolation](super::isolation) of memory, and the [`clock`] of a profile.
//!
//! All are off by default. The active modes are bits in the word of the [observers](super::observers), which a launch reads.
#![forbid(unsafe_code)]

pub mod clock;
pub mod dry_run;
pub mod faults;
pub mod schedule;
mod sticky;
pub mod watchdog;

use std::time::Duration;

use super::config::config;
use super::error::Cause;
use super::memory::Timeline;
use super::observers::{CLOCK, GUARDS, RACES, SCHEDULE, STICKY};
use super::stream::Stream;
use super::stream::observer::{self, Observer, Recorder};
use super::sync::LazyLock;
use super::task::recording::Recording;
use super::task::{Access, DrainableStream, Shape, Task, Work};
use super::trace::About;
use super::vector_clock::VectorClock;
use super::{Error, isolation, observers, sanitizer};

static STARTED: LazyLock<()> = LazyLock::new(start_now);

/// Makes streams report to the modes, and turns on what the environment asks for; only the first call has an effect.
pub(super) fn start() {
    let () = *STARTED;
}

fn start_now() {
    let config = config();
    _ = observer::OBSERVER.set(&Modes);
    isolation::start(config);
    if let Some(faults) = &config.faults {
        // The environment was validated when it was read.
        let _ = faults::push(faults);
    }
    if config.sticky_errors {
        sticky::start();
    }
    if let (true, Some(profile)) = (config.is_clocked, config.profile) {
        // No other clock runs at the start.
        let _ = clock::begin(profile);
    }
    if let Some(timeout) = config.timeout {
        watchdog::start(timeout);
    }
    if let Some(order) = config.schedule {
        schedule::begin(order, config.schedule_log.as_deref());
    }
}

/// Work that `run` runs, which may run the work itself. It is described like that work.
struct Wrapped<F> {
    work: Box<dyn Work>,
    run: F,
}

impl<F: FnMut(&mut dyn Work) -> Result<(), Cause> + Send> Work for Wrapped<F> {
    fn run(&mut self) -> Result<(), Cause> {
        (self.run)(&mut *self.work)
    }

    fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        self.work.operands(visit);
    }

    fn accesses(&self, visit: &mut dyn FnMut(Access)) {
        self.work.accesses(visit);
    }

    fn about(&self) -> About {
        self.work.about()
    }

    fn output_byte(&self, random: u64) -> Option<usize> {
        self.work.output_byte(random)
    }
}

/// The modes, the race detector and isolation, as streams see them.
struct Modes;

impl Observer for Modes {
    fn check(&self, stream: &'static Stream, recorder: Option<&dyn Recorder>, task: &mut Task) -> Result<(), Error> {
        if observers::has(GUARDS) {
            isolation::check_accesses(task)?;
        }
        if observers::has(RACES) { sanitizer::submit(recorder, stream, task) } else { Ok(()) }
    }

    fn submitted(&self, stream: &'static Stream, task: &Task) {
        clock::submit(stream, task);
    }

    fn replace(&self, stream: &'static Stream, task: Task) -> Result<Task, Error> {
        if observers::has(STICKY) {
            sticky::check(stream.device())?;
        }
        faults::arm(stream, if observers::is_dry() { dry_run::emptied(task) } else { task })
    }

    fn queued(&self, stream: &'static Stream, number: u64, name: &'static str) {
        if observers::is_watched() {
            watchdog::note(stream, number, name);
        }
        if observers::is_scheduled() {
            schedule::after_submission();
        }
    }

    fn ran(&self, stream: &Stream, name: &str) {
        schedule::note(stream, name);
    }

    fn help(&self, stream: &'static Stream, target: u64, idle: Duration) -> Result<Option<bool>, Error> {
        if observers::is_watched() {
            watchdog::check(stream)?;
        }
        Ok(observers::has(SCHEDULE).then(|| schedule::help(stream, target, idle)))
    }

    fn failed(&self, stream: &Stream, failure: &Error) {
        sticky::note(stream.device(), failure);
    }

    fn failure(&self, device: usize) -> Result<(), Error> {
        sticky::check(device)
    }

    fn polled(&self, stream: &'static dyn DrainableStream) {
        schedule::after_query(stream);
    }

    fn host_waits_for(&self, stream: &dyn Timeline) {
        if observers::has(RACES) {
            sanitizer::host_waits_for(stream);
        }
        if observers::has(CLOCK) {
            clock::host_waits_for(stream);
        }
    }

    fn host_waits(&self, clock: Option<&VectorClock>) {
        sanitizer::host_waits(clock);
    }

    fn clock(&self, stream: &'static Stream) -> VectorClock {
        sanitizer::clock(None, stream)
    }

    fn order(&self, stream: &'static Stream, recording: &Recording) {
        if observers::has(RACES) {
            sanitizer::order(None, stream, recording.clock.as_ref());
        }
        if observers::has(CLOCK) {
            clock::wait(stream, recording);
        }
    }

    fn is_idle(&self, stream: &'static Stream) -> bool {
        clock::is_idle(stream)
    }
}
