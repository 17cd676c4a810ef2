//! Free list: the free blocks of one stream and kind, found by size in constant time.
//!
//! Source: M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004.
//! Sizes are counted in units of 512 bytes. A first level of powers of two is divided into 32 equal classes each. A bitmap per
//! level says which classes hold blocks, so that finding the smallest class that surely fits takes two bit scans.
//!
//! There is one difference from the paper. TLSF rounds a request up to the next class, and so never finds a free block of exactly
//! the requested size, unless that size is the lower end of its class. In training this is the most frequent case: each step
//! requests the same sizes. The request's own class is therefore searched first, but only over a few blocks. The rest of the class
//! is searched only if no larger class has a block, so that a request fails only if no block fits.

#![forbid(unsafe_code)]

use super::block::{BlockId, Blocks, NONE};
use crate::tuning::pools::PROBES;

/// Bytes of one unit: the granularity and the alignment of blocks.
pub const UNIT: usize = 512;

/// log2 of the number of classes per power of two.
const CLASS_BITS: u32 = 5;
const CLASSES: usize = 1 << CLASS_BITS;
/// Number of powers of two: up to 2^40 units, which is 2^49 bytes.
const LEVELS: usize = 36;

/// The level of a size, and the class within it.
#[inline]
fn class_of(size: usize) -> (usize, usize) {
    let units = size / UNIT;
    if units < CLASSES {
        return (0, units);
    }
    let log = units.ilog2();
    ((log - CLASS_BITS + 1) as usize, (units >> (log - CLASS_BITS)) & (CLASSES - 1))
}

/// Two-level segregated free lists.
#[derive(Debug)]
pub struct FreeList {
    levels: u64,
    classes: [u32; LEVELS],
    heads: Box<[[BlockId; CLASSES]; LEVELS]>,
}

impl Default for FreeList {
    fn default() -> Self {
        Self { levels: 0, classes: [0; LEVELS], heads: Box::new([[NONE; CLASSES]; LEVELS]) }
    }
}

impl FreeList {
    /// Inserts a block; it becomes the first of its class.
    #[inline]
    pub fn insert(&mut self, blocks: &mut Blocks, id: BlockId) {
        let (level, class) = class_of(blocks[id].size);
        let head = self.heads[level][class];
        let block = &mut blocks[id];
        block.list_before = NONE;
        block.list_after = head;
        if head != NONE {
            blocks[head].list_before = id;
        }
        self.heads[level][class] = id;
        self.classes[level] |= 1 << class;
        self.levels |= 1 << level;
    }

    #[inline]
    pub fn remove(&mut self, blocks: &mut Blocks, id: BlockId) {
        let (before, after) = (blocks[id].list_before, blocks[id].list_after);
        if after != NONE {
            blocks[after].list_before = before;
        }
        if before != NONE {
            blocks[before].list_after = after;
            return;
        }
        let (level, class) = class_of(blocks[id].size);
        self.heads[level][class] = after;
        if after == NONE {
            self.classes[level] &= !(1 << class);
            if self.classes[level] == 0 {
                self.levels &= !(1 << level);
            }
        }
    }

    /// Finds a block of at least `size` bytes, close to the smallest; it stays in its list.
    #[inline]
    pub fn find(&self, blocks: &Blocks, size: usize) -> Option<BlockId> {
        let (level, class) = class_of(size);
        let mut next = self.heads[level][class];
        for _ in 0..PROBES {
            if next == NONE {
                break;
            }
            if blocks[next].size >= size {
                return Some(next);
            }
            next = blocks[next].list_after;
        }
        if let Some(id) = self.first_above(level, class) {
            return Some(id);
        }
        while next != NONE {
            if blocks[next].size >= size {
                return Some(next);
            }
            next = blocks[next].list_after;
        }
        None
    }

    /// The first block of the smallest non-empty class above the given one.
    #[inline]
    fn first_above(&self, level: usize, class: usize) -> Option<BlockId> {
        let classes = self.classes[level] & (u32::MAX << class) & !(1 << class);
        if classes != 0 {
            return Some(self.heads[level][classes.trailing_zeros() as usize]);
        }
        let levels = self.levels & (u64::MAX << level) & !(1 << level);
        if levels == 0 {
            return None;
        }
        let level = levels.trailing_zeros() as usize;
        Some(self.heads[level][self.classes[level].trailing_zeros() as usize])
    }

    /// Every block of the lists.
    pub fn ids<'a>(&'a self, blocks: &'a Blocks) -> impl Iterator<Item = BlockId> + 'a {
        self.heads.iter().flatten().flat_map(|&head| {
            std::iter::successors((head != NONE).then_some(head), |&id| {
                let after = blocks[id].list_after;
                (after != NONE).then_some(after)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{Block, Kind};
    use super::*;

    fn fill(sizes: &[usize]) -> (FreeList, Blocks, Vec<BlockId>) {
        let (mut list, mut blocks) = (FreeList::default(), Blocks::default());
        let ids = sizes.iter().map(|&units| blocks.insert(Block::segment(0, units * UNIT, 0, Kind::Large))).collect::<Vec<_>>();
        for &id in &ids {
            list.insert(&mut blocks, id);
        }
        (list, blocks, ids)
    }

    #[test]
    fn classes_are_ordered_by_size() {
        let mut last = (0, 0);
        for units in (1..5000).chain((13..40).map(|bit| 1 << bit)) {
            let class = class_of(units * UNIT);
            assert!(class >= last, "{units} units are in {class:?}, after {last:?}");
            last = class;
        }
        assert!(last.0 < LEVELS);
    }

    #[test]
    fn the_exact_size_is_found_inside_a_class() {
        let (list, blocks, ids) = fill(&[10_001, 10_007, 10_003]);
        assert_eq!(list.find(&blocks, 10_007 * UNIT), Some(ids[1]));
        assert_eq!(list.find(&blocks, 10_008 * UNIT), None);
    }

    #[test]
    fn a_fitting_block_is_found_behind_many_that_do_not_fit() {
        let mut sizes = vec![10_009];
        sizes.extend(std::iter::repeat_n(10_001, 3 * PROBES));
        let (list, blocks, ids) = fill(&sizes);
        assert_eq!(list.find(&blocks, 10_009 * UNIT), Some(ids[0]));
    }

    #[test]
    fn found_exactly_when_one_fits() {
        let sizes = [1, 2, 31, 32, 33, 63, 64, 100, 1000, 4096, 4097, 40_960, 1 << 20];
        for (index, &only) in sizes.iter().enumerate() {
            let (mut list, mut blocks, ids) = fill(&[only]);
            for &asked in &sizes {
                assert_eq!(list.find(&blocks, asked * UNIT).is_some(), asked <= only, "{asked} of {only}");
            }
            list.remove(&mut blocks, ids[0]);
            assert_eq!(list.find(&blocks, UNIT), None, "{index}");
            assert_eq!((list.levels, list.ids(&blocks).count()), (0, 0));
        }
    }
}
