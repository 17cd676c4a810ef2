//! Loom model of the device pool: a block is reused only after its last use has ended and is visible to the new user.

use crate::runtime::memory::caching_pool::GENERAL;
use loom::cell::UnsafeCell;
use loom::thread;

use super::super::device_pool::DevicePool;
use super::invariants::check;
use super::{Counter, MIB, budget};
use crate::runtime::memory::Timeline;
use crate::runtime::sync::Arc;

/// Stands for the contents of a block; loom fails where two uses are not ordered.
#[derive(Default)]
struct Contents(UnsafeCell<u32>);

// SAFETY: loom itself checks that no two accesses to the cell are concurrent, which is what this model is about.
unsafe impl Sync for Contents {}

impl Contents {
    fn write(&self) {
        // SAFETY: loom hands out a valid pointer, and fails the model where another access is concurrent.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}

fn pool() -> Arc<DevicePool> {
    Arc::new(DevicePool::new(0, budget(4 * MIB), Box::new(Vec::new)).unwrap())
}

#[test]
fn loom_a_block_waits_for_the_other_stream() {
    loom::model(|| {
        let (pool, contents) = (pool(), Arc::new(Contents::default()));
        let (owner, user) = (Counter::leak(0), Counter::leak(1));
        let block = pool.allocate(owner, GENERAL, MIB).unwrap();
        user.submit();
        assert!(pool.record_stream(block, user));
        let task = {
            let contents = Arc::clone(&contents);
            thread::spawn(move || {
                contents.write();
                user.complete();
            })
        };
        pool.free(block);
        for _ in 0..2 {
            let next = pool.allocate(owner, GENERAL, MIB).unwrap();
            if next == block {
                contents.write();
            }
        }
        task.join().unwrap();
        check(&pool.lock());
    });
}

#[test]
fn loom_threads_never_hold_the_same_block() {
    loom::model(|| {
        let (pool, contents) = (pool(), Arc::new(Contents::default()));
        let stream = Counter::leak(0);
        let first = pool.allocate(stream, GENERAL, MIB).unwrap();
        pool.free(first);
        let threads = (0..2).map(|_| {
            let (pool, contents) = (Arc::clone(&pool), Arc::clone(&contents));
            thread::spawn(move || {
                let block = pool.allocate(stream, GENERAL, MIB).unwrap();
                if block == first {
                    contents.write();
                }
                pool.free(block);
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        check(&pool.lock());
        assert_eq!(pool.stats().active.current(), 0);
    });
}

#[test]
fn loom_memory_leaves_only_after_its_tasks() {
    loom::model(|| {
        let (pool, contents) = (pool(), Arc::new(Contents::default()));
        let stream = Counter::leak(0);
        let block = pool.allocate(stream, GENERAL, MIB).unwrap();
        stream.submit();
        pool.free(block);
        let task = {
            let contents = Arc::clone(&contents);
            thread::spawn(move || {
                contents.write();
                stream.complete();
            })
        };
        let mut locked = pool.lock();
        if locked.release_cached(None) > 0 {
            contents.write();
        }
        drop(locked);
        task.join().unwrap();
        assert_eq!(stream.completed(), stream.submitted());
    });
}
