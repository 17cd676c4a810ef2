//! The device pool under random steps from several threads.

use crate::runtime::memory::caching_pool::GENERAL;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::device_pool::DevicePool;
use super::{MIB, budget, leak};
use crate::runtime::memory::Timeline;
use crate::runtime::sync::Mutex;

const THREADS: usize = 4;
const STREAMS: usize = 4;
const STEPS: usize = 10_000;

/// Blocks in use, by address: length, and how many users there are.
static IN_USE: Mutex<BTreeMap<usize, (usize, usize)>> = Mutex::new(BTreeMap::new());

fn begin_use(address: usize, size: usize) {
    let mut used = IN_USE.lock();
    let before = used.range(..address + size).next_back().map(|(&start, &(length, _))| start + length);
    assert!(before.is_none_or(|end| end <= address), "a block in use was given out");
    used.insert(address, (size, 1));
}

fn share_use(address: usize) {
    IN_USE.lock().get_mut(&address).expect("in use").1 += 1;
}

fn end_use(address: usize) {
    let mut used = IN_USE.lock();
    let users = &mut used.get_mut(&address).expect("in use").1;
    *users -= 1;
    if *users == 0 {
        used.remove(&address);
    }
}

/// A stream whose tasks each use one block; their use ends before they count as completed.
#[derive(Debug, Default)]
struct SimulatedStream {
    id: i64,
    tasks: Mutex<Vec<usize>>,
    submitted: AtomicU64,
    completed: AtomicU64,
}

impl SimulatedStream {
    fn submit(&self, address: usize) {
        let mut tasks = self.tasks.lock();
        share_use(address);
        tasks.push(address);
        self.submitted.fetch_add(1, Ordering::AcqRel);
    }
}

impl Timeline for SimulatedStream {
    fn device(&self) -> usize {
        0
    }

    fn id(&self) -> i64 {
        self.id
    }

    fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    fn finish(&'static self) {
        let mut tasks = self.tasks.lock();
        for address in tasks.drain(..) {
            end_use(address);
            self.completed.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// A small generator of numbers (xorshift), so that the steps are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn steps(pool: &DevicePool, streams: &[&'static SimulatedStream], seed: u64) {
    let mut random = Random(seed);
    let mut held = Vec::new();
    for _ in 0..STEPS / THREADS {
        let stream = streams[random.below(STREAMS)];
        match random.below(8) {
            0..=3 => {
                let most = [2000, MIB, 8 * MIB][random.below(3)];
                let bytes = 1 + random.below(most);
                if let Ok(address) = pool.allocate(stream, GENERAL, bytes) {
                    begin_use(address, bytes);
                    held.push((address, stream.id));
                }
            }
            4 | 5 if !held.is_empty() => {
                let (address, _) = held.swap_remove(random.below(held.len()));
                end_use(address);
                pool.free(address);
            }
            6 if !held.is_empty() => {
                let (address, owner) = held[random.below(held.len())];
                pool.record_stream(address, stream).unwrap();
                if stream.id != owner {
                    stream.submit(address);
                }
            }
            7 if random.below(8) == 0 => stream.finish(),
            7 if random.below(32) == 0 => pool.empty_cache(),
            _ => {}
        }
        if held.len() > 40 {
            let (address, _) = held.swap_remove(0);
            end_use(address);
            pool.free(address);
        }
    }
    for (address, _) in held {
        end_use(address);
        pool.free(address);
    }
}

#[test]
fn random_steps_from_four_threads_on_four_streams() {
    let streams = (0..STREAMS).map(|id| leak(SimulatedStream { id: id as i64, ..SimulatedStream::default() })).collect::<Vec<_>>();
    let timelines = streams.iter().map(|&stream| stream as &'static dyn Timeline).collect::<Vec<_>>();
    let pool = DevicePool::new(0, budget(256 * MIB), Box::new(move || timelines.clone())).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, streams) = (&pool, &streams);
            scope.spawn(move || steps(pool, streams, 0x9E37_79B9 + thread as u64));
        }
    });
    super::invariants::check(&pool.lock());
    pool.empty_cache();
    let stats = pool.stats();
    assert!(IN_USE.lock().is_empty());
    assert_eq!(
        (stats.active_bytes.current(), stats.reserved_bytes.current(), stats.num_device_alloc - stats.num_device_free),
        (0, 0, 0)
    );
    assert!(stats.allocation.values[0].allocated > 1000, "{stats:?}");
}
