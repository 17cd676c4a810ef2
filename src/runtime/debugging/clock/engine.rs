//! The simulation behind the clock: tracks of work in order, and the engines of the devices that execute it.
//!
//! A track is a stream, or the stream of a communicator. Its items begin in their order, none before the host has issued it. Work
//! occupies an engine of its device: the compute engine has room for works whose shares are at most the whole together, other
//! engines execute one work at a time. Where several works could begin, the track of higher priority comes first, then the work
//! that has been ready for longer, then the one that was issued first; nothing overtakes.
//!
//! The host issues in the order of its own time, so everything up to that time is known: the simulation advances to it and never
//! goes back. A host that waits moves to the end of what it waits for. Times are nanoseconds since the clock began.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::runtime::sync::{Arc, OnceLock};
use crate::runtime::trace::Mark;

/// The whole of a compute engine, in parts of a share.
pub const WHOLE: u32 = 1000;
/// Items of a track that have not ended before the host waits for room: the depth of a channel of CUDA work.
const MOST_PENDING: usize = 1024;

/// The time at which something was reached; empty until then.
pub type Moment = Arc<OnceLock<u64>>;

/// The index of a device, and the id of a stream or, negative, of a communicator.
pub type TrackKey = (usize, i64);

/// The part of a device that executes a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Compute,
    /// Copies from the host.
    CopyIn,
    /// Copies to the host.
    CopyOut,
    /// Copies and collectives between devices.
    Link,
    /// Nothing: the track waits.
    None,
}

/// The number of engines that count their busy time.
pub const ENGINES: usize = 4;

#[derive(Debug)]
pub struct Job {
    pub engine: Engine,
    /// The part of the compute engine that it occupies, from 1 to [`WHOLE`].
    pub share: u32,
    pub duration: u64,
    /// The entry of the work in a trace, if one records.
    pub mark: Option<Mark>,
}

#[derive(Debug)]
enum Item {
    Job(Job),
    Record(Moment),
    Wait(Moment),
}

#[derive(Debug)]
struct Issued {
    /// The first time at which the item can begin.
    at: u64,
    number: u64,
    item: Item,
}

#[derive(Debug, Default)]
struct Track {
    priority: i32,
    items: VecDeque<Issued>,
    /// The job that is executed, its begin and its end.
    running: Option<(Job, u64, u64)>,
    /// The time at which the latest item ended.
    free: u64,
}

/// The use of a device's engines.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Works that are executed, by engine.
    works: [u32; ENGINES],
    /// The sum of the shares on the compute engine.
    share: u32,
    /// The time since which an engine is busy, and the time that it was busy before.
    since: [u64; ENGINES],
    busy: [u64; ENGINES],
}

#[derive(Debug, Default)]
pub struct Simulation {
    host: u64,
    /// The time up to which everything has happened.
    now: u64,
    issued: u64,
    tracks: BTreeMap<TrackKey, Track>,
    devices: BTreeMap<usize, Use>,
    ends: BinaryHeap<Reverse<(u64, TrackKey)>>,
}

impl Simulation {
    /// The time of the host.
    pub fn host(&self) -> u64 {
        self.host
    }

    /// The host computes for a time.
    pub fn spend(&mut self, nanoseconds: u64) {
        self.host += nanoseconds;
        self.advance(self.host);
    }

    /// The busy time of each engine of a device, up to the host's time.
    pub fn busy(&self, device: usize) -> [u64; ENGINES] {
        let used = self.devices.get(&device).copied().unwrap_or_default();
        let until = self.now.max(self.host);
        std::array::from_fn(|engine| {
            used.busy[engine] + if used.works[engine] > 0 { until.saturating_sub(used.since[engine]) } else { 0 }
        })
    }

    /// The devices that have executed anything.
    pub fn devices(&self) -> impl Iterator<Item = usize> {
        self.devices.keys().copied()
    }

    /// The tracks that anything was issued for.
    pub fn tracks(&self) -> impl Iterator<Item = TrackKey> {
        self.tracks.keys().copied()
    }

    /// Issues a job that can begin `latency` after the host's time.
    pub fn job(&mut self, key: TrackKey, priority: i32, latency: u64, job: Job) {
        self.issue(key, priority, latency, Item::Job(job));
    }

    /// The moment at which a track reaches the end of what was issued for it.
    pub fn record(&mut self, key: TrackKey, priority: i32, moment: Moment) {
        self.issue(key, priority, 0, Item::Record(moment));
    }

    /// Later items of the track begin after the moment.
    pub fn wait(&mut self, key: TrackKey, priority: i32, moment: Moment) {
        self.issue(key, priority, 0, Item::Wait(moment));
    }

    fn issue(&mut self, key: TrackKey, priority: i32, latency: u64, item: Item) {
        self.advance(self.host);
        while self.tracks.get(&key).is_some_and(|track| track.items.len() >= MOST_PENDING) {
            let Some(next) = self.next_event() else { break };
            self.advance(next);
            self.host = self.host.max(next);
        }
        self.issued += 1;
        let issued = Issued { at: self.host + latency, number: self.issued, item };
        let track = self.tracks.entry(key).or_default();
        track.priority = priority;
        track.items.push_back(issued);
        self.settle();
    }

    /// The host waits until a track is empty.
    pub fn wait_for_track(&mut self, key: TrackKey) {
        self.advance_until(|simulation| simulation.is_empty(key));
        let free = self.tracks.get(&key).map_or(0, |track| track.free);
        self.host = self.host.max(free);
        self.advance(self.host);
    }

    /// The host waits until a moment is reached, which is returned; `None` if nothing reaches it.
    pub fn wait_for_moment(&mut self, moment: &Moment) -> Option<u64> {
        self.advance_until(|_| moment.get().is_some());
        let reached = moment.get().copied()?;
        self.host = self.host.max(reached);
        self.advance(self.host);
        Some(reached)
    }

    /// True if the track has nothing to do at the host's time.
    pub fn is_empty(&self, key: TrackKey) -> bool {
        self.tracks
            .get(&key)
            .is_none_or(|track| track.items.is_empty() && track.running.is_none() && track.free <= self.now.max(self.host))
    }

    /// Advances by events until the condition holds, or nothing is left to happen.
    fn advance_until(&mut self, is_over: impl Fn(&Self) -> bool) {
        self.settle();
        while !is_over(self) {
            let Some(next) = self.next_event() else { break };
            self.advance(next);
        }
    }

    /// The time of the next event.
    fn next_event(&self) -> Option<u64> {
        let end = self.ends.peek().map(|Reverse((end, _))| *end);
        let begins = self.tracks.values().filter(|track| track.running.is_none()).filter_map(|track| {
            let head = track.items.front()?;
            Some(head.at.max(track.free)).filter(|at| *at > self.now)
        });
        begins.chain(end).min()
    }

    /// Lets everything happen up to a time.
    fn advance(&mut self, until: u64) {
        while let Some(next) = self.next_event().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            while let Some(Reverse((end, key))) = self.ends.peek().copied()
                && end <= self.now
            {
                self.ends.pop();
                self.end(key);
            }
            self.settle();
        }
        self.now = self.now.max(until);
    }

    /// Ends the job that a track executes.
    fn end(&mut self, key: TrackKey) {
        let Some(track) = self.tracks.get_mut(&key) else { return };
        let Some((job, begin, end)) = track.running.take() else { return };
        track.free = end;
        if let Some(mark) = &job.mark {
            mark.plan(begin, end);
        }
        let (Some(used), Some(engine)) = (self.devices.get_mut(&key.0), index(job.engine)) else { return };
        used.works[engine] -= 1;
        if job.engine == Engine::Compute {
            used.share -= job.share;
        }
        if used.works[engine] == 0 {
            used.busy[engine] += end - used.since[engine];
        }
    }

    /// Lets everything happen that can happen now.
    fn settle(&mut self) {
        while self.pass_moments() {}
        let mut ready: Vec<_> = self
            .tracks
            .iter()
            .filter(|(_, track)| track.running.is_none())
            .filter_map(|(key, track)| {
                let head = track.items.front()?;
                let since = head.at.max(track.free);
                let is_job = matches!(head.item, Item::Job(_)) && since <= self.now;
                is_job.then_some((track.priority, since, head.number, *key))
            })
            .collect();
        ready.sort_unstable();
        let mut is_full = [false; ENGINES];
        let mut is_over = false;
        for (.., key) in ready {
            is_over |= self.begin(key, &mut is_full);
        }
        if is_over {
            self.settle();
        }
    }

    /// Passes the recordings and waits at the heads of idle tracks; true if there was one.
    fn pass_moments(&mut self) -> bool {
        let (mut passed, now) = (false, self.now);
        for track in self.tracks.values_mut().filter(|track| track.running.is_none()) {
            while let Some(head) = track.items.front() {
                let at = head.at.max(track.free);
                let reached = match &head.item {
                    Item::Record(moment) if at <= now => {
                        let _ = moment.set(at);
                        at
                    }
                    Item::Wait(moment) if at <= now => match moment.get() {
                        Some(reached) if *reached <= now => at.max(*reached),
                        _ => break,
                    },
                    _ => break,
                };
                track.free = reached;
                track.items.pop_front();
                passed = true;
            }
        }
        passed
    }

    /// Begins the job at the head of a track if its engine has room, else closes the engine for later jobs; true if the job took no
    /// time, so that others may follow.
    fn begin(&mut self, key: TrackKey, is_full: &mut [bool; ENGINES]) -> bool {
        let Some(track) = self.tracks.get_mut(&key) else { return false };
        let Some(Issued { item: Item::Job(job), .. }) = track.items.front() else { return false };
        let used = self.devices.entry(key.0).or_default();
        if let Some(engine) = index(job.engine) {
            let has_room = match job.engine {
                Engine::Compute => used.works[engine] == 0 || used.share + job.share <= WHOLE,
                _ => used.works[engine] == 0,
            };
            if is_full[engine] || !has_room {
                is_full[engine] = true;
                return false;
            }
            if used.works[engine] == 0 {
                used.since[engine] = self.now;
            }
            used.works[engine] += 1;
            if job.engine == Engine::Compute {
                used.share += job.share;
            }
        }
        let end = self.now + job.duration;
        if let Some(Issued { item: Item::Job(job), .. }) = track.items.pop_front() {
            track.running = Some((job, self.now, end));
        }
        if end == self.now {
            self.end(key);
            return true;
        }
        self.ends.push(Reverse((end, key)));
        false
    }
}

fn index(engine: Engine) -> Option<usize> {
    Some(engine as usize).filter(|index| *index < ENGINES)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ONE: TrackKey = (0, 0);
    const TWO: TrackKey = (0, 1);

    fn kernel(share: u32, duration: u64) -> Job {
        Job { engine: Engine::Compute, share, duration, mark: None }
    }

    fn copy(duration: u64) -> Job {
        Job { engine: Engine::CopyIn, share: WHOLE, duration, mark: None }
    }

    /// The time at which a track reaches its end.
    fn end_of(simulation: &mut Simulation, key: TrackKey) -> u64 {
        let moment = Moment::default();
        simulation.record(key, 0, Arc::clone(&moment));
        simulation.wait_for_moment(&moment).unwrap()
    }

    #[test]
    fn small_kernels_of_two_tracks_share_the_device() {
        let mut simulation = Simulation::default();
        for key in [ONE, TWO] {
            simulation.job(key, 0, 0, kernel(WHOLE / 2, 100));
        }
        assert_eq!((end_of(&mut simulation, TWO), simulation.busy(0)[0]), (100, 100));
    }

    #[test]
    fn a_wait_leaves_the_engine_to_others() {
        let mut simulation = Simulation::default();
        let moment = Moment::default();
        simulation.job(TWO, 0, 0, copy(100));
        simulation.record(TWO, 0, Arc::clone(&moment));
        simulation.wait(ONE, 0, Arc::clone(&moment));
        simulation.job(ONE, 0, 0, kernel(WHOLE, 10));
        simulation.job((0, 2), 0, 0, kernel(WHOLE, 10));
        assert_eq!((end_of(&mut simulation, (0, 2)), end_of(&mut simulation, ONE)), (10, 110));
    }

    #[test]
    fn a_high_priority_comes_first_when_the_engine_is_free() {
        let mut simulation = Simulation::default();
        simulation.job(ONE, 0, 0, kernel(WHOLE, 10));
        simulation.job(TWO, 0, 0, kernel(WHOLE, 10));
        let first = Moment::default();
        simulation.job((0, 2), -1, 0, kernel(WHOLE, 10));
        simulation.record((0, 2), -1, Arc::clone(&first));
        assert_eq!((simulation.wait_for_moment(&first), end_of(&mut simulation, TWO)), (Some(20), 30));
    }

    #[test]
    fn a_host_that_is_far_ahead_waits_for_room() {
        let mut simulation = Simulation::default();
        for _ in 0..2 * MOST_PENDING {
            simulation.job(ONE, 0, 0, kernel(WHOLE, 10));
        }
        assert_eq!(simulation.host(), 10 * (MOST_PENDING as u64 - 1));
    }

    #[test]
    fn devices_do_not_wait_for_each_other() {
        let mut simulation = Simulation::default();
        simulation.job(ONE, 0, 0, kernel(WHOLE, 100));
        simulation.job((1, 0), 0, 0, kernel(WHOLE, 10));
        assert_eq!((end_of(&mut simulation, (1, 0)), simulation.devices().count()), (10, 2));
    }
}
