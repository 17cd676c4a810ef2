//! Invariants of the pool, checked over all of its blocks and lists.

use std::collections::HashSet;

use super::super::block::{BlockId, Kind, NONE, State};
use super::super::caching_pool::Pool;
use super::super::free_list::UNIT;
use super::super::stats::Stats;

/// Panics where an invariant of the pool does not hold.
pub fn check(pool: &Pool) {
    let mut counts = Stats::default();
    let mut free = HashSet::new();
    for (&address, segment) in &pool.segments {
        let kind = segment.kind as usize;
        counts.segment.increase(kind, 1);
        counts.reserved_bytes.increase(kind, segment.size);
        let (mut next, mut expected, mut before) = (pool.arena.start(address), address, NONE);
        while next != NONE {
            let block = &pool.blocks[next];
            assert_eq!((block.address, block.before), (expected, before), "blocks follow each other");
            assert!(block.size > 0 && block.size.is_multiple_of(UNIT), "block of {} bytes", block.size);
            assert_eq!((block.owner, block.kind), (segment.owner, segment.kind));
            let neighbour_is_free = before != NONE && pool.blocks[before].state == State::Free;
            assert!(!(neighbour_is_free && block.state == State::Free), "two free neighbours");
            count_block(pool, next, kind, &mut counts);
            if block.state == State::Free {
                free.insert(next);
            }
            (expected, before, next) = (block.address + block.size, next, block.after);
        }
        assert_eq!(expected, address + segment.size, "blocks fill their segment");
    }
    assert_eq!(listed(pool), free, "free blocks are in the lists, and no others");
    compare(pool.stats, counts);
}

fn count_block(pool: &Pool, id: BlockId, kind: usize, counts: &mut Stats) {
    let block = &pool.blocks[id];
    if matches!(block.state, State::Allocated | State::InFrontCache) {
        let is_live = block.state == State::Allocated;
        assert_eq!(pool.live(block.address), is_live.then_some(id));
        assert!(is_live || pool.is_in_front_cache(id), "a block of this state is in the front cache");
        counts.allocation.increase(kind, 1);
        counts.allocated_bytes.increase(kind, block.size);
    }
    if block.state == State::Free {
        if block.is_split() {
            counts.inactive_split.increase(kind, 1);
            counts.inactive_split_bytes.increase(kind, block.size);
        }
    } else {
        assert!(block.requested <= block.size);
        counts.active.increase(kind, 1);
        counts.active_bytes.increase(kind, block.size);
        counts.requested_bytes.increase(kind, block.requested);
    }
}

fn listed(pool: &Pool) -> HashSet<BlockId> {
    let mut all = HashSet::new();
    for (owner, lists) in pool.lists.iter().enumerate() {
        for (list, kind, oversize) in
            [(&lists.small, Kind::Small, false), (&lists.large, Kind::Large, false), (&lists.oversize, Kind::Large, true)]
        {
            for id in list.ids(&pool.blocks) {
                let block = &pool.blocks[id];
                assert_eq!((block.owner as usize, block.kind, block.state), (owner, kind, State::Free));
                assert_eq!(kind == Kind::Large && block.size >= pool.settings.max_split_size, oversize);
                assert!(all.insert(id), "a block is in one list only");
            }
        }
    }
    all
}

fn compare(mut stats: Stats, mut counts: Stats) {
    for (place, (stat, count)) in stats.per_kind().into_iter().zip(counts.per_kind()).enumerate() {
        for (value, count) in stat.values.iter().zip(&count.values) {
            assert_eq!(value.current, count.current, "counter {place} of `Stats`: {value:?}");
            assert!(value.peak >= value.current && value.allocated - value.freed == value.current, "counter {place}: {value:?}");
        }
    }
}
