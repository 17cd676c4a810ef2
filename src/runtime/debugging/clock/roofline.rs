//! The durations of tasks on a card: a roofline with one set of efficiencies for all cards.
//!
//! A kernel takes [`KERNEL_NS`] and the greater of two times: its arithmetic over the peak of the unit that computes the dtype, and
//! its bytes over the bandwidth of the memory. docs/simulated-time.md has the sources of the constants, and compares the model with
//! published times.

use super::engine::{Engine, Job, WHOLE};
use crate::runtime::config::Profile;
use crate::runtime::task::demand::{Demand, Products};
use crate::runtime::trace::{Kind, MemoryKind};

/// Nanoseconds of the host for a call of an operator in eager mode, its Python code and the dispatcher included.
pub const CALL_NS: u64 = 6000;
/// Nanoseconds of the host for a launch of a kernel that a compiler generated.
pub const COMPILED_CALL_NS: u64 = 3000;
/// Nanoseconds of the host for recording an event, or for making a stream wait for one.
pub const EVENT_NS: u64 = 1000;
/// Nanoseconds of the host for a question whether something is done.
pub const QUERY_NS: u64 = 1000;
/// Nanoseconds of the host for a replay of a graph, without its kernels.
pub const REPLAY_NS: u64 = 8000;
/// Nanoseconds from a launch to the begin of the kernel on an idle stream.
pub const LATENCY_NS: u64 = 4000;
/// Nanoseconds of a kernel that has nothing to do, the gap behind it included.
const KERNEL_NS: f64 = 1500.0;
/// Nanoseconds of a copy of nothing between host and device.
const COPY_NS: f64 = 2000.0;

/// The part of the memory's bandwidth that kernels reach.
const MEMORY: f64 = 0.8;
/// The part of the second-level cache's bandwidth that tiles of products reach.
const CACHE: f64 = 0.7;
/// The part of a link's bandwidth that copies reach.
const LINK: f64 = 0.8;
/// The part of that for pageable host memory, which is copied by way of pinned memory.
const PAGEABLE: f64 = 0.4;
/// The part of the peak that a fused attention reaches.
const ATTENTION: f64 = 0.4;
/// Tiles of products, as rows, columns and the part of the peak that a multiprocessor reaches within one.
const TILES: [(u64, u64, f64); 5] = [(256, 128, 0.75), (128, 128, 0.7), (128, 64, 0.6), (64, 64, 0.5), (32, 32, 0.3)];
/// Numbers of parts into which the depth of a product is cut.
const CUTS: [u64; 5] = [1, 2, 4, 8, 16];
/// Steps along the depth that a tile takes to begin and to end.
const PROLOGUE: u64 = 128;
/// Rows of queries that a multiprocessor has at once in an attention.
const QUERY_ROWS: u64 = 128;
/// Elements that one multiprocessor has at once in other kernels: 2048 threads of 4 elements.
const ELEMENTS: f64 = 8192.0;

/// Where float32 is computed as TF32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Float32 {
    pub products: bool,
    pub convolutions: bool,
}

/// The duration of a demand on a card, and what executes it.
pub fn job(profile: &Profile, demand: &Demand, float32: Float32) -> Job {
    let (engine, share, duration) = match demand.kind {
        Kind::Copy(from, to) => copy(profile, demand, from, to),
        Kind::Host | Kind::Sleep | Kind::Replay => (Engine::None, 0.0, 0.0),
        _ => kernel(profile, demand, float32),
    };
    let share = (share * f64::from(WHOLE)).clamp(1.0, f64::from(WHOLE)) as u32;
    Job { engine, share, duration: duration.round() as u64, mark: None }
}

fn copy(profile: &Profile, demand: &Demand, from: MemoryKind, to: MemoryKind) -> (Engine, f64, f64) {
    let bytes = demand.copied as f64;
    let pageable = |kind| if kind == MemoryKind::Pageable { PAGEABLE } else { 1.0 };
    let over = |rate: f64| COPY_NS + bytes / rate;
    let rates = &profile.gigabytes_per_second;
    match (from.is_host(), to.is_host()) {
        (true, _) => (Engine::CopyIn, 1.0, over(rates.pcie * LINK * pageable(from))),
        (_, true) => (Engine::CopyOut, 1.0, over(rates.pcie * LINK * pageable(to))),
        _ if (from, to) == (MemoryKind::Device, MemoryKind::Device) => (Engine::Compute, 1.0, over(rates.memory * MEMORY / 2.0)),
        _ => (Engine::Link, 1.0, over(rates.peer() * LINK)),
    }
}

fn kernel(profile: &Profile, demand: &Demand, float32: Float32) -> (Engine, f64, f64) {
    let memory = demand.bytes as f64 / (profile.gigabytes_per_second.memory * MEMORY);
    let share = demand.elements as f64 / (ELEMENTS * profile.multiprocessors);
    let (compute, share) = match &demand.products {
        Some(products) if products.executed > 0 => {
            let is_tf32 = if demand.name.starts_with("convolution") { float32.convolutions } else { float32.products };
            arithmetic(profile, products, is_tf32)
        }
        _ => (0.0, share),
    };
    (Engine::Compute, share, KERNEL_NS + memory.max(compute))
}

/// Nanoseconds of products, and the share of the card that they occupy.
fn arithmetic(profile: &Profile, products: &Products, is_tf32: bool) -> (f64, f64) {
    let peak = peak(profile, products.dtype, is_tf32);
    if products.is_attention {
        let blocks = products.count * products.rows.div_ceil(QUERY_ROWS);
        return (products.executed as f64 / (peak * ATTENTION), blocks as f64 / profile.multiprocessors);
    }
    let whole = (2 * products.count * products.rows * products.columns * products.depth).max(1) as f64;
    let (time, share) = tiles(profile, products, peak);
    // A kernel that computes several products of one size, such as both gradients of a convolution, takes as much longer.
    (time * products.executed as f64 / whole, share)
}

/// Nanoseconds of products with the best tiles, and the share of the card that they occupy. Waves of tiles that do not fill the
/// card take as long as those that do. Each tile loads its rows and columns from the second-level cache.
fn tiles(profile: &Profile, products: &Products, peak: f64) -> (f64, f64) {
    let (multiprocessors, item) = (profile.multiprocessors, item(products.dtype));
    let cache = profile.gigabytes_per_second.cache.unwrap_or(f64::INFINITY);
    let mut best = (f64::INFINITY, 1.0);
    for (rows, columns, efficiency) in TILES {
        for cut in CUTS {
            let count = (products.count * products.rows.div_ceil(rows) * products.columns.div_ceil(columns) * cut) as f64;
            let depth = products.depth.div_ceil(cut) + PROLOGUE;
            let computed = (2 * rows * columns * depth) as f64 / (peak * efficiency);
            let loaded = ((rows + columns) * depth * item) as f64 / (cache * CACHE);
            let wave = multiprocessors * computed.max(loaded);
            let time = (count / multiprocessors).ceil() * wave;
            if time < best.0 {
                best = (time, count / multiprocessors);
            }
        }
    }
    best
}

/// Bytes of an element of a factor.
fn item(dtype: &str) -> u64 {
    match dtype {
        "float8" | "int8" | "uint8" => 1,
        "float16" | "bfloat16" => 2,
        "float64" | "complex64" => 8,
        "complex128" => 16,
        _ => 4,
    }
}

/// Operations per nanosecond of the unit that computes products of a dtype.
fn peak(profile: &Profile, dtype: &str, is_tf32: bool) -> f64 {
    let vector = |name| profile.vector_tflops.get(name).copied().unwrap_or(profile.vector_tflops["float32"] / 32.0);
    let tensor = |name| profile.tensor_tflops.get(name).copied();
    let tflops = match dtype {
        "float64" => tensor("float64").unwrap_or_else(|| vector("float64")),
        "complex128" => vector("float64") / 4.0,
        "complex64" => vector("float32") / 4.0,
        "float32" if is_tf32 => tensor("tf32").unwrap_or_else(|| vector("float32")),
        "float16" | "bfloat16" | "float8" | "int8" => tensor(dtype).unwrap_or_else(|| vector("float32")),
        "uint8" => tensor("int8").unwrap_or_else(|| vector("float32")),
        _ => vector("float32"),
    };
    tflops * 1e3
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::runtime::config::find_profile;

    fn product(rows: u64, columns: u64, depth: u64, dtype: &'static str) -> Demand {
        let executed = 2 * rows * columns * depth;
        let products = Products { count: 1, rows, columns, depth, executed, counted: executed, is_attention: false, dtype };
        let bytes = 2 * (rows * columns + rows * depth + columns * depth);
        Demand { name: "mm", kind: Kind::Kernel, products: Some(products), copied: 0, bytes, elements: rows * columns }
    }

    fn pointwise(elements: u64) -> Demand {
        Demand { name: "add", kind: Kind::Kernel, products: None, copied: 0, bytes: 12 * elements, elements }
    }

    #[test]
    fn a_small_product_uses_less_of_the_card() {
        let small = job(find_profile("a100-80g").unwrap(), &product(256, 256, 4096, "bfloat16"), Float32::default());
        let ideal = 2.0 * 256.0 * 256.0 * 4096.0 / 312e12 * 1e9;
        assert!(small.duration as f64 > 3.0 * ideal && small.share < WHOLE, "{small:?}");
    }

    #[test]
    fn copies_go_over_the_link_of_their_direction() {
        let of = |from, to| {
            let demand = Demand { kind: Kind::Copy(from, to), copied: 1 << 30, ..pointwise(1) };
            let found = job(find_profile("a100-80g").unwrap(), &demand, Float32::default());
            (found.engine, found.duration / 1_000_000)
        };
        assert_eq!(of(MemoryKind::Pinned, MemoryKind::Device), (Engine::CopyIn, 41));
        assert_eq!(of(MemoryKind::Device, MemoryKind::Pageable), (Engine::CopyOut, 104));
        assert_eq!(of(MemoryKind::Peer, MemoryKind::Device), (Engine::Link, 4));
        assert_eq!(of(MemoryKind::Device, MemoryKind::Device), (Engine::Compute, 1));
    }
}
