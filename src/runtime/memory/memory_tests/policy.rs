//! Allocation policy: the blocks and segments that requests get, as PyTorch documents it.

use super::super::block::State;
use super::super::caching_pool::{GENERAL, Pool, Refusal, Request, Settings};
use super::super::device_pool::DevicePool;
use super::invariants::check;
use super::{Counter, MIB, budget};
use crate::runtime::memory::Timeline;

fn pool() -> Pool {
    Pool::new(budget(64 * MIB)).unwrap()
}

fn request(stream: &'static Counter, bytes: usize) -> Request {
    Request { stream, private: GENERAL, bytes, context: None, collected: false }
}

fn reserved(pool: &Pool) -> usize {
    pool.stats.reserved_bytes.current() as usize
}

#[test]
fn segments_have_the_documented_sizes() {
    for (bytes, size, segment) in [
        (1, 512, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 1, 10 * MIB, 10 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),
        (31 * MIB + 1, 32 * MIB, 32 * MIB),
    ] {
        let mut pool = pool();
        let block = pool.allocate(&request(Counter::leak(0), bytes)).unwrap();
        assert_eq!((block.1, reserved(&pool)), (size, segment), "{bytes} bytes");
    }
}

#[test]
fn labels_belong_to_live_blocks_and_go_with_them() {
    let mut pool = pool();
    let stream = Counter::leak(0);
    let [four, six, five] = [4, 6, 5].map(|size| pool.allocate(&request(stream, size * MIB)).unwrap().0);
    for (address, name) in [(four, "four"), (six, "six"), (five, "five")] {
        assert!(pool.set_label(address, Some(name.into())));
    }
    assert!(!pool.set_label(four + 512, Some("inside".into())));
    assert_eq!(pool.largest_labels(2), [("six".into(), 6 * MIB), ("five".into(), 5 * MIB)]);
    assert!(pool.set_label(six, None));
    pool.free(five, None);
    assert_eq!(pool.allocate(&request(stream, 5 * MIB)).unwrap().0, five);
    assert_eq!((pool.label(four).as_deref(), pool.label(six), pool.label(five)), (Some("four"), None, None));
    assert_eq!(pool.largest_labels(3), [("four".into(), 4 * MIB)]);
}

#[test]
fn segments_stay_while_queued_tasks_may_use_them() {
    let mut pool = pool();
    let stream = Counter::leak(0);
    let block = pool.allocate(&request(stream, 16 * MIB)).unwrap();
    stream.submit();
    pool.free(block.0, None);
    stream.submit();
    assert_eq!(pool.release_cached(None), 0);
    stream.complete();
    assert_eq!(pool.release_cached(None), 16 * MIB);
    check(&pool);
}

#[test]
fn old_segments_are_collected_before_new_ones() {
    let settings = Settings { garbage_collection_threshold: 0.6, ..budget(100 * MIB) };
    let mut pool = Pool::new(settings).unwrap();
    let stream = Counter::leak(0);
    let old = pool.allocate(&request(stream, 20 * MIB)).unwrap();
    let young = pool.allocate(&request(stream, 24 * MIB)).unwrap();
    pool.free(old.0, None);
    for _ in 0..8 {
        let small = pool.allocate(&request(stream, 100)).unwrap();
        pool.free(small.0, None);
    }
    pool.free(young.0, None);
    assert_eq!(pool.allocate(&request(stream, 26 * MIB)), Err(Refusal::Garbage));
    assert_eq!(pool.collect_garbage(None), 0, "46 MiB are below the threshold of 60");
    let mut next = request(stream, 26 * MIB);
    next.collected = true;
    pool.allocate(&next).unwrap();
    assert_eq!(pool.collect_garbage(None), 20 * MIB, "the old one goes, the young one stays");
    assert_eq!(reserved(&pool), (2 + 24 + 26) * MIB);
    check(&pool);
}

#[test]
fn a_request_beyond_any_address_space_is_refused() {
    let mut pool = pool();
    for bytes in [usize::MAX, isize::MAX as usize, 1 << 60] {
        assert_eq!(pool.allocate(&request(Counter::leak(0), bytes)), Err(Refusal::Limit));
    }
    assert_eq!(Counter::leak(0).submitted(), 0);
}

#[test]
fn the_block_that_rests_is_given_out_again_and_counted() {
    let mut pool = pool();
    let (stream, other) = (Counter::leak(0), Counter::leak(1));
    let first = pool.allocate(&request(stream, 100)).unwrap();
    assert_eq!(pool.free(first.0, None), Some(512));
    assert_eq!(pool.free(first.0, None), None, "freed twice");
    assert_eq!(pool.allocate(&request(stream, 100)), Ok(first));
    pool.settle();
    check(&pool);
    let (allocations, bytes) = (pool.stats.allocation.values[0], pool.stats.requested_bytes.values[1]);
    assert_eq!((allocations.current, allocations.peak, allocations.allocated, allocations.freed), (1, 1, 2, 1));
    assert_eq!((bytes.current, bytes.allocated, bytes.freed), (100, 200, 100));

    pool.free(first.0, None);
    assert_ne!(pool.allocate(&request(other, 100)).unwrap().0, first.0, "another stream's");
    assert_eq!(pool.allocate(&request(stream, 200)), Ok(first), "from the free list");
    check(&pool);
}

#[test]
fn the_blocks_freed_last_rest_and_the_oldest_makes_room() {
    let mut pool = pool();
    let stream = Counter::leak(0);
    let sizes = [100, 100, 2000, 100, 2000];
    let blocks = sizes.map(|bytes| pool.allocate(&request(stream, bytes)).unwrap());
    for (address, size) in blocks {
        assert_eq!(pool.free(address, None), Some(size));
    }
    let state = |pool: &Pool, place: usize| pool.blocks[pool.arena.start(blocks[place].0)].state;
    assert_eq!(state(&pool, 0), State::Free, "five were freed, the front cache holds four");
    assert_eq!(pool.allocate(&request(stream, 2000)), Ok(blocks[4]), "the one freed last");
    assert_eq!(pool.allocate(&request(stream, 100)), Ok(blocks[3]));
    assert_eq!(pool.allocate(&request(stream, 2000)), Ok(blocks[2]));
    assert_eq!(state(&pool, 1), State::InFrontCache);
    assert_eq!(pool.allocate(&request(stream, 300)), Ok(blocks[0]), "a request that none fits has all of them freed");
    check(&pool);
    let allocation = pool.stats.allocation.values[0];
    assert_eq!((allocation.current, allocation.peak, allocation.allocated, allocation.freed), (4, 5, 9, 5));
}

#[test]
fn lists_of_released_pools_are_used_again() {
    let mut pool = pool();
    let stream = Counter::leak(0);
    for private in 1..20 {
        let block = pool.allocate(&Request { private, ..request(stream, 100) }).unwrap();
        pool.free(block.0, None);
        pool.settle();
        pool.release_private(private);
        pool.release_idle(private);
        check(&pool);
    }
    assert_eq!((pool.lists.len(), reserved(&pool)), (1, 0));
}

#[test]
fn a_segment_of_a_released_pool_goes_with_its_last_block() {
    let mut pool = pool();
    let stream = Counter::leak(0);
    let own = |bytes| Request { private: 5, ..request(stream, bytes) };
    let blocks = [4096, 4096, 12 * MIB, 14 * MIB].map(|bytes| pool.allocate(&own(bytes)).unwrap().0);
    pool.release_private(5);
    for (block, left) in blocks.into_iter().zip([28, 26, 14]) {
        pool.free(block, None);
        pool.settle();
        check(&pool);
        assert_eq!(reserved(&pool), left * MIB);
    }
    stream.submit();
    pool.free(blocks[3], None);
    check(&pool);
    assert_eq!(reserved(&pool), 14 * MIB, "a task may still use the segment");
    stream.finish();
    pool.release_cached(None);
    check(&pool);
    assert_eq!((pool.lists.len(), reserved(&pool)), (1, 0));
}

#[test]
fn blocks_that_wait_for_another_stream_are_waited_for() {
    let (owner, user) = (Counter::leak(0), Counter::leak(1));
    let streams = move || vec![owner as &dyn Timeline];
    let pool = DevicePool::new(0, budget(64 * MIB), Box::new(streams)).unwrap();
    let block = pool.allocate(owner, GENERAL, 60 * MIB).unwrap();
    user.submit();
    assert!(pool.record_stream(block, user));
    pool.free(block);
    assert_eq!(pool.stats().active_bytes.current() as usize, 60 * MIB);
    assert!(pool.allocate(owner, GENERAL, 50 * MIB).is_ok());
}
