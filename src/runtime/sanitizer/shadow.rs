//! Shadow memory: for each touched byte, the accesses that a later access may still race with.
//!
//! It maps disjoint address ranges to their accesses: the latest writes and the reads since. An access that happens before a newer
//! access to the same bytes is dropped, because whatever races with it also races with the newer one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::footprint::Footprint;
use crate::runtime::memory::history::Context;
use crate::runtime::vector_clock::VectorClock;

/// The most accesses kept per range; the oldest is dropped first.
const MOST: usize = 32;

/// A submission in a report.
#[derive(Clone)]
pub struct Site {
    pub operator: Arc<str>,
    /// The device and id of the stream; `None` for the host.
    pub stream: Option<(usize, i64)>,
    pub context: Option<Context>,
}

/// A recorded access.
#[derive(Clone)]
pub struct Past {
    /// The stream's slot in vector clocks, and its component at the access.
    pub slot: usize,
    pub time: u64,
    pub write: bool,
    pub footprint: Footprint,
    pub site: Arc<Site>,
    /// True if the memory has been freed since.
    pub is_freed: bool,
}

impl Past {
    /// True if it happened before the operation with that clock.
    pub fn is_before(&self, clock: &VectorClock) -> bool {
        self.time <= clock.get(self.slot)
    }
}

struct Range {
    end: usize,
    past: Vec<Past>,
}

/// The ranges by start address.
#[derive(Default)]
pub struct Shadow {
    ranges: BTreeMap<usize, Range>,
}

impl Shadow {
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// The accesses of all ranges that overlap `begin..end`.
    fn over(&self, begin: usize, end: usize) -> impl Iterator<Item = &Past> {
        let before = self.ranges.range(..begin).next_back().filter(|(_, range)| range.end > begin);
        before.into_iter().chain(self.ranges.range(begin..end)).flat_map(|(_, range)| &range.past)
    }

    /// An access that races with one of that footprint and clock.
    pub fn race(&self, footprint: &Footprint, write: bool, clock: &VectorClock) -> Option<&Past> {
        let races = |past: &&Past| (write || past.write) && !past.is_before(clock) && past.footprint.meets(footprint);
        self.over(footprint.begin, footprint.end).find(races)
    }

    /// An access to some bytes that neither happened before `clock` nor is accepted.
    pub fn unordered(&self, begin: usize, end: usize, clock: &VectorClock, accepts: impl Fn(&Past) -> bool) -> Option<&Past> {
        self.over(begin, end).find(|past| !past.is_before(clock) && !accepts(past))
    }

    /// Splits the range that contains an address.
    fn split(&mut self, address: usize) {
        let Some((_, range)) = self.ranges.range_mut(..address).next_back() else { return };
        if range.end > address {
            let rest = Range { end: range.end, past: range.past.clone() };
            range.end = address;
            self.ranges.insert(address, rest);
        }
    }

    /// Removes and returns the ranges within some bytes.
    fn take(&mut self, begin: usize, end: usize) -> Vec<(usize, Range)> {
        self.split(begin);
        self.split(end);
        let keys: Vec<_> = self.ranges.range(begin..end).map(|(&key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.ranges.remove_entry(&key)).collect()
    }

    pub fn add(&mut self, past: &Past, clock: &VectorClock) {
        let Footprint { begin, end, .. } = past.footprint;
        let taken = self.take(begin, end);
        if past.write && past.footprint.is_dense() {
            self.ranges.insert(begin, Range { end, past: vec![past.clone()] });
            return;
        }
        let mut next = begin;
        for (start, mut range) in taken {
            self.fill(next, start, past);
            next = range.end;
            range.add(past, clock);
            self.ranges.insert(start, range);
        }
        self.fill(next, end, past);
    }

    /// Adds a range for bytes without accesses.
    fn fill(&mut self, begin: usize, end: usize, past: &Past) {
        if begin < end {
            self.ranges.insert(begin, Range { end, past: vec![past.clone()] });
        }
    }

    /// Forgets the accesses to some bytes, except the latest write and the latest read of the stream with slot `keeper`, which
    /// orders its own later tasks after them.
    pub fn retire(&mut self, begin: usize, end: usize, keeper: Option<usize>) {
        let taken = self.take(begin, end);
        let own: Vec<_> = taken.iter().flat_map(|(_, range)| &range.past).filter(|past| Some(past.slot) == keeper).collect();
        let latest = |write: bool| own.iter().filter(|past| past.write == write).max_by_key(|past| past.time);
        let footprint = Footprint::dense(begin, end);
        let freed = |past: &&&Past| Past { footprint: footprint.clone(), is_freed: true, ..(**past).clone() };
        let past: Vec<_> = latest(true).iter().chain(&latest(false)).map(freed).collect();
        if !past.is_empty() {
            self.ranges.insert(begin, Range { end, past });
        }
    }
}

impl Range {
    fn add(&mut self, past: &Past, clock: &VectorClock) {
        let covers = |old: &Past| past.footprint.is_dense() || (old.footprint.is_alike(&past.footprint));
        let is_over = |old: &Past| old.is_before(clock) && covers(old) && (past.write || !old.write);
        self.past.retain(|old| !is_over(old));
        if self.past.len() == MOST {
            self.past.remove(0);
        }
        self.past.push(past.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(slot: usize, time: u64, write: bool, begin: usize, end: usize) -> Past {
        let site = Arc::new(Site { operator: "test".into(), stream: Some((0, slot as i64)), context: None });
        Past { slot, time, write, footprint: Footprint::dense(begin, end), site, is_freed: false }
    }

    fn add(shadow: &mut Shadow, clock: &mut VectorClock, slot: usize, write: bool, begin: usize, end: usize) {
        let time = clock.tick(slot);
        shadow.add(&past(slot, time, write, begin, end), clock);
    }

    #[test]
    fn ranges_stay_disjoint_and_are_forgotten() {
        let (mut shadow, mut clock) = (Shadow::default(), VectorClock::default());
        for (begin, end, write) in [(0, 100, true), (50, 150, false), (20, 30, true), (10, 140, false), (0, 200, false)] {
            add(&mut shadow, &mut clock, 0, write, begin, end);
            let mut last = 0;
            for (&begin, range) in &shadow.ranges {
                assert!(begin >= last && range.end > begin && range.past.len() <= 2);
                last = range.end;
            }
        }
        add(&mut shadow, &mut clock, 0, true, 0, 200);
        assert_eq!(shadow.ranges.len(), 1);
        shadow.retire(0, 200, None);
        assert!(shadow.ranges.is_empty());
    }
}
