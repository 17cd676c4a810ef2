//! The pool against a simple model: a list of the blocks that are in use, after every step of random sequences.

use proptest::prelude::*;

use super::super::caching_pool::{Pool, Refusal, Request, Settings};
use super::invariants::check;
use super::{Counter, MIB};
use crate::runtime::memory::Timeline;

const STREAMS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Allocate { stream: usize, bytes: usize },
    Free { index: usize },
    Record { index: usize, stream: usize },
    Submit { stream: usize },
    Complete { stream: usize },
    Reclaim,
    ReleaseCached,
    CollectGarbage,
    Look,
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(100), 4 => 1..4096_usize, 4 => 1..=2 * MIB, 3 => MIB..12 * MIB, 1 => 8 * MIB..50 * MIB]
}

fn step() -> impl Strategy<Value = Step> {
    let (stream, index) = (0..STREAMS, 0..64_usize);
    prop_oneof![
        8 => (stream.clone(), bytes()).prop_map(|(stream, bytes)| Step::Allocate { stream, bytes }),
        6 => index.clone().prop_map(|index| Step::Free { index }),
        3 => (index, stream.clone()).prop_map(|(index, stream)| Step::Record { index, stream }),
        3 => stream.clone().prop_map(|stream| Step::Submit { stream }),
        3 => stream.prop_map(|stream| Step::Complete { stream }),
        1 => Just(Step::Reclaim),
        1 => Just(Step::ReleaseCached),
        1 => Just(Step::CollectGarbage),
        6 => Just(Step::Look),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let split = prop_oneof![3 => Just(usize::MAX), 1 => 20 * MIB..40 * MIB];
    let threshold = prop_oneof![2 => Just(0.0), 1 => 0.2..0.9];
    (split, threshold, 0.3..=1.0).prop_map(|(max_split_size, garbage_collection_threshold, fraction)| Settings {
        budget: 96 * MIB,
        fraction,
        max_split_size,
        garbage_collection_threshold,
    })
}

/// A block that tasks may still use.
struct Used {
    begin: usize,
    end: usize,
    bytes: usize,
    stream: usize,
    /// Other streams that use it.
    others: Vec<usize>,
}

struct Model {
    pool: Pool,
    streams: Vec<&'static Counter>,
    live: Vec<Used>,
    /// Freed blocks, each with the positions that other streams must complete.
    pending: Vec<(Used, Vec<(usize, u64)>)>,
}

impl Model {
    fn new(settings: Settings) -> Self {
        let streams = (0..STREAMS).map(|id| Counter::leak(id as i64)).collect();
        Self { pool: Pool::new(settings).unwrap(), streams, live: Vec::new(), pending: Vec::new() }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Allocate { stream, bytes } => self.allocate(stream, bytes),
            Step::Free { index } => self.free(index),
            Step::Record { index, stream } => self.record(index, stream),
            Step::Submit { stream } => self.streams[stream].submit(),
            Step::Complete { stream } => self.streams[stream].complete(),
            Step::Reclaim => self.pool.reclaim(),
            Step::ReleaseCached => drop(self.pool.release_cached(None)),
            Step::CollectGarbage => drop(self.pool.collect_garbage(None)),
            Step::Look => self.pool.settle(),
        }
        self.settle();
        check(&self.pool);
    }

    fn allocate(&mut self, stream: usize, bytes: usize) {
        self.settle();
        let reserved = self.pool.stats.reserved_bytes.current() as usize;
        let mut request = Request { stream: self.streams[stream], private: 0, bytes, context: None, collected: false };
        let mut granted = self.pool.allocate(&request);
        if granted == Err(Refusal::Garbage) {
            request.collected = true;
            granted = self.pool.allocate(&request);
        }
        match granted {
            Ok((begin, size)) => {
                let end = begin + size;
                assert!(size >= bytes && begin.is_multiple_of(512));
                let in_use = self.live.iter().chain(self.pending.iter().map(|(used, _)| used));
                for used in in_use {
                    assert!(end <= used.begin || used.end <= begin, "a block in use was given out");
                }
                self.live.push(Used { begin, end, bytes, stream, others: Vec::new() });
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Limit);
                let segment = super::super::caching_pool::segment_size(bytes.next_multiple_of(512));
                assert!(reserved + segment > self.pool.settings.limit(), "refused with room left");
            }
        }
        assert!(self.pool.stats.reserved_bytes.current() as usize <= self.pool.settings.limit());
    }

    fn free(&mut self, index: usize) {
        if self.live.is_empty() {
            return;
        }
        let used = self.live.swap_remove(index % self.live.len());
        assert_eq!(self.pool.free(used.begin, None), Some(used.end - used.begin));
        assert_eq!(self.pool.free(used.begin, None), None, "freed twice");
        let positions = used.others.iter().map(|&other| (other, self.streams[other].submitted())).collect();
        self.pending.push((used, positions));
    }

    fn record(&mut self, index: usize, stream: usize) {
        if self.live.is_empty() {
            return;
        }
        let index = index % self.live.len();
        let used = &mut self.live[index];
        assert!(self.pool.record_stream(used.begin, self.streams[stream]));
        if used.stream != stream {
            used.others.push(stream);
        }
    }

    /// Forgets freed blocks whose other streams are done.
    fn settle(&mut self) {
        let streams = &self.streams;
        self.pending.retain(|(_, positions)| positions.iter().any(|&(stream, position)| streams[stream].completed() < position));
    }

    fn end(mut self) {
        while !self.live.is_empty() {
            self.free(0);
        }
        for stream in &self.streams {
            stream.finish();
        }
        self.pool.settle();
        self.pool.reclaim();
        assert_eq!(self.pool.stats.active_bytes.current(), 0, "leaked");
        self.pool.release_cached(None);
        check(&self.pool);
        assert_eq!(self.pool.stats.reserved_bytes.current(), 0, "a segment stayed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_overlap_no_leak_and_exact_statistics(settings in settings(), steps in prop::collection::vec(step(), 1..250)) {
        let mut model = Model::new(settings);
        let (mut allocated_peak, mut requested_peak) = (0, 0);
        for step in &steps {
            model.run(step);
            let requested = model.live.iter().map(|used| used.bytes as i64).sum::<i64>();
            let allocated = model.live.iter().map(|used| (used.end - used.begin) as i64).sum::<i64>();
            allocated_peak = allocated_peak.max(allocated);
            requested_peak = requested_peak.max(requested);
            if let Step::Look = step {
                let stats = model.pool.stats;
                prop_assert_eq!(stats.allocated_bytes.current(), allocated);
                prop_assert!(stats.requested_bytes.current() >= requested);
                prop_assert_eq!(stats.allocated_bytes.values[0].peak, allocated_peak);
                prop_assert!(stats.requested_bytes.values[0].peak >= requested_peak);
            }
        }
        model.end();
    }
}
