//! Blocks that other processes use, and memory of theirs.

use std::sync::Arc;

use super::super::caching_pool::{GENERAL, Pool, Request};
use super::invariants::check;
use super::{Counter, MIB, budget, file};

fn request(stream: &'static Counter, bytes: usize) -> Request {
    Request { stream, private: GENERAL, bytes, context: None, collected: false }
}

fn allocate(pool: &mut Pool, stream: &'static Counter, bytes: usize) -> usize {
    pool.allocate(&request(stream, bytes)).unwrap().0
}

#[test]
fn a_sent_block_stays_allocated_until_its_sends_are_over() {
    let stream = Counter::leak(0);
    let mut pool = Pool::new(budget(64 * MIB)).unwrap();
    let block = allocate(&mut pool, stream, 1000);
    assert!(pool.send(block) && pool.send(block) && !pool.send(block + 512));
    assert_eq!((pool.free(block, None), pool.free(block, None)), (Some(1024), None));
    pool.settle();
    check(&pool);
    assert_eq!(pool.stats.allocated_bytes.current(), 1024);
    assert_ne!(allocate(&mut pool, stream, 1000), block);
    pool.end_send(block);
    assert_eq!(pool.stats.allocated_bytes.current(), 2048);
    pool.end_send(block);
    pool.settle();
    check(&pool);
    assert_eq!(pool.stats.allocated_bytes.current(), 1024);
    assert_eq!(allocate(&mut pool, stream, 1000), block);
}

#[test]
fn a_block_whose_sends_are_over_is_freed_as_any_other() {
    let stream = Counter::leak(0);
    let mut pool = Pool::new(budget(64 * MIB)).unwrap();
    let block = allocate(&mut pool, stream, 20 * MIB);
    assert!(pool.send(block));
    pool.end_send(block);
    pool.end_send(block);
    assert_eq!(pool.stats.allocated_bytes.current(), 20 * MIB as i64);
    pool.free(block, None);
    check(&pool);
    assert_eq!(pool.stats.allocated_bytes.current(), 0);
}

#[test]
fn a_segment_that_a_file_replaces_is_counted_as_before_and_given_back_with_it() {
    let stream = Counter::leak(0);
    let mut pool = Pool::new(budget(64 * MIB)).unwrap();
    let [first, second] = [3000, 5 * 512].map(|bytes| allocate(&mut pool, stream, bytes));
    let place = pool.whereabouts(second + 600).unwrap();
    assert_eq!((place.block, place.segment, place.file.is_none(), place.timelines.len()), (second, (first, 2 * MIB), true, 1));
    assert!(pool.whereabouts(second + 5 * 512).is_none() && pool.whereabouts(first - 1).is_none());
    let before = pool.stats;
    let memory = Arc::new(file(2 * MIB));
    // SAFETY: nothing else knows the segment.
    unsafe { pool.replace(first, Arc::clone(&memory)) }.unwrap();
    assert!(Arc::ptr_eq(&pool.whereabouts(first).unwrap().file.unwrap(), &memory));
    check(&pool);
    assert_eq!(pool.stats.reserved_bytes, before.reserved_bytes);
    // SAFETY: as above.
    unsafe { pool.replace(first, Arc::new(file(2 * MIB))) }.unwrap();
    pool.free(first, None);
    pool.free(second, None);
    pool.settle();
    assert_eq!(pool.release_cached(None), 2 * MIB);
    check(&pool);
    assert_eq!(Arc::strong_count(&memory), 1, "the pool keeps the first file as long as the segment, and no other");
}

#[test]
fn foreign_memory_is_in_the_range_and_in_no_counter() {
    let mut pool = Pool::new(budget(64 * MIB)).unwrap();
    let address = pool.map_foreign(&file(2 * MIB), 2 * MIB).unwrap();
    let (base, length) = pool.bounds();
    assert!((base..base + length).contains(&address));
    assert!(pool.is_foreign(address + 2 * MIB - 1) && !pool.is_foreign(address + 2 * MIB) && !pool.is_foreign(address - 1));
    assert!(pool.whereabouts(address).is_none());
    assert_eq!(pool.stats.reserved_bytes.current(), 0);
    check(&pool);
    pool.unmap_foreign(address);
    assert!(!pool.is_foreign(address));
    assert_eq!(pool.map_foreign(&file(2 * MIB), 2 * MIB).unwrap(), address);
}
