//! Distributions: maps from random 32-bit words to values.

use super::WORDS;
use crate::simd::math;
use crate::tensor::{Bool, Field, Real};

/// A distribution of values of type `T`.
pub(in crate::ops::random) trait Distribution<T>: Copy + Sync {
    /// The number of values for which a chunk's words suffice.
    const COUNT: usize = WORDS;

    /// Fills up to [`Distribution::COUNT`] values. Mark it `#[inline(always)]`.
    fn fill(self, words: &[u32; WORDS], values: &mut [T]);
}

/// Half of a chunk: a 64 bit value takes a word of each half.
const HALF: usize = WORDS / 2;

/// A distribution whose values take a word of each half of a chunk.
pub(in crate::ops::random) trait OfTwoWords<T>: Copy + Sync {
    /// The value of two words. Mark it `#[inline(always)]`.
    fn value(self, high: u32, low: u32) -> T;
}

impl<T, D: OfTwoWords<T>> Distribution<T> for D {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [T]) {
        let (high, low) = words.split_at(HALF);
        for ((value, &high), &low) in values.iter_mut().zip(high).zip(low) {
            *value = self.value(high, low);
        }
    }
}

/// Uniform in [0, 1), with 53 bits.
#[inline(always)]
pub(in crate::ops::random) fn wide_unit(high: u32, low: u32) -> f64 {
    let word = u64::from(high) << 21 | u64::from(low) >> 11;
    word as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Uniform in (0, 1).
#[inline(always)]
pub(in crate::ops::random) fn open_unit(high: u32, low: u32) -> f64 {
    let word = u64::from(high) << 20 | u64::from(low) >> 12;
    (word as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

#[derive(Clone, Copy)]
pub(in crate::ops::random) struct Uniform<T> {
    pub from: T,
    pub width: T,
    /// The maximum value: a sum may round up to the end, which is excluded.
    pub last: T,
    /// Bits of the numbers in [0, 1) that are scaled.
    pub digits: u32,
}

impl Distribution<f32> for Uniform<f32> {
    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f32]) {
        let (shift, scale) = (32 - self.digits, 1.0 / (1u64 << self.digits) as f32);
        for (value, &word) in values.iter_mut().zip(words) {
            // At most 24 bits, so that the conversion is exact; from a signed integer it is faster.
            *value = ((word >> shift) as i32 as f32 * scale * self.width + self.from).min(self.last);
        }
    }
}

impl OfTwoWords<f64> for Uniform<f64> {
    #[inline(always)]
    fn value(self, high: u32, low: u32) -> f64 {
        (wide_unit(high, low) * self.width + self.from).min(self.last)
    }
}

/// The normal distribution, by the method of Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
#[derive(Clone, Copy)]
pub(in crate::ops::random) struct Normal<T> {
    pub mean: T,
    pub std: T,
}

impl<T: Real> Normal<T> {
    /// Two independent values, from the logarithm of a number in (0, 1] and the sine and the cosine of an angle.
    #[inline(always)]
    fn pair(self, log: T, (sine, cosine): (T, T)) -> (T, T) {
        let radius = log.mul(T::from_i64(-2)).sqrt().mul(self.std);
        (radius.mul(cosine).add(self.mean), radius.mul(sine).add(self.mean))
    }
}

impl Normal<f32> {
    /// Both values of each pair, for as many pairs as `cosines` has elements.
    #[inline(always)]
    fn pairs(self, words: &[u32; WORDS], cosines: &mut [f32], sines: &mut [f32]) {
        // Numbers in (0, 1], whose spacing determines how far the tails reach.
        const UNIT: f32 = 1.0 / (1u32 << 31) as f32;
        const TURN: f32 = 1.0 / (1u64 << 32) as f32;
        let (first, second) = words.split_at(HALF);
        for (((cosine, sine), &first), &second) in cosines.iter_mut().zip(sines).zip(first).zip(second) {
            let log = math::f32::log_of_normal(((first >> 1) as i32 as f32 + 1.0) * UNIT);
            (*cosine, *sine) = self.pair(log, math::f32::sin_cos_turns(second as i32 as f32 * TURN));
        }
    }
}

impl Distribution<f32> for Normal<f32> {
    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f32]) {
        if values.len() == WORDS {
            let (cosines, sines) = values.split_at_mut(HALF);
            self.pairs(words, cosines, sines);
        } else {
            let mut made = [0.0; WORDS];
            let (cosines, sines) = made.split_at_mut(HALF);
            self.pairs(words, &mut cosines[..HALF.min(values.len())], sines);
            values.copy_from_slice(&made[..values.len()]);
        }
    }
}

impl Distribution<f64> for Normal<f64> {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f64]) {
        const QUARTER: usize = WORDS / 4;
        let mut made = [0.0; HALF];
        let (cosines, sines) = made.split_at_mut(QUARTER);
        let (first, second) = words.split_at(HALF);
        for position in 0..QUARTER.min(values.len()) {
            let unit = 1.0 - wide_unit(first[position], first[position + QUARTER]);
            let turn = wide_unit(second[position], second[position + QUARTER]);
            (cosines[position], sines[position]) = self.pair(Field::log(unit), math::f64::sin_cos_turns(turn));
        }
        values.copy_from_slice(&made[..values.len()]);
    }
}

#[derive(Clone, Copy)]
pub(in crate::ops::random) struct LogNormal(pub Normal<f64>);

impl Distribution<f64> for LogNormal {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f64]) {
        self.0.fill(words, values);
        for value in values {
            *value = Field::exp(*value);
        }
    }
}

/// The exponential distribution. Values are never 0, unless lambda is out of the dtype's range, so that quotients by them are
/// finite.
#[derive(Clone, Copy)]
pub(in crate::ops::random) struct Exponential {
    /// 1 / lambda.
    pub scale: f64,
    /// The minimum result, below which the output's dtype would round to 0.
    pub least: f64,
}

impl OfTwoWords<f64> for Exponential {
    #[inline(always)]
    fn value(self, high: u32, low: u32) -> f64 {
        (-Field::log(open_unit(high, low)) * self.scale).max(self.least)
    }
}

#[derive(Clone, Copy)]
pub(in crate::ops::random) struct Cauchy {
    pub median: f64,
    pub sigma: f64,
}

impl OfTwoWords<f64> for Cauchy {
    #[inline(always)]
    fn value(self, high: u32, low: u32) -> f64 {
        // The tangent has a period of half a turn: sine over cosine of an angle in half a turn.
        let (sine, cosine) = math::f64::sin_cos_turns(open_unit(high, low) * 0.5);
        self.median - self.sigma * cosine / sine
    }
}

#[derive(Clone, Copy)]
pub(in crate::ops::random) struct Geometric {
    /// 1 / ln(1 - p).
    pub scale: f64,
}

impl OfTwoWords<f64> for Geometric {
    #[inline(always)]
    fn value(self, high: u32, low: u32) -> f64 {
        (Field::log(open_unit(high, low)) * self.scale).ceil()
    }
}

/// Uniform integers.
#[derive(Clone, Copy)]
pub(in crate::ops::random) struct Integers {
    pub from: i64,
    /// The number of possible values; 0 means 2^64.
    pub count: u64,
}

impl OfTwoWords<i64> for Integers {
    #[inline(always)]
    fn value(self, high: u32, low: u32) -> i64 {
        let chosen = if self.count != 0 && self.count <= 1 << 32 {
            // The top of the 96 bit product of 64 random bits and the count; the carry is the contribution of the low word.
            let carry = (u64::from(low) * (self.count & 0xffff_ffff)) >> 32;
            if self.count == 1 << 32 { u64::from(high) } else { (u64::from(high) * self.count + carry) >> 32 }
        } else {
            let word = u64::from(high) << 32 | u64::from(low);
            if self.count == 0 { word } else { ((u128::from(word) * u128::from(self.count)) >> 64) as u64 }
        };
        self.from.wrapping_add(chosen as i64)
    }
}

/// A trial succeeds if a word is less than 2^32 p.
#[derive(Clone, Copy)]
pub(in crate::ops::random) struct Bernoulli {
    /// True if the probability is above 0.
    is_possible: bool,
    /// The greatest word that is a success.
    last: u32,
}

impl Bernoulli {
    const SCALE: f64 = (1u64 << 32) as f64;

    /// `p` must be in 0..=1.
    pub fn new(p: f64) -> Self {
        let successes = (p * Self::SCALE).ceil() as u64;
        Self { is_possible: successes > 0, last: successes.saturating_sub(1) as u32 }
    }

    #[inline(always)]
    pub fn value(self, word: u32) -> Bool {
        Bool::from(self.is_possible && word <= self.last)
    }

    /// One trial with probability `p`.
    #[inline(always)]
    pub fn trial(p: f64, word: u32) -> Bool {
        Bool::from(f64::from(word) < p * Self::SCALE)
    }
}

impl Distribution<Bool> for Bernoulli {
    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [Bool]) {
        for (value, &word) in values.iter_mut().zip(words) {
            *value = self.value(word);
        }
    }
}
