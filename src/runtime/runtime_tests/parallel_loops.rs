//! Parallel loops: nested, with panics, on how many threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::runtime::parallel_for::{num_threads, parallel_for};
use crate::runtime::slot::{Slot, Work};
use crate::runtime::sync::{AtomicUsize, Mutex, Ordering};

const COSTS: [u64; 4] = [0, 5_000, 50_000, 5_000_000];

fn check(count: usize, cost: u64) {
    let chunks: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
    parallel_for(count, cost, &|chunk| _ = chunks[chunk].fetch_add(1, Ordering::Relaxed));
    assert!(chunks.iter().all(|chunk| chunk.load(Ordering::Relaxed) == 1), "{count} chunks of {cost} ns");
}

#[test]
fn nested_loops_end() {
    let total = AtomicUsize::new(0);
    let inner = |_| parallel_for(8, 1_000_000, &|_| _ = total.fetch_add(1, Ordering::Relaxed));
    parallel_for(8, 1_000_000, &inner);
    assert_eq!(total.load(Ordering::Relaxed), 64);
}

#[test]
fn at_most_the_configured_number_of_threads_take_part() {
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for _ in 0..50 {
        parallel_for(64, 2_000_000, &|_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(std::time::Duration::from_micros(20));
            now.fetch_sub(1, Ordering::SeqCst);
        });
    }
    assert!(most.load(Ordering::SeqCst) <= num_threads(), "{most:?}");
}

#[test]
fn a_panic_reaches_the_caller_after_all_have_left() {
    let inside = AtomicUsize::new(0);
    for cost in COSTS {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            parallel_for(100, cost, &|chunk| {
                inside.fetch_add(1, Ordering::SeqCst);
                let fails = chunk == 37;
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(!fails, "chunk 37");
            });
        }));
        assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"chunk 37"));
        assert_eq!(inside.load(Ordering::SeqCst), 0);
        check(50, cost);
    }
}

#[test]
fn the_runtime_helps_from_several_threads() {
    let ids = Mutex::new(std::collections::HashSet::new());
    for _ in 0..20 {
        parallel_for(64, 20_000_000, &|_| {
            ids.lock().insert(thread::current().id());
            thread::sleep(std::time::Duration::from_micros(200));
        });
    }
    assert!(num_threads() == 1 || ids.lock().len() > 1, "only the caller ran chunks");
}

#[test]
fn a_thread_begins_with_the_share_of_its_place() {
    let taken = Mutex::new(Vec::new());
    let body = |chunk| taken.lock().push(chunk);
    let work = Work { count: 6, grain: 1, body: &body };
    Slot::new().claim().unwrap().run(work, 2, |shares| Some(shares - 1), || {});
    assert_eq!(*taken.lock(), [4, 5, 0, 1, 2, 3]);
}
