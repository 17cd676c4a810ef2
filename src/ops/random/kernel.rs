//! Random numbers. Operands: [out]; the scalars begin with [seed, offset], the state of the generator at the call of the operator.
//!
//! The offset counts 32-bit numbers of every Philox subsequence. A launch of any size takes one block of four numbers from each.
//! Each chunk of elements draws from its own subsequences, so that the values depend on neither threads nor instruction sets, and a
//! longer tensor begins with the values of a shorter one.

pub mod discrete;
pub(super) mod distribution;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use distribution::{Bernoulli, Cauchy, Distribution, Exponential, Geometric, Integers, LogNormal, Normal, Uniform};
use half::{bf16, f16};

use crate::runtime::rng;
use crate::tensor::loops::chunks;
use crate::tensor::loops::elementwise::{self, Map};
use crate::tensor::prelude::*;

signature! {
    uniform(out)[seed, offset, from, to] in FLOATING;
    normal(out)[seed, offset, mean, std] in FLOATING;
    log_normal(out)[seed, offset, mean, std] in FLOATING;
    exponential(out)[seed, offset, lambda] in FLOATING;
    cauchy(out)[seed, offset, median, sigma] in FLOATING;
    geometric(out)[seed, offset, p] in REAL;
    random(out)[seed, offset, from, count] in REAL | BOOL | UNSIGNED;
    /// `aten::bernoulli_.float`: 1 with probability p, else 0.
    bernoulli_scalar(out)[seed, offset, p] in REAL | BOOL =>
        |launch| fill::<Bool, _>(launch, Bernoulli::new(bernoulli_scalar::Scalars::of(launch)?.p.to()));
    bernoulli(out; p)[seed, offset] in REAL | BOOL;
    native_dropout(out, mask; input)[seed, offset, p, scale] in FLOATING;
    native_dropout_backward(out; grad, mask)[scale] in FLOATING;
    randperm(out)[seed, offset] in REAL;
}

/// Numbers of 32 bits that a chunk draws.
pub(super) const WORDS: usize = 1024;
const BLOCKS: usize = WORDS / 4;

#[derive(Clone, Copy)]
struct State {
    seed: u64,
    block: u64,
}

impl State {
    /// Reads the first two scalars.
    fn of(launch: &Launch<'_>) -> Result<Self, Error> {
        let randperm::Scalars { seed, offset } = randperm::Scalars::of(launch)?;
        Ok(Self { seed: seed.to::<i64>() as u64, block: offset.to::<i64>() as u64 / 4 })
    }
}

/// Computes the numbers of a chunk: the first of every block, then the second of every block, and so on. Only the first `count`
/// blocks are computed: enough for `count` values, however many numbers each takes.
#[inline(always)]
fn draw(state: State, chunk: u64, count: usize, words: &mut [u32; WORDS]) {
    let (first, rest) = words.split_at_mut(BLOCKS);
    let (second, rest) = rest.split_at_mut(BLOCKS);
    let (third, fourth) = rest.split_at_mut(BLOCKS);
    for position in 0..count.min(BLOCKS) {
        let block = rng::block(state.seed, state.block, chunk * BLOCKS as u64 + position as u64);
        [first[position], second[position], third[position], fourth[position]] = block;
    }
}

thread_local! {
    /// This thread's buffer for the numbers of a chunk. Numbers that an earlier chunk left are never read.
    static NUMBERS: RefCell<[u32; WORDS]> = const { RefCell::new([0; WORDS]) };
}

leaf! {
    fn fill_chunk<T: Number, D: Distribution<T>>(
        state: State,
        chunk: u64,
        words: &mut [u32; WORDS],
        values: &mut [T],
        distribution: D,
    ) {
        draw(state, chunk, values.len(), words);
        distribution.fill(words, values);
    }

    /// One Bernoulli trial for each probability of a chunk; true if all inputs are probabilities.
    fn trials(state: State, chunk: u64, words: &mut [u32; WORDS], probabilities: &[f64], values: &mut [Bool]) -> bool {
        draw(state, chunk, values.len(), words);
        let mut valid = true;
        for ((value, &p), word) in values.iter_mut().zip(probabilities).zip(words) {
            *value = Bernoulli::trial(p, *word);
            valid &= (0.0..=1.0).contains(&p);
        }
        valid
    }

    /// Dropout of a chunk.
    fn drop_out<T: Real>(
        state: State,
        chunk: u64,
        words: &mut [u32; WORDS],
        input: &[T],
        outputs: (&mut [T], &mut [Bool]),
        kept: Bernoulli,
        scale: T,
    ) {
        let (output, mask) = outputs;
        draw(state, chunk, output.len(), words);
        for (((output, &input), mask), word) in output.iter_mut().zip(input).zip(mask).zip(words) {
            let is_kept = kept.value(*word);
            *output = input.mul(if is_kept.get() { scale } else { T::ZERO });
            *mask = is_kept;
        }
    }

    /// The random numbers of a chunk, enough for `count` values, for loops that are not vectorised.
    fn numbers(state: State, chunk: u64, count: usize, words: &mut [u32; WORDS]) {
        draw(state, chunk, count, words);
    }
}

/// Fills the launch's output, to whose dtype the values are cast.
fn fill<T: Element<Acc = T> + Number, D: Distribution<T>>(launch: &Launch<'_>, distribution: D) -> Result<(), Error> {
    let state = State::of(launch)?;
    chunks::run::<T, Bool, 0, 1, 0>(launch, D::COUNT, &|chunk, [], [values], []| {
        NUMBERS.with_borrow_mut(|words| fill_chunk(state, chunk, words, values, distribution));
    })
}

/// Digits of the significand, which are those of a uniform number of the dtype.
pub fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::BFloat16 => bf16::MANTISSA_DIGITS,
        DType::Half => f16::MANTISSA_DIGITS,
        DType::Float => f32::MANTISSA_DIGITS,
        _ => f64::MANTISSA_DIGITS,
    }
}

/// The greatest number below `end` in the dtype.
fn below(dtype: DType, end: f64) -> f64 {
    // The adjacent lower number of a 16 bit float, on its bits: sign and magnitude.
    let down = |bits: u16| match bits {
        0 | 0x8000 => 0x8001,
        1..0x8000 => bits - 1,
        _ => bits + 1,
    };
    let (nearest, next) = match dtype {
        DType::BFloat16 => (bf16::from_f64(end).to_f64(), bf16::from_bits(down(bf16::from_f64(end).to_bits())).to_f64()),
        DType::Half => (f16::from_f64(end).to_f64(), f16::from_bits(down(f16::from_f64(end).to_bits())).to_f64()),
        DType::Float => (f64::from(end as f32), f64::from((end as f32).next_down())),
        _ => (end, end.next_down()),
    };
    if nearest < end { nearest } else { next }
}

/// `aten::uniform_`: from `from` to below `to`; the bound also holds after rounding to the output's dtype.
pub fn uniform(launch: &Launch<'_>) -> Result<(), Error> {
    fn run<T: Element<Acc = T> + Real>(launch: &Launch<'_>) -> Result<(), Error>
    where
        Uniform<T>: Distribution<T>,
    {
        let uniform::Scalars { from, to: end, .. } = uniform::Scalars::of(launch)?;
        let (from, to): (T, T) = (from.to(), end.to());
        let dtype = launch.view(0).dtype();
        let last = T::from_f64(below(dtype, end.to())).maximum(from);
        fill::<T, _>(launch, Uniform { from, width: to.sub(from), last, digits: digits(dtype) })
    }
    if launch.compute() == DType::Double { run::<f64>(launch) } else { run::<f32>(launch) }
}

pub fn normal(launch: &Launch<'_>) -> Result<(), Error> {
    let normal::Scalars { mean, std, .. } = normal::Scalars::of(launch)?;
    if launch.compute() == DType::Double {
        fill::<f64, _>(launch, Normal { mean: mean.to(), std: std.to() })
    } else {
        fill::<f32, _>(launch, Normal { mean: mean.to(), std: std.to() })
    }
}

pub fn log_normal(launch: &Launch<'_>) -> Result<(), Error> {
    let log_normal::Scalars { mean, std, .. } = log_normal::Scalars::of(launch)?;
    fill::<f64, _>(launch, LogNormal(Normal { mean: mean.to(), std: std.to() }))
}

pub fn exponential(launch: &Launch<'_>) -> Result<(), Error> {
    let scale = 1.0 / exponential::Scalars::of(launch)?.lambda.to::<f64>();
    let is_half = launch.view(0).dtype() == DType::Half;
    let least = if is_half && scale > 0.0 { f16::MIN_POSITIVE_SUBNORMAL.to_f64() } else { 0.0 };
    fill::<f64, _>(launch, Exponential { scale, least })
}

pub fn cauchy(launch: &Launch<'_>) -> Result<(), Error> {
    let cauchy::Scalars { median, sigma, .. } = cauchy::Scalars::of(launch)?;
    fill::<f64, _>(launch, Cauchy { median: median.to(), sigma: sigma.to() })
}

/// `aten::geometric_`: the number of trials until the first success.
pub fn geometric(launch: &Launch<'_>) -> Result<(), Error> {
    let p: f64 = geometric::Scalars::of(launch)?.p.to();
    fill::<f64, _>(launch, Geometric { scale: 1.0 / (-p).ln_1p() })
}

/// `aten::random_`: integers from `from` on, of `count` values; 0 means 2^64.
pub fn random(launch: &Launch<'_>) -> Result<(), Error> {
    let random::Scalars { from, count, .. } = random::Scalars::of(launch)?;
    fill::<i64, _>(launch, Integers { from: from.to(), count: count.to::<i64>() as u64 })
}

/// `aten::bernoulli_.Tensor`: 1 with probability p, else 0.
pub fn bernoulli(launch: &Launch<'_>) -> Result<(), Error> {
    let state = State::of(launch)?;
    let valid = AtomicBool::new(true);
    chunks::run::<f64, Bool, 1, 0, 1>(launch, WORDS, &|chunk, [probabilities], [], [values]| {
        if !NUMBERS.with_borrow_mut(|words| trials(state, chunk, words, probabilities, values)) {
            valid.store(false, Ordering::Relaxed);
        }
    })?;
    if valid.into_inner() { Ok(()) } else { Err(Error::new("bernoulli_ expects p to be in [0, 1]")) }
}

/// `aten::native_dropout`: keeps each value with probability `p`, the launch's scalar, and scales it.
pub fn native_dropout(launch: &Launch<'_>) -> Result<(), Error> {
    fn run<T: Element<Acc = T> + Real>(launch: &Launch<'_>) -> Result<(), Error> {
        let native_dropout::Scalars { p, scale, .. } = native_dropout::Scalars::of(launch)?;
        let (state, kept, scale) = (State::of(launch)?, Bernoulli::new(p.to()), scale.to());
        chunks::run::<T, Bool, 1, 1, 1>(launch, WORDS, &|chunk, [input], [output], [mask]| {
            NUMBERS.with_borrow_mut(|words| drop_out(state, chunk, words, input, (output, mask), kept, scale));
        })
    }
    if launch.compute() == DType::Double { run::<f64>(launch) } else { run::<f32>(launch) }
}

/// The gradient of the kept values.
#[derive(Clone, Copy)]
struct DropBackward<T> {
    scale: T,
}

impl<T: Real> Map<T, 2> for DropBackward<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [grad, mask]: [T; 2]) -> T {
        grad.mul(mask.mul(self.scale))
    }
}

/// `aten::native_dropout_backward`: grad * mask * scale.
pub fn native_dropout_backward(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    let native_dropout_backward::Scalars { scale } = native_dropout_backward::Scalars::of(launch)?;
    dispatch!(dtype in FLOATING, T => {
        elementwise::run::<T, T, _, 2>(launch, DropBackward { scale: scale.to::<<T as Element>::Acc>() })
    })
}

/// Shuffles a slice (Fisher and Yates), with 64 random bits for each position from the last to the second.
fn shuffle<T>(state: State, order: &mut [T]) {
    let mut position = order.len();
    let mut words = [0; WORDS];
    for chunk in 0.. {
        if position <= 1 {
            return;
        }
        numbers(state, chunk, position - 1, &mut words);
        let (high, low) = words.split_at(WORDS / 2);
        for (&high, &low) in high.iter().zip(low).take(position - 1) {
            let word = u64::from(high) << 32 | u64::from(low);
            let chosen = (u128::from(word) * position as u128) >> 64;
            position -= 1;
            order.swap(position, chosen as usize);
        }
    }
}

/// `aten::randperm`: a random permutation of 0..n. Operands [out], of one dimension.
pub fn randperm(launch: &Launch<'_>) -> Result<(), Error> {
    let (randperm::Operands { out }, state) = (randperm::Operands::of(launch)?, State::of(launch)?);
    let (dtype, is_dense) = (out.dtype(), out.is_dense_1d());
    let mut target = out.into_row();
    let count = target.len();
    // Shuffles 32 bit numbers if they suffice, to touch fewer cache lines: every swap accesses a random one.
    let Ok(end) = u32::try_from(count) else {
        let order = target.as_slice_mut::<i64>().ok_or_else(|| Error::new("more numbers than are contiguous as Long"))?;
        order.iter_mut().zip(0..).for_each(|(position, number)| *position = number);
        shuffle(state, order);
        return Ok(());
    };
    if dtype.size() < size_of::<u32>() || !is_dense {
        let mut order: Vec<u32> = (0..end).collect();
        shuffle(state, &mut order);
        return store_numbers(&mut target, dtype, 0..count, |_, position| order[position]);
    }
    // They are shuffled in the first bytes of the result, and then widened in place from the last position on: no write reaches a
    // number that is still to be read.
    let order = target.as_narrower_mut::<u32>().ok_or_else(|| Error::new("numbers that are not aligned"))?;
    order.iter_mut().zip(0..).for_each(|(position, number)| *position = number);
    shuffle(state, order);
    let number = |row: &RowMut<'_>, position: usize| -> u32 { row.load_narrower(position) };
    store_numbers(&mut target, dtype, (0..count).rev(), number)
}

/// Stores the number of each position in a row of this dtype, in the order of `positions`.
fn store_numbers(
    row: &mut RowMut<'_>,
    dtype: DType,
    positions: impl Iterator<Item = usize>,
    number: impl Fn(&RowMut<'_>, usize) -> u32,
) -> Result<(), Error> {
    dispatch!(dtype in REAL, E => {
        for position in positions {
            let number = i64::from(number(row, position));
            row.store(position, <E as Element>::store(Number::from_i64(number)));
        }
        Ok(())
    })
}
