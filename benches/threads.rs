//! Fork-join and streams: a parallel loop compared with serial code and `rayon::join`, and the cost of submitting tasks.
//!
//! Each figure is the median of many calls, in microseconds. The loop adds two slices of floats. `gap` is a pause before each
//! call, in which helpers may fall asleep. The cost that `parallel_for` gets is the serial time, as a kernel would estimate it.

use std::hint::{black_box, spin_loop};
use std::ops::Range;
use std::time::{Duration, Instant};

use rustdev::runtime::device;
use rustdev::runtime::error::Cause;
use rustdev::runtime::parallel_for::{num_threads, parallel_for};
use rustdev::runtime::task::{Task, Work};

const SIZES: [usize; 9] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
const GAPS: [u64; 3] = [0, 20, 100];
/// The least elements of a chunk, as in kernels.
const CHUNK: usize = 4 << 10;

fn main() {
    println!("{} threads; medians in µs", num_threads());
    println!("{:>9} {:>4} {:>9} {:>9} {:>12} {:>14}", "elements", "gap", "serial", "loop", "rayon::join", "loop / serial");
    for elements in SIZES {
        let mut data = Data::new(elements);
        for gap in GAPS {
            data.compare(Duration::from_micros(gap));
        }
    }
    submissions();
}

struct Data {
    left: Vec<f32>,
    right: Vec<f32>,
    sum: Vec<f32>,
}

/// The start of a slice whose pieces are used by several threads.
struct Shared(*mut f32);

// SAFETY: `piece` hands out disjoint pieces only.
unsafe impl Sync for Shared {}

impl Shared {
    /// # Safety
    /// The range lies in the slice and overlaps no other piece that is in use.
    #[expect(clippy::mut_from_ref, reason = "the pieces are disjoint")]
    unsafe fn piece(&self, range: &Range<usize>) -> &mut [f32] {
        // SAFETY: the caller's promise.
        let start = unsafe { self.0.add(range.start) };
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, range.len()) }
    }
}

fn add(sum: &mut [f32], left: &[f32], right: &[f32]) {
    for ((sum, left), right) in sum.iter_mut().zip(left).zip(right) {
        *sum = left + right;
    }
}

impl Data {
    fn new(elements: usize) -> Self {
        Self { left: vec![1.0; elements], right: vec![2.0; elements], sum: vec![0.0; elements] }
    }

    fn serial(&mut self) {
        add(black_box(&mut self.sum), &self.left, &self.right);
    }

    fn in_parallel(&mut self, cost: u64) {
        let pieces = (self.sum.len() / CHUNK).min(4 * num_threads()).max(1);
        let length = self.sum.len() / pieces;
        let sum = Shared(self.sum.as_mut_ptr());
        parallel_for(pieces, cost, &|piece| {
            let range = piece * length..(piece + 1) * length;
            // SAFETY: the slice has `length * pieces` elements, and each piece is run once.
            let chunk = unsafe { sum.piece(&range) };
            add(black_box(chunk), &self.left[range.clone()], &self.right[range]);
        });
    }

    fn join(&mut self) {
        let half = self.sum.len() / 2;
        let (low, high) = self.sum.split_at_mut(half);
        let (left, right) = (&self.left, &self.right);
        rayon::join(|| add(black_box(low), &left[..half], &right[..half]), || add(black_box(high), &left[half..], &right[half..]));
    }

    /// Alternates between the three, so that other load on the machine affects all of them.
    fn compare(&mut self, gap: Duration) {
        let cost = median(9, Duration::ZERO, || self.serial());
        let calls = usize::try_from(20_000_000 / (cost + 2_000 + 3 * u64::try_from(gap.as_nanos()).unwrap_or(0))).unwrap_or(1);
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..4 {
            let calls = calls.clamp(40, 1000) / 4;
            times[0].push(median(calls, gap, || self.serial()));
            times[1].push(median(calls, gap, || self.in_parallel(cost)));
            times[2].push(median(calls, gap, || self.join()));
        }
        let [serial, ours, join] = times.map(|mut times| {
            times.sort_unstable();
            (times[1] + times[2]) as f64 / 2e3
        });
        let ratio = ours / serial;
        println!("{:>9} {:>4} {serial:>9.2} {ours:>9.2} {join:>12.2} {ratio:>14.2}", self.sum.len(), gap.as_micros());
    }
}

/// The median time of a call, in nanoseconds.
fn median(calls: usize, gap: Duration, mut call: impl FnMut()) -> u64 {
    let mut times: Vec<_> = (0..calls.max(1))
        .map(|_| {
            pause(gap);
            let start = Instant::now();
            call();
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn pause(gap: Duration) {
    let start = Instant::now();
    while start.elapsed() < gap {
        spin_loop();
    }
}

/// A task of the size of a queued kernel.
struct Nothing([u64; 30]);

impl Work for Nothing {
    fn run(&mut self) -> Result<(), Cause> {
        black_box(&self.0);
        Ok(())
    }
}

fn submissions() {
    const TASKS: u32 = 1000;
    let stream = device::get(0).expect("a device").create_stream(0);
    let submit = |cost: u64| stream.submit(Task::new("nothing", cost, Nothing([1; 30]))).expect("submitting succeeds");
    let (mut inline, mut enqueue, mut steal) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..50 {
        inline.push(median(1, Duration::ZERO, || (0..TASKS).for_each(|_| submit(1))));
        // After a sleep, so that nothing drains the stream meanwhile.
        stream.submit(Task::sleep(Duration::from_millis(2))).expect("submitting succeeds");
        enqueue.push(median(1, Duration::ZERO, || (0..TASKS).for_each(|_| submit(1))));
        stream.synchronize().expect("nothing fails");
        std::thread::sleep(Duration::from_millis(1));
        steal.push(median(1, Duration::ZERO, || {
            submit(1_000_000);
            stream.synchronize().expect("nothing fails");
        }));
    }
    let middle = |times: &mut Vec<u64>| {
        times.sort_unstable();
        times[times.len() / 2] as f64
    };
    println!("run a task inline:                 {:.0} ns", middle(&mut inline) / f64::from(TASKS));
    println!("enqueue a task behind others:      {:.0} ns", middle(&mut enqueue) / f64::from(TASKS));
    println!("submit to a sleeper + synchronize: {:.1} µs", middle(&mut steal) / 1e3);
}
