//! Distributions: maps from random 32-bit words to values.

#![forbid(unsafe_code)]

use super::WORDS;
use crate::simd::math;
use crate::tensor::dtype::Bool;
use crate::tensor::number::{Field, Real};

/// A distribution of values of type `T`.
pub(super) trait Distribution<T>: Copy + Sync {
    /// Values that a chunk's words are enough for.
    const COUNT: usize = WORDS;

    /// Fills up to [`Distribution::COUNT`] values. Mark it `#[inline(always)]`.
    fn fill(self, words: &[u32; WORDS], values: &mut [T]);
}

/// Half of a chunk: values of 64 bits are made of a word of each half.
const HALF: usize = WORDS / 2;

/// Uniform in [0, 1), with 53 digits.
#[inline(always)]
pub(super) fn wide_unit(high: u32, low: u32) -> f64 {
    let word = u64::from(high) << 21 | u64::from(low) >> 11;
    word as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Uniform in (0, 1).
#[inline(always)]
pub(super) fn open_unit(high: u32, low: u32) -> f64 {
    let word = u64::from(high) << 20 | u64::from(low) >> 12;
    (word as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

#[derive(Clone, Copy)]
pub(super) struct Uniform<T> {
    pub from: T,
    pub width: T,
    /// The greatest value allowed: a sum may round up to the end, which is not.
    pub last: T,
    /// Digits of the numbers in [0, 1) that are scaled.
    pub digits: u32,
}

impl Distribution<f32> for Uniform<f32> {
    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f32]) {
        let (shift, scale) = (32 - self.digits, 1.0 / (1u64 << self.digits) as f32);
        for (value, &word) in values.iter_mut().zip(words) {
            // No more than 24 digits: exact as a signed integer too, which converts faster.
            *value = ((word >> shift) as i32 as f32 * scale * self.width + self.from).min(self.last);
        }
    }
}

impl Distribution<f64> for Uniform<f64> {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f64]) {
        let (high, low) = words.split_at(HALF);
        for ((value, &high), &low) in values.iter_mut().zip(high).zip(low) {
            *value = (wide_unit(high, low) * self.width + self.from).min(self.last);
        }
    }
}

/// By the method of Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
#[derive(Clone, Copy)]
pub(super) struct Normal<T> {
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
    /// The two values of each pair, for as many pairs as there are `cosines`.
    #[inline(always)]
    fn pairs(self, words: &[u32; WORDS], cosines: &mut [f32], sines: &mut [f32]) {
        // A number's digits are close to 0, where they make the tails.
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
pub(super) struct LogNormal(pub Normal<f64>);

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

/// Never 0, unless lambda is beyond what the dtype holds: what is divided by such numbers stays finite.
#[derive(Clone, Copy)]
pub(super) struct Exponential {
    /// 1 / lambda.
    pub scale: f64,
    /// The result for smaller values, where the output's dtype would round them to 0.
    pub least: f64,
}

impl Distribution<f64> for Exponential {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f64]) {
        let (high, low) = words.split_at(HALF);
        for ((value, &high), &low) in values.iter_mut().zip(high).zip(low) {
            *value = (-Field::log(open_unit(high, low)) * self.scale).max(self.least);
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Cauchy {
    pub median: f64,
    pub sigma: f64,
}

impl Distribution<f64> for Cauchy {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f64]) {
        let (high, low) = words.split_at(HALF);
        for ((value, &high), &low) in values.iter_mut().zip(high).zip(low) {
            // The tangent repeats twice a turn: a sine over a cosine of half a turn.
            let (sine, cosine) = math::f64::sin_cos_turns(open_unit(high, low) * 0.5);
            *value = self.median - self.sigma * cosine / sine;
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Geometric {
    /// 1 / ln(1 - p).
    pub scale: f64,
}

impl Distribution<f64> for Geometric {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [f64]) {
        let (high, low) = words.split_at(HALF);
        for ((value, &high), &low) in values.iter_mut().zip(high).zip(low) {
            *value = (Field::log(open_unit(high, low)) * self.scale).ceil();
        }
    }
}

/// Whole numbers.
#[derive(Clone, Copy)]
pub(super) struct Integers {
    pub from: i64,
    /// How many there are; 0 means 2^64.
    pub count: u64,
}

impl Distribution<i64> for Integers {
    const COUNT: usize = HALF;

    #[inline(always)]
    fn fill(self, words: &[u32; WORDS], values: &mut [i64]) {
        let (high, low) = words.split_at(HALF);
        let is_narrow = self.count != 0 && self.count <= 1 << 32;
        for ((value, &high), &low) in values.iter_mut().zip(high).zip(low) {
            let chosen = if is_narrow {
                // The top of the product of 64 random bits and the count; the low word's share of the carry is what makes it 64.
                let carry = (u64::from(low) * (self.count & 0xffff_ffff)) >> 32;
                if self.count == 1 << 32 { u64::from(high) } else { (u64::from(high) * self.count + carry) >> 32 }
            } else {
                let word = u64::from(high) << 32 | u64::from(low);
                if self.count == 0 { word } else { ((u128::from(word) * u128::from(self.count)) >> 64) as u64 }
            };
            *value = self.from.wrapping_add(chosen as i64);
        }
    }
}

/// A success where a word is less than 2^32 p.
#[derive(Clone, Copy)]
pub(super) struct Bernoulli {
    /// Whether there are successes at all.
    is_possible: bool,
    /// The greatest word that is one.
    last: u32,
}

impl Bernoulli {
    const SCALE: f64 = (1u64 << 32) as f64;

    /// `p` is in 0 to 1.
    pub fn new(p: f64) -> Self {
        let successes = (p * Self::SCALE).ceil() as u64;
        Self { is_possible: successes > 0, last: successes.saturating_sub(1) as u32 }
    }

    #[inline(always)]
    pub fn value(self, word: u32) -> Bool {
        Bool::from(self.is_possible && word <= self.last)
    }

    /// One trial with a probability of its own.
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
