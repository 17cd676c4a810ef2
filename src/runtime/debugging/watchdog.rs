//! Watchdog: a thread that reports streams on which no task has ended for longer than `RUSTDEV_TIMEOUT`, and makes waits for them
//! raise.
//!
//! It polls all streams. A stream is stuck if somebody holds its lease, so that its head runs or waits for something, and no task
//! has ended for the timeout. A stream that nobody drains is only reported while another stream is stuck: it waits for a thread
//! that does not come.
//!
//! With a watchdog, only compute threads run kernels, so that a thread that waits or submits cannot be caught in a kernel that
//! never ends.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::super::name;
use super::faults;
use crate::runtime::memory::Timeline;
use crate::runtime::observers::{self, WATCHDOG};
use crate::runtime::stream::Stream;
use crate::runtime::stream::registry::streams;
use crate::runtime::sync::{Mutex, sleep};
use crate::runtime::{Error, blocking_pool, exit};

/// The most names of waiting tasks that a report lists.
const LISTED: usize = 8;

/// The watchdog's data about a stream: the names of its tasks by number, and the error for threads that wait for it.
#[derive(Debug, Default)]
struct Watch {
    names: VecDeque<(u64, &'static str)>,
    /// The number of completed tasks when the stream was found stuck, and the error text for waiting threads.
    verdict: Option<(u64, String)>,
}

static WATCHES: Mutex<BTreeMap<(usize, i64), Watch>> = Mutex::new(BTreeMap::new());

pub(super) fn note(stream: &Stream, number: u64, name: &'static str) {
    let (mut watches, completed) = (WATCHES.lock(), stream.completed());
    let names = &mut watches.entry(stream.key()).or_default().names;
    while names.front().is_some_and(|(number, _)| *number <= completed) {
        names.pop_front();
    }
    names.push_back((number, name));
}

/// The names of the unfinished tasks of a stream.
fn waiting(stream: &Stream, completed: u64) -> Vec<&'static str> {
    let watches = WATCHES.lock();
    let names = watches.get(&stream.key()).into_iter().flat_map(|watch| &watch.names);
    let mut waiting: Vec<_> = names.filter(|(number, _)| *number > completed).collect();
    waiting.sort_unstable();
    waiting.into_iter().map(|(_, name)| *name).collect()
}

/// Refuses to wait for a stuck stream.
pub(super) fn check(stream: &Stream) -> Result<(), Error> {
    match WATCHES.lock().get(&stream.key()) {
        Some(Watch { verdict: Some((stuck_at, text)), .. }) if *stuck_at == stream.completed() => {
            Err(Error::TaskFailed(text.clone()))
        }
        _ => Ok(()),
    }
}

fn condemn(stream: &Stream, completed: u64, text: String) {
    WATCHES.lock().entry(stream.key()).or_default().verdict = Some((completed, text));
}

pub(super) fn start(timeout: Duration) {
    observers::set(WATCHDOG, true);
    let interval = (timeout / 10).clamp(Duration::from_millis(1), Duration::from_millis(500));
    blocking_pool::spawn("rustdev-watchdog", move |unlocked| {
        let mut watchdog = Watchdog { timeout, seen: HashMap::new() };
        while !exit::is_exiting() {
            sleep(interval, unlocked);
            watchdog.look();
        }
    });
}

struct Watchdog {
    timeout: Duration,
    seen: HashMap<(usize, i64), Seen>,
}

/// The result of the last look at a stream.
#[derive(Clone, Copy)]
struct Seen {
    completed: u64,
    /// The time since which no task has ended.
    since: Instant,
    /// The time since which, in addition, somebody has held the lease.
    owned_since: Instant,
    is_reported: bool,
}

impl Watchdog {
    fn look(&mut self) {
        let streams: Vec<_> = streams().collect();
        let stuck: Vec<_> = streams.iter().copied().filter(|stream| self.is_stuck(stream)).collect();
        let mut ended = false;
        for stream in &stuck {
            ended |= self.end_hang(stream);
        }
        if ended {
            // Streams that waited for those now proceed, or are found at a later look.
            for stream in stuck {
                self.seen.remove(&stream.key());
            }
            return;
        }
        for stream in &stuck {
            self.report(stream);
        }
        for stream in streams.iter().filter(|_| !stuck.is_empty() && !observers::is_scheduled()) {
            self.report_starved(stream);
        }
    }

    /// Looks at a stream; returns true if it is stuck.
    fn is_stuck(&mut self, stream: &Stream) -> bool {
        let (submitted, completed, now) = (stream.submitted(), stream.completed(), Instant::now());
        if completed >= submitted {
            self.seen.remove(&stream.key());
            return false;
        }
        let fresh = Seen { completed, since: now, owned_since: now, is_reported: false };
        let seen = self.seen.entry(stream.key()).or_insert(fresh);
        if seen.completed != completed {
            *seen = fresh;
        }
        if !stream.queue.is_owned() {
            seen.owned_since = now;
        }
        now.duration_since(seen.owned_since) >= self.timeout
    }

    fn end_hang(&self, stream: &'static Stream) -> bool {
        let (report, text) = self.describe(stream);
        let ended = faults::end_hang(stream, &text);
        if ended {
            eprint!("{report}");
        }
        ended
    }

    fn report(&mut self, stream: &'static Stream) {
        let (report, text) = self.describe(stream);
        let Some(seen) = self.seen.get_mut(&stream.key()) else { return };
        if !std::mem::replace(&mut seen.is_reported, true) {
            eprint!("{report}");
            condemn(stream, seen.completed, format!("{stream:?} does not get on: {text}"));
        }
    }

    /// Makes waits for a stream that nobody drains raise, while other streams are stuck.
    fn report_starved(&mut self, stream: &'static Stream) {
        let timeout = self.timeout;
        let starves = |seen: &&Seen| !stream.queue.is_owned() && seen.since.elapsed() >= timeout;
        if let Some(seen) = self.seen.get(&stream.key()).filter(starves) {
            let text = format!("{stream:?} does not get on: it has waited for a compute thread for longer than {timeout:?}");
            condemn(stream, seen.completed, text);
        }
    }

    /// The report on a stuck stream, and the text for errors.
    fn describe(&self, stream: &'static Stream) -> (String, String) {
        let (completed, timeout) = (stream.completed(), self.timeout);
        let since = self.seen.get(&stream.key()).map_or_else(Instant::now, |seen| seen.owned_since);
        let names = waiting(stream, completed);
        let (head, behind) = names.split_first().map_or(("a task", &[][..]), |(head, behind)| (*head, behind));
        let state = match stream.awaited() {
            Some(recording) => format!("{head} waits for {:?}", recording.stream),
            None => format!("{head} has not ended"),
        };
        let text = format!("{state} for longer than {timeout:?} ({})", name::variable("TIMEOUT"));
        let name = name::name();
        let mut report = format!(
            "{name} watchdog: {stream:?}: {state} for {:.1?}, since {} ({} is {timeout:?})\n",
            since.elapsed(),
            time_of_day(since.elapsed()),
            name::variable("TIMEOUT"),
        );
        let listed = behind[..behind.len().min(LISTED)].join(", ");
        let more = if behind.len() > LISTED { ", ..." } else { "" };
        let colon = if behind.is_empty() { "" } else { ": " };
        let _ = writeln!(report, "{name} watchdog: tasks behind it: {}{colon}{listed}{more}", behind.len());
        (report, text)
    }
}

/// The time of day `ago` before now, in UTC.
fn time_of_day(ago: Duration) -> String {
    let seconds =
        SystemTime::now().checked_sub(ago).and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |time| time.as_secs());
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}
