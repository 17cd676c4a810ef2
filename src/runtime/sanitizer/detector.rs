//! Detector: the clocks of streams and host, and the shadow memory, for one set of streams that may wait for each other.
//!
//! The clock of a stream says what happened before its next submission; the clock of the host says what the host has waited for.
//! All host threads share one clock. Callbacks share another: nobody can tell what a callback waits for, so each is assumed to wait
//! for all callbacks that were submitted before it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::footprint::Footprint;
use super::shadow::{Past, Shadow, Site};
use crate::runtime::vector_clock::VectorClock;

/// The device and the id of a stream.
pub type StreamKey = (usize, i64);

/// The stream id that stands for the collectives of a device: as on GPUs, they run on a stream of their own.
pub const COLLECTIVES: i64 = -1;

/// An access of a submission.
#[derive(Clone, Debug)]
pub struct Touch {
    pub footprint: Footprint,
    pub write: bool,
}

/// Two unordered accesses: the earlier one, and the index of the later one within its submission.
pub struct Race {
    pub first: Past,
    pub number: usize,
}

/// The wait for a block's last user that the block's own stream must do before its next task, because the block was freed.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    pub stream: StreamKey,
    slot: usize,
    time: u64,
}

#[derive(Default)]
pub struct Detector {
    slots: BTreeMap<StreamKey, usize>,
    clocks: Vec<VectorClock>,
    host: VectorClock,
    callbacks: VectorClock,
    shadow: Shadow,
}

impl Detector {
    /// Forgets all accesses. The clocks continue, because events may hold older clocks.
    pub fn clear(&mut self) {
        self.shadow.clear();
    }

    fn slot(&mut self, stream: StreamKey) -> usize {
        let next = self.slots.len();
        let slot = *self.slots.entry(stream).or_insert(next);
        if slot == next {
            self.clocks.push(VectorClock::default());
        }
        slot
    }

    /// The clock of a stream's next submission.
    pub fn clock(&mut self, stream: StreamKey) -> &mut VectorClock {
        let slot = self.slot(stream);
        self.clocks[slot].join(&self.host);
        &mut self.clocks[slot]
    }

    /// Orders the stream, or the host if `None`, after the operation with that clock.
    pub fn order(&mut self, stream: Option<StreamKey>, clock: &VectorClock) {
        match stream {
            Some(stream) => self.clock(stream),
            None => &mut self.host,
        }
        .join(clock);
    }

    pub fn host_waits_for(&mut self, stream: StreamKey) {
        let clock = self.clock(stream).clone();
        self.host.join(&clock);
    }

    /// Notes the submission of a callback to a stream; returns the clock at that moment.
    pub fn callback(&mut self, stream: StreamKey) -> VectorClock {
        let before = self.clock(stream).clone();
        self.callbacks.join(&before);
        let slot = self.slot(stream);
        self.clocks[slot].join(&self.callbacks);
        before
    }

    /// The race that a submission to a stream, or accesses of the host if `None`, would have.
    pub fn race(&mut self, stream: Option<StreamKey>, touches: &[Touch]) -> Option<Race> {
        let clock = match stream {
            Some(stream) => self.clock(stream).clone(),
            None => self.host.clone(),
        };
        touches.iter().enumerate().find_map(|(number, touch)| {
            let first = self.shadow.race(&touch.footprint, touch.write, &clock)?.clone();
            Some(Race { first, number })
        })
    }

    /// Records the accesses of a submission.
    pub fn submit(&mut self, stream: StreamKey, touches: &[Touch], site: &Arc<Site>) {
        let slot = self.slot(stream);
        let time = self.clock(stream).tick(slot);
        for Touch { footprint, write } in touches {
            let (footprint, site) = (footprint.clone(), Arc::clone(site));
            self.shadow.add(&Past { slot, time, write: *write, footprint, site, is_freed: false }, &self.clocks[slot]);
        }
    }

    /// Notes that a block was allocated for a stream. Accesses of other streams to its memory no longer count.
    pub fn allocated(&mut self, stream: StreamKey, begin: usize, end: usize) {
        let slot = self.slot(stream);
        self.shadow.retire(begin, end, Some(slot));
    }

    /// Notes that a block of a stream is freed; returns a use by another stream that has not been waited for. `users`: the streams
    /// that the pool waits for. `current`: the current stream of the freeing thread. If only `current` has such a use, the block's
    /// stream can still wait for it, and the result says how ([`Awaited`]).
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

    pub fn has_waited(&mut self, awaited: Awaited) -> bool {
        self.clock(awaited.stream).get(awaited.slot) >= awaited.time
    }

    /// Notes that a pinned block is freed; returns a use by a stream in `users` that the host has not waited for.
    pub fn host_freed(&mut self, begin: usize, end: usize, users: &[StreamKey]) -> Option<Past> {
        let known: Vec<_> = users.iter().filter_map(|user| self.slots.get(user)).collect();
        let found = self.shadow.unordered(begin, end, &self.host, |past| known.contains(&&past.slot)).cloned();
        self.shadow.retire(begin, end, None);
        found
    }

    /// Forgets the accesses to some bytes.
    pub fn forget(&mut self, begin: usize, end: usize) {
        self.shadow.retire(begin, end, None);
    }
}
