//! Detector: the clocks of streams and host, and the shadow memory, for one set of streams that may wait for each other.
//!
//! A stream's clock says what happened before what is submitted to it next; the host's clock, what the host has waited for. All threads of
//! the host have one clock, and callbacks another: each is taken to wait for those that were submitted before it, as nobody can tell
//! what it waits for.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::footprint::Footprint;
use super::shadow::{Past, Shadow, Site};
use crate::runtime::vector_clock::VectorClock;

/// The device and the id of a stream.
pub type StreamKey = (usize, i64);

/// The id that stands for the operations of several processes on a device: as on GPUs, a stream of their own.
pub const COLLECTIVES: i64 = -1;

/// An access of a submission.
#[derive(Clone, Debug)]
pub struct Touch {
    pub footprint: Footprint,
    pub write: bool,
}

/// Two accesses without order: the earlier one, and the number of the later one among those of its submission.
pub struct Race {
    pub first: Past,
    pub number: usize,
}

/// What a stream has to wait for before its next task, where a block of its own was freed: its user so far.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    pub stream: StreamKey,
    slot: usize,
    time: u64,
}

/// See above.
#[derive(Default)]
pub struct Detector {
    slots: BTreeMap<StreamKey, usize>,
    clocks: Vec<VectorClock>,
    host: VectorClock,
    callbacks: VectorClock,
    shadow: Shadow,
}

impl Detector {
    /// One that has seen nothing.
    pub const fn new() -> Self {
        Self {
            slots: BTreeMap::new(),
            clocks: Vec::new(),
            host: VectorClock::new(),
            callbacks: VectorClock::new(),
            shadow: Shadow::new(),
        }
    }

    /// Forgets all accesses. Clocks go on: those of events may be older.
    pub fn clear(&mut self) {
        self.shadow.clear();
    }

    fn slot(&mut self, stream: StreamKey) -> usize {
        let next = self.slots.len();
        let slot = *self.slots.entry(stream).or_insert(next);
        if slot == next {
            self.clocks.push(VectorClock::new());
        }
        slot
    }

    /// What happened before that which is submitted to a stream now.
    pub fn clock(&mut self, stream: StreamKey) -> &mut VectorClock {
        let slot = self.slot(stream);
        self.clocks[slot].join(&self.host);
        &mut self.clocks[slot]
    }

    /// The stream waits for what has that clock.
    pub fn order(&mut self, stream: StreamKey, clock: &VectorClock) {
        self.clock(stream).join(clock);
    }

    /// The host has waited for what has that clock.
    pub fn host_waits(&mut self, clock: &VectorClock) {
        self.host.join(clock);
    }

    /// The host has waited for a stream.
    pub fn host_waits_for(&mut self, stream: StreamKey) {
        let clock = self.clock(stream).clone();
        self.host.join(&clock);
    }

    /// A callback is submitted to a stream; the clock of the moment.
    pub fn callback(&mut self, stream: StreamKey) -> VectorClock {
        let before = self.clock(stream).clone();
        self.callbacks.join(&before);
        let slot = self.slot(stream);
        self.clocks[slot].join(&self.callbacks);
        before
    }

    /// What a submission of a stream would race with.
    pub fn race(&mut self, stream: StreamKey, touches: &[Touch]) -> Option<Race> {
        let clock = self.clock(stream).clone();
        self.race_after(&clock, touches)
    }

    /// What accesses of the host would race with.
    pub fn host_race(&self, touches: &[Touch]) -> Option<Race> {
        self.race_after(&self.host, touches)
    }

    fn race_after(&self, clock: &VectorClock, touches: &[Touch]) -> Option<Race> {
        touches.iter().enumerate().find_map(|(number, touch)| {
            let first = self.shadow.race(&touch.footprint, touch.write, clock)?.clone();
            Some(Race { first, number })
        })
    }

    /// Notes the accesses of a submission.
    pub fn submit(&mut self, stream: StreamKey, touches: &[Touch], site: &Arc<Site>) {
        let slot = self.slot(stream);
        let time = self.clock(stream).tick(slot);
        for Touch { footprint, write } in touches {
            let (footprint, site) = (footprint.clone(), Arc::clone(site));
            self.shadow.add(&Past { slot, time, write: *write, footprint, site, is_freed: false }, &self.clocks[slot]);
        }
    }

    /// A block goes to tasks of a stream: what tasks of others did to its memory is over.
    pub fn allocated(&mut self, stream: StreamKey, begin: usize, end: usize) {
        let slot = self.slot(stream);
        self.shadow.retire(begin, end, Some(slot));
    }

    /// A block of a stream is freed; a use by another one that is not waited for. `users`: the streams that the pool waits for.
    /// `current`: the stream of the thread that frees it. Where no other one has used it, its uses can still be waited for.
    pub fn freed(
        &mut self,
        stream: StreamKey,
        range: Range<usize>,
        users: &[StreamKey],
        current: StreamKey,
    ) -> Option<(Past, Option<Awaited>)> {
        let (slot, current) = (self.slot(stream), self.slot(current));
        let clock = self.clock(stream).clone();
        let known: Vec<_> = users.iter().filter_map(|user| self.slots.get(user)).collect();
        let accepted = |past: &Past| past.slot == slot || known.contains(&&past.slot);
        let use_by =
            |is_accepted: &dyn Fn(&Past) -> bool| self.shadow.unordered(range.start, range.end, &clock, is_accepted).cloned();
        let found = match use_by(&|past| accepted(past) || past.slot == current) {
            Some(first) => Some((first, None)),
            None => use_by(&accepted).map(|first| {
                let time = self.clocks[current].get(current);
                (first, Some(Awaited { stream, slot: current, time }))
            }),
        };
        self.shadow.retire(range.start, range.end, Some(slot));
        found
    }

    /// Whether the stream has waited.
    pub fn has_waited(&mut self, awaited: Awaited) -> bool {
        self.clock(awaited.stream).get(awaited.slot) >= awaited.time
    }

    /// A block of the host is freed; a use by a stream that is not waited for. `users`: as in [`Detector::freed`].
    pub fn host_freed(&mut self, begin: usize, end: usize, users: &[StreamKey]) -> Option<Past> {
        let known: Vec<_> = users.iter().filter_map(|user| self.slots.get(user)).collect();
        let found = self.shadow.unordered(begin, end, &self.host, |past| known.contains(&&past.slot)).cloned();
        self.shadow.retire(begin, end, None);
        found
    }

    /// Forgets what happened to some bytes.
    pub fn forget(&mut self, begin: usize, end: usize) {
        self.shadow.retire(begin, end, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: StreamKey = (0, 0);
    const SECOND: StreamKey = (0, 7);

    fn touches(write: bool) -> [Touch; 1] {
        [Touch { footprint: Footprint::dense(4096, 8192), write }]
    }

    fn submit(detector: &mut Detector, stream: StreamKey, write: bool) -> bool {
        let races = detector.race(stream, &touches(write)).is_some();
        let site = Arc::new(Site { operator: "test".into(), stream: Some(stream), context: None });
        detector.submit(stream, &touches(write), &site);
        races
    }

    #[test]
    fn an_event_orders_two_streams_and_not_what_comes_later() {
        let mut detector = Detector::new();
        assert!(!submit(&mut detector, FIRST, true));
        let event = detector.clock(FIRST).clone();
        detector.order(SECOND, &event);
        assert!(!submit(&mut detector, SECOND, false));
        assert!(submit(&mut detector, FIRST, true), "the read is not waited for");
        assert!(submit(&mut detector, SECOND, true));
    }

    #[test]
    fn what_the_host_waits_for_comes_before_all_that_it_submits() {
        let mut detector = Detector::new();
        submit(&mut detector, FIRST, true);
        assert!(detector.host_race(&touches(false)).is_some());
        detector.host_waits_for(FIRST);
        assert!(detector.host_race(&touches(true)).is_none());
        assert!(!submit(&mut detector, SECOND, true));
    }

    #[test]
    fn a_callback_comes_after_those_before_it() {
        let mut detector = Detector::new();
        submit(&mut detector, FIRST, true);
        detector.callback(FIRST);
        detector.callback(SECOND);
        assert!(!submit(&mut detector, SECOND, true));
    }

    #[test]
    fn a_free_asks_for_the_uses_of_other_streams() {
        let mut detector = Detector::new();
        let free = |detector: &mut Detector, users: &[StreamKey]| detector.freed(FIRST, 4096..8192, users, FIRST);
        submit(&mut detector, FIRST, false);
        assert!(free(&mut detector, &[]).is_none());
        submit(&mut detector, SECOND, false);
        assert!(free(&mut detector, &[SECOND]).is_none());
        submit(&mut detector, SECOND, false);
        assert!(free(&mut detector, &[]).is_some_and(|(_, awaited)| awaited.is_none()));
        assert!(free(&mut detector, &[]).is_none(), "told once");
    }

    #[test]
    fn uses_of_the_stream_that_frees_can_be_waited_for_afterwards() {
        let mut detector = Detector::new();
        submit(&mut detector, SECOND, false);
        let (_, awaited) = detector.freed(FIRST, 4096..8192, &[], SECOND).unwrap();
        let awaited = awaited.unwrap();
        assert!(!detector.has_waited(awaited));
        let event = detector.clock(SECOND).clone();
        detector.order(FIRST, &event);
        assert!(detector.has_waited(awaited));
        // A third stream's use cannot: the one that frees knows nothing of it.
        submit(&mut detector, SECOND, false);
        submit(&mut detector, (0, 9), false);
        assert!(detector.freed(FIRST, 4096..8192, &[], SECOND).is_some_and(|(_, awaited)| awaited.is_none()));
    }

    #[test]
    fn pinned_memory_asks_for_the_uses_of_all_streams() {
        let mut detector = Detector::new();
        submit(&mut detector, FIRST, false);
        assert!(detector.host_freed(4096, 8192, &[FIRST]).is_none());
        submit(&mut detector, FIRST, false);
        detector.host_waits_for(FIRST);
        assert!(detector.host_freed(4096, 8192, &[]).is_none());
        submit(&mut detector, FIRST, false);
        assert!(detector.host_freed(4096, 8192, &[]).is_some());
    }
}
