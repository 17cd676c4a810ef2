//! Out of memory: which caches are released, which requests fail, and with which error.

use crate::runtime::memory::caching_pool::GENERAL;
use std::sync::{Arc, OnceLock};

use super::super::device_pool::{DevicePool, Surroundings};
use super::super::observe;
use super::super::shared_budget::SharedBudget;
use super::{Counter, MIB, budget};
use crate::runtime::Error;
use crate::runtime::memory::Timeline;
use crate::runtime::sync::Mutex;

fn pool(bytes: usize, streams: &[&'static Counter]) -> DevicePool {
    let streams = streams.iter().map(|&stream| stream as &'static dyn Timeline).collect::<Vec<_>>();
    DevicePool::new(7, budget(bytes), Box::new(move || streams.clone())).unwrap()
}

#[test]
fn the_cache_is_given_back_before_an_error() {
    let stream = Counter::leak(0);
    let pool = pool(64 * MIB, &[stream]);
    let blocks = [pool.allocate(stream, GENERAL, 30 * MIB).unwrap(), pool.allocate(stream, GENERAL, 30 * MIB).unwrap()];
    stream.submit();
    for block in blocks {
        assert!(pool.free(block));
    }
    let whole = pool.allocate(stream, GENERAL, 60 * MIB).unwrap();
    assert_eq!(stream.completed(), 1, "the device was waited for");
    let stats = pool.stats();
    assert_eq!((stats.num_alloc_retries, stats.num_ooms, stats.num_sync_all_streams, stats.num_device_free), (1, 0, 1, 2));
    pool.free(whole);
}

#[test]
fn blocks_that_wait_for_another_stream_are_waited_for() {
    let (owner, user) = (Counter::leak(0), Counter::leak(1));
    let pool = pool(64 * MIB, &[owner]);
    let block = pool.allocate(owner, GENERAL, 60 * MIB).unwrap();
    user.submit();
    pool.record_stream(block, user).unwrap();
    pool.free(block);
    assert_eq!(pool.stats().active_bytes.current() as usize, 60 * MIB);
    assert!(pool.allocate(owner, GENERAL, 50 * MIB).is_ok());
}

#[test]
fn an_error_tells_the_sizes_and_the_observers_and_the_pool_works_on() {
    let stream = Counter::leak(0);
    let pool = pool(64 * MIB, &[stream]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    observe::attach_shortage_observer(Arc::new(move |shortage| {
        if shortage.device == 7 {
            sink.lock().push((shortage.asked, shortage.total, shortage.free));
        }
    }));
    let held = pool.allocate(stream, GENERAL, 40 * MIB).unwrap();
    let Err(Error::OutOfMemory(text)) = pool.allocate(stream, GENERAL, 30 * MIB) else { panic!("no error") };
    for part in
        ["allocate 30.00 MiB", "capacity of 64.00 MiB", "24.00 MiB is free", "40.00 MiB is allocated", "0 bytes is reserved"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(*seen.lock(), [(30 * MIB, 64 * MIB, 24 * MIB)]);
    assert_eq!(pool.stats().num_ooms, 1);
    assert!(pool.allocate(stream, GENERAL, usize::MAX).is_err());
    pool.free(held);
    assert!(pool.allocate(stream, GENERAL, 64 * MIB).is_ok());
}

#[test]
fn the_fraction_limits_the_process() {
    let stream = Counter::leak(0);
    let pool = pool(64 * MIB, &[stream]);
    pool.set_fraction(0.5);
    let Err(Error::OutOfMemory(text)) = pool.allocate(stream, GENERAL, 40 * MIB) else { panic!("no error") };
    assert!(text.contains("may use 32.00 MiB"), "{text}");
    assert!(pool.allocate(stream, GENERAL, 32 * MIB).is_ok());
}

/// Streams, and a budget together with another pool.
struct Sharing {
    stream: &'static Counter,
    shared: Arc<SharedBudget>,
    other: &'static OnceLock<DevicePool>,
}

impl Surroundings for Sharing {
    fn streams(&self) -> Vec<&'static dyn Timeline> {
        vec![self.stream]
    }

    fn shared_budget(&self) -> Option<Arc<SharedBudget>> {
        Some(Arc::clone(&self.shared))
    }

    fn empty_other_caches(&self) {
        self.other.get().into_iter().for_each(DevicePool::empty_cache);
    }
}

#[test]
fn pools_that_share_a_budget_take_what_the_others_leave() {
    static OTHER: OnceLock<DevicePool> = OnceLock::new();
    static NONE: OnceLock<DevicePool> = OnceLock::new();
    let (first, second) = (Counter::leak(0), Counter::leak(1));
    let shared = Arc::new(SharedBudget::new(64 * MIB));
    let pool = |device, stream, other| {
        let around = Sharing { stream, shared: Arc::clone(&shared), other };
        DevicePool::new(device, budget(64 * MIB), Box::new(around)).unwrap()
    };
    let one = pool(0, first, &OTHER);
    let other = OTHER.get_or_init(|| pool(1, second, &NONE));
    let held = other.allocate(second, GENERAL, 40 * MIB).unwrap();
    assert_eq!((one.info(), other.info()), ((24 * MIB, 64 * MIB), (24 * MIB, 64 * MIB)));
    let Err(Error::OutOfMemory(text)) = one.allocate(first, GENERAL, 30 * MIB) else { panic!("no error") };
    assert!(text.contains("24.00 MiB is free") && text.contains("Other devices have reserved 40.00 MiB"), "{text}");
    // What the other has cached is given back for it.
    other.free(held);
    assert_eq!(other.info(), (24 * MIB, 64 * MIB));
    one.allocate(first, GENERAL, 64 * MIB).unwrap();
    assert_eq!((one.info().0, other.info().0, other.stats().num_device_free), (0, 0, 1));
}

#[test]
fn garbage_is_collected_on_the_way() {
    let stream = Counter::leak(0);
    let settings = super::Settings { garbage_collection_threshold: 0.5, ..budget(100 * MIB) };
    let pool = DevicePool::new(0, settings, Box::new(Vec::new)).unwrap();
    let old = pool.allocate(stream, GENERAL, 60 * MIB).unwrap();
    pool.free(old);
    pool.allocate(stream, GENERAL, 64 * MIB).unwrap();
    let stats = pool.stats();
    assert_eq!((stats.num_device_free, stats.num_alloc_retries), (1, 0));
}

#[test]
fn an_emptied_cache_is_given_back() {
    let stream = Counter::leak(0);
    let pool = pool(64 * MIB, &[stream]);
    let kept = pool.allocate(stream, GENERAL, 100).unwrap();
    pool.free(pool.allocate(stream, GENERAL, 30 * MIB).unwrap());
    stream.submit();
    pool.empty_cache();
    assert_eq!(pool.info(), (62 * MIB, 64 * MIB));
    pool.free(kept);
    pool.empty_cache();
    assert_eq!(pool.info(), (64 * MIB, 64 * MIB));
}
