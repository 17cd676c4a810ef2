//! Quarantine: freed blocks, oldest first, which stay out of the pool until newer ones have filled it.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use super::guarded_blocks::GuardedBlock;
use crate::runtime::sync::{Arc, AtomicBool};

/// Bytes that the quarantine holds at most, of all devices.
const CAPACITY: usize = 16 << 20;

/// A freed block.
pub struct Freed {
    pub block: GuardedBlock,
    /// Where it was freed.
    pub place: String,
    /// Whether its poison was written.
    pub poisoned: Arc<AtomicBool>,
}

/// The freed blocks.
#[derive(Default)]
pub struct Quarantine {
    order: VecDeque<usize>,
    blocks: BTreeMap<usize, Freed>,
    bytes: usize,
}

impl Quarantine {
    pub const fn new() -> Self {
        Self { order: VecDeque::new(), blocks: BTreeMap::new(), bytes: 0 }
    }

    /// Takes a block in.
    pub fn put(&mut self, address: usize, freed: Freed) {
        self.bytes += freed.block.length;
        self.order.push_back(address);
        self.blocks.insert(address, freed);
    }

    /// The oldest block, if there are more bytes than may stay, or if `all` of them go.
    pub fn take(&mut self, all: bool) -> Option<(usize, Freed)> {
        if self.bytes <= if all { 0 } else { CAPACITY } {
            return None;
        }
        let address = self.order.pop_front()?;
        let freed = self.blocks.remove(&address)?;
        self.bytes -= freed.block.length;
        Some((address, freed))
    }

    /// A freed block that a range overlaps, the last one before its end, and its address.
    pub fn overlapping(&self, begin: usize, end: usize) -> Option<(usize, &Freed)> {
        let (&address, freed) = self.blocks.range(..end).next_back()?;
        (begin < address + freed.block.bytes).then_some((address, freed))
    }
}
