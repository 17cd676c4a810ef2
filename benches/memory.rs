//! Device memory: allocate and free from the cache, nanoseconds per pair.
//!
//! `cargo bench --bench memory`. The rows: one small size repeatedly; eight sizes that are held together and freed in another
//! order, so that blocks split and coalesce; a large size; and the small size through the C ABI, as called by the shim.

use std::hint::black_box;
use std::time::Instant;

use rustdev::abi::rd_memory::{rd_memory_allocate, rd_memory_free};
use rustdev::runtime::{device, pools};

/// Pairs per batch: few enough that most batches run without interruption.
const PAIRS: usize = 1000;
const BATCHES: usize = 500;

/// Prints the median over batches; `body` runs one batch.
fn report(name: &str, body: impl Fn()) {
    let batch = |_| {
        let start = Instant::now();
        body();
        start.elapsed().as_nanos() as f64 / PAIRS as f64
    };
    let mut times = (0..BATCHES).map(batch).collect::<Vec<_>>();
    times.sort_by(f64::total_cmp);
    println!("{name:<40} {:>8.1} ns", times[BATCHES / 2]);
}

fn pair(bytes: usize) {
    let pointer = pools::allocate(0, device::current_stream(0), black_box(bytes)).expect("the budget has room");
    pools::free(black_box(pointer));
}

fn mixed() {
    const SIZES: [usize; 8] = [512, 4096, 100_000, 700, 64 << 10, 1 << 20, 3 << 20, 9000];
    let stream = device::current_stream(0);
    let pointers = SIZES.map(|bytes| pools::allocate(0, stream, bytes).expect("the budget has room"));
    for index in [3, 0, 7, 4, 1, 6, 2, 5] {
        pools::free(black_box(pointers[index]));
    }
}

fn through_the_abi() {
    let (mut pointer, mut device) = (std::ptr::null_mut(), 0);
    let status = rd_memory_allocate(black_box(4096), &mut pointer, &mut device);
    assert_eq!(status, 0);
    rd_memory_free(black_box(pointer));
}

fn main() {
    report("allocate + free, 4 KiB", || (0..PAIRS).for_each(|_| pair(4096)));
    report("allocate + free, 64 MiB", || (0..PAIRS).for_each(|_| pair(64 << 20)));
    report("allocate + free, eight mixed sizes", || (0..PAIRS / 8).for_each(|_| mixed()));
    report("rd_memory_allocate + rd_memory_free", || (0..PAIRS).for_each(|_| through_the_abi()));
}
