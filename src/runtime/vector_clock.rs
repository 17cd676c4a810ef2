//! Vector clocks: for each stream, how many of its accesses happened before a point.
#![forbid(unsafe_code)]

/// A clock with one component per stream, indexed by slot; missing components are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorClock(Vec<u64>);

impl VectorClock {
    /// A stream's component.
    pub fn get(&self, slot: usize) -> u64 {
        self.0.get(slot).copied().unwrap_or(0)
    }

    /// Increments a stream's component and returns it.
    pub fn tick(&mut self, slot: usize) -> u64 {
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] += 1;
        self.0[slot]
    }

    /// Takes the maximum with another clock, component by component.
    pub fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, &theirs) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(theirs);
        }
    }
}
