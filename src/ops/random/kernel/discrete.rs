//! Discrete distributions: `poisson` and `binomial` by rejection, `multinomial`. Each element draws as many numbers as it needs
//! from its own Philox subsequence.
//!
//! Sources: Hörmann, "The Transformed Rejection Method for Generating Poisson Random Variables", 1993 (PTRS), and "The Generation
//! of Binomial Random Variates", 1993 (BTRS), for large means; products of uniform numbers and sums of geometric ones for small
//! means.

use std::sync::atomic::{AtomicBool, Ordering};

use super::distribution::{open_unit, wide_unit};
use super::{State, WORDS};
use crate::runtime::rng;
use crate::tensor::loops::chunks;
use crate::tensor::prelude::*;
use crate::tuning::sharing::GRAIN;

signature! {
    poisson(out; rate)[seed, offset] in FLOATING;
    binomial(out; trials, p)[seed, offset] in WIDE;
    multinomial(out; weights)[seed, offset] in FLOATING;
}

/// The mean from which on rejection is faster.
const LARGE: f64 = 10.0;

/// The bits of a subsequence's number that hold the element's index. The bits above count the blocks that the element has used.
const ELEMENT_BITS: u32 = 40;

/// The random numbers of one element.
struct Stream {
    state: State,
    index: u64,
    words: [u32; 4],
    used: usize,
}

impl Stream {
    fn new(state: State, element: u64) -> Self {
        Self { state, index: element, words: rng::block(state.seed, state.block, element), used: 0 }
    }

    #[inline(always)]
    fn pair(&mut self) -> (u32, u32) {
        if self.used == 4 {
            self.index += 1 << ELEMENT_BITS;
            self.words = rng::block(self.state.seed, self.state.block, self.index);
            self.used = 0;
        }
        self.used += 2;
        (self.words[self.used - 2], self.words[self.used - 1])
    }

    /// Uniform in (0, 1).
    #[inline(always)]
    fn open(&mut self) -> f64 {
        let (high, low) = self.pair();
        open_unit(high, low)
    }

    /// The start of transformed rejection: a number in (-1/2, 1/2), its distance from the nearer end, and a number to compare with.
    #[inline(always)]
    fn trial(&mut self) -> (f64, f64, f64) {
        let centred = self.open() - 0.5;
        (centred, 0.5 - centred.abs(), self.open())
    }
}

/// ln(count!): by multiplication, and by Stirling's series from where it has ten correct digits.
#[inline(always)]
fn log_factorial(count: f64) -> f64 {
    const SMALL: [f64; 10] = [1.0, 1.0, 2.0, 6.0, 24.0, 120.0, 720.0, 5040.0, 40_320.0, 362_880.0];
    const HALF_LOG_TURN: f64 = 0.918_938_533_204_672_7;
    if let Some(factorial) = SMALL.get(count as usize) {
        return factorial.ln();
    }
    let square = count * count;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / count;
    (count + 0.5) * count.ln() - count + HALF_LOG_TURN + series
}

#[inline(always)]
fn poisson_of(rate: f64, stream: &mut Stream) -> f64 {
    if rate < LARGE {
        let (end, mut product, mut count) = ((-rate).exp(), stream.open(), 0.0);
        while product > end {
            product *= stream.open();
            count += 1.0;
        }
        return count;
    }
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let inside = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (centred, edge, level) = stream.trial();
        let count = ((2.0 * a / edge + b) * centred + rate + 0.43).floor();
        if edge >= 0.07 && level <= inside {
            return count;
        }
        if count < 0.0 || (edge < 0.013 && level > edge) {
            continue;
        }
        let height = (level * inverse_alpha / (a / (edge * edge) + b)).ln();
        if height <= count * rate.ln() - rate - log_factorial(count) {
            return count;
        }
    }
}

/// The number of successes in `trials` trials; p is at most 1/2.
#[inline(always)]
fn successes(trials: f64, p: f64, stream: &mut Stream) -> f64 {
    if trials * p < LARGE {
        let (scale, mut tried, mut count) = (1.0 / (-p).ln_1p(), 0.0, 0.0);
        loop {
            tried += (stream.open().ln() * scale).ceil();
            if tried > trials {
                return count;
            }
            count += 1.0;
        }
    }
    let (deviation, odds) = ((trials * p * (1.0 - p)).sqrt(), p / (1.0 - p));
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let inside = 0.92 - 4.2 / b;
    let alpha = (2.83 + 5.1 / b) * deviation;
    let mode = ((trials + 1.0) * p).floor();
    let arrangements = |count: f64| -log_factorial(count) - log_factorial(trials - count);
    loop {
        let (centred, edge, level) = stream.trial();
        let count = ((2.0 * a / edge + b) * centred + trials * p + 0.5).floor();
        if edge >= 0.07 && level <= inside {
            return count;
        }
        if !(0.0..=trials).contains(&count) {
            continue;
        }
        let height = (level * alpha / (a / (edge * edge) + b)).ln();
        if height <= arrangements(count) - arrangements(mode) + (count - mode) * odds.ln() {
            return count;
        }
    }
}

#[inline(always)]
fn binomial_of(trials: f64, p: f64, stream: &mut Stream) -> f64 {
    if trials <= 0.0 || p <= 0.0 {
        0.0
    } else if p >= 1.0 || !trials.is_finite() {
        trials
    } else if p <= 0.5 {
        successes(trials, p, stream)
    } else if p > 0.5 {
        trials - successes(trials, 1.0 - p, stream)
    } else {
        f64::NAN
    }
}

#[inline(always)]
fn draw_each<const I: usize>(
    state: State,
    chunk: u64,
    parameters: [&[f64]; I],
    values: &mut [f64],
    count: impl Fn([f64; I], &mut Stream) -> f64,
) {
    for (position, value) in values.iter_mut().enumerate() {
        let mut stream = Stream::new(state, chunk * WORDS as u64 + position as u64);
        *value = count(parameters.map(|parameter| parameter[position]), &mut stream);
    }
}

leaf! {
    /// Draws a chunk of counts, each with its own rate.
    fn draw_poisson(state: State, chunk: u64, rates: &[f64], values: &mut [f64]) {
        draw_each(state, chunk, [rates], values, |[rate], stream| poisson_of(rate, stream));
    }

    /// Draws a chunk of counts, each with its own number of trials and probability.
    fn draw_binomial(state: State, chunk: u64, parameters: [&[f64]; 2], values: &mut [f64]) {
        draw_each(state, chunk, parameters, values, |[trials, p], stream| binomial_of(trials, p, stream));
    }
}

pub fn poisson(launch: &Launch<'_>) -> Result<(), Error> {
    let (state, valid) = (State::of(launch)?, AtomicBool::new(true));
    chunks::run::<f64, Bool, 1, 1, 0>(launch, WORDS, &|chunk, [rates], [values], []| {
        if rates.iter().all(|&rate| rate >= 0.0) {
            draw_poisson(state, chunk, rates, values);
        } else {
            valid.store(false, Ordering::Relaxed);
        }
    })?;
    if valid.into_inner() { Ok(()) } else { Err(Error::new("invalid Poisson rate, expected rate to be non-negative")) }
}

/// `aten::binomial`: the number of successes in a number of trials.
pub fn binomial(launch: &Launch<'_>) -> Result<(), Error> {
    let state = State::of(launch)?;
    chunks::run::<f64, Bool, 2, 1, 0>(launch, WORDS, &|chunk, parameters, [values], []| {
        draw_binomial(state, chunk, parameters, values);
    })
}

/// The cumulative sums of the weights, and the position of the last weight above 0.
fn cumulated(weights: &Values<'_, f64>, row: usize, count: usize) -> Result<(Vec<f64>, usize), Error> {
    let (mut sums, mut total, mut last) = (Vec::with_capacity(count), 0.0, None);
    for position in 0..count {
        let weight = weights.get(row * count + position);
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(Error::new(format!("invalid multinomial distribution (encountering probability entry {weight})")));
        }
        if weight > 0.0 {
            last = Some(position);
        }
        total += weight;
        sums.push(total);
    }
    let last = last.ok_or_else(|| Error::new("invalid multinomial distribution (sum of probabilities <= 0)"))?;
    Ok((sums, last))
}

/// `aten::multinomial` with replacement: indices drawn by their weights. Operands [out (N, samples) Long, weights (N, C)].
pub fn multinomial(launch: &Launch<'_>) -> Result<(), Error> {
    let (state, multinomial::Operands { out: output, weights }) = (State::of(launch)?, multinomial::Operands::of(launch)?);
    let (count, samples) = (weights.size(1), output.size(1));
    let weights = Values::<f64>::new(weights)?;
    let failure = std::sync::OnceLock::new();
    let cost = launch.cost() * (count + 10 * samples) as f64;
    Output::in_parts([(output, 0)], GRAIN.div_ceil(count + samples), cost, &|begin, end, [mut part]| {
        for row in begin..end {
            let (sums, last) = match cumulated(&weights, row, count) {
                Ok(found) => found,
                Err(text) => {
                    // Only the first failure is reported.
                    let _ = failure.set(text);
                    return;
                }
            };
            part.row_mut(&[row - begin]).in_parts(GRAIN, 10.0 * launch.cost(), &|first, mut target| {
                for at in 0..target.len() {
                    let (high, low) = Stream::new(state, (row * samples + first + at) as u64).pair();
                    let level = wide_unit(high, low) * sums[count - 1];
                    let position = sums.partition_point(|&sum| sum <= level).min(last);
                    target.store(at, position as i64);
                }
            });
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}
