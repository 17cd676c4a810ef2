//! Tests of the pinned pool.

use super::super::pinned_pool::HostPool;
use super::{Counter, MIB};

#[test]
fn blocks_are_page_aligned_writable_and_cached_by_class() {
    let pool = HostPool::default();
    let block = pool.allocate(5000).unwrap();
    assert!(block.is_multiple_of(4096));
    let byte = (block + 4999) as *mut u8;
    // SAFETY: the byte lies inside the live block, which this test alone uses.
    unsafe { byte.write(1) };
    pool.free(block);
    assert_eq!(pool.allocate(8192).unwrap(), block, "5000 and 8192 bytes are of one class");
    assert_ne!(pool.allocate(8192).unwrap(), block);
    assert_ne!(pool.allocate(9000).unwrap(), block);
}

#[test]
fn pinned_means_inside_a_live_block() {
    let pool = HostPool::default();
    let block = pool.allocate(MIB).unwrap();
    assert!(pool.is_pinned(block) && pool.is_pinned(block + MIB - 1));
    assert!(!pool.is_pinned(block + MIB) && !pool.is_pinned(block - 1) && !pool.is_pinned(0));
    pool.free(block);
    assert!(!pool.is_pinned(block));
}

#[test]
fn reuse_waits_for_recorded_streams() {
    let pool = HostPool::default();
    let (stream, other) = (Counter::leak(0), Counter::leak(1));
    let block = pool.allocate(MIB).unwrap();
    stream.submit();
    other.submit();
    for recorded in [stream, other, stream] {
        assert!(pool.record_stream(block + 100, recorded));
    }
    pool.free(block);
    assert!(!pool.record_stream(block, stream));
    stream.complete();
    let meanwhile = pool.allocate(MIB).unwrap();
    assert_ne!(meanwhile, block);
    other.complete();
    assert_eq!(pool.allocate(MIB).unwrap(), block);
}

#[test]
fn statistics_count_blocks_and_bytes() {
    let pool = HostPool::default();
    let blocks = [pool.allocate(4096).unwrap(), pool.allocate(100_000).unwrap()];
    pool.free(blocks[0]);
    let stats = pool.stats();
    assert_eq!((stats.active_requests.current, stats.active_requests.peak, stats.allocations.current), (1, 2, 2));
    assert_eq!((stats.active_bytes.current, stats.allocated_bytes.current), (114_688, 118_784));
    assert_eq!((stats.num_host_alloc, stats.num_host_free, stats.host_alloc_time.count), (2, 0, 2));
    assert_eq!((stats.bucket_allocation[12], stats.bucket_allocation[17]), (1, 1));
    pool.free(blocks[1]);
    pool.empty_cache();
    let stats = pool.stats();
    assert_eq!((stats.allocations.current, stats.allocated_bytes.current, stats.num_host_free), (0, 0, 2));
    pool.with_stats(super::super::pinned_pool::HostStats::reset_peak);
    pool.with_stats(super::super::pinned_pool::HostStats::reset_accumulated);
    assert_eq!(pool.stats(), super::super::pinned_pool::HostStats::default());
}

#[test]
fn an_impossible_request_is_an_error() {
    let pool = HostPool::default();
    assert!(pool.allocate(usize::MAX).is_err());
    assert!(pool.allocate(1 << 55).is_err());
}
