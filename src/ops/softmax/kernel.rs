//! Softmax, its logarithm and their gradients. Operands: [out, input] or [out, grad, output], of the same sizes; scalars [dim].
//! Lines are computed in `f32`, or `f64` for Double.
//!
//! The plan of the loop (`in_strips`, `is_direct` in `tensor/loops/lines/line_plan.rs`) decides whether lines are computed one by
//! one, along a contiguous dimension, or several at once, across a strided one, and whether operands are read in place.
//! `tensor/loops/lines/passes.rs` has both loops over lines; the vector loops are those over lanes in this file.

use crate::tensor::loops::lines::LANES;
use crate::tensor::loops::lines::passes::{self, Passes, Rows, for_each_row};
use crate::tensor::prelude::*;

signature! {
    softmax(out; input)[dim] in FLOATING => |launch| forward::<false>(launch);
    log_softmax(out; input)[dim] in FLOATING => |launch| forward::<true>(launch);
    softmax_backward(out; grad, output)[dim] in FLOATING => |launch| backward::<false>(launch);
    log_softmax_backward(out; grad, output)[dim] in FLOATING => |launch| backward::<true>(launch);
}

/// The maximum. If either is NaN the result may be either, because then every result of the line is NaN anyway.
#[inline(always)]
fn greater<T: Ordered>(left: T, right: T) -> T {
    if right > left { right } else { left }
}

/// Softmax or, with `LOG`, its logarithm, in three passes over the line: maximum, exponentials and their sum, results.
struct Forward<const LOG: bool>;

impl<E: Element<Acc: Field + Ordered, Approximate: Real>, const LOG: bool> Passes<E, 1> for Forward<LOG> {
    const KEEPS: bool = true;

    #[inline(always)]
    fn run<R: Rows<E, 1>>(&self, mut rows: R) {
        let lowest = E::Acc::LOWEST;
        let Aligned(highest) = &mut Aligned([lowest; LANES]);
        for_each_row!(rows, row, {
            let [input] = rows.values(row, lowest);
            for lane in 0..LANES {
                highest[lane] = greater(highest[lane], input[lane]);
            }
        });
        R::merge(highest, greater);
        let Aligned(sums) = &mut Aligned([E::Acc::ZERO; LANES]);
        for_each_row!(rows, row, {
            let [mut values] = rows.values(row, lowest);
            for lane in 0..LANES {
                let apart = values[lane].sub(highest[lane]);
                let power = E::Approximate::from(apart).exp_nonpositive().into();
                sums[lane] = sums[lane].add(power);
                values[lane] = if LOG { apart } else { power };
            }
            rows.keep(row, &values);
        });
        R::merge(sums, Number::add);
        for sum in sums.iter_mut() {
            *sum = if LOG { sum.log() } else { E::Acc::ONE.div(*sum) };
        }
        for_each_row!(rows, row, {
            let mut values = rows.kept(row);
            for lane in 0..LANES {
                values[lane] = if LOG { values[lane].sub(sums[lane]) } else { values[lane].mul(sums[lane]) };
            }
            rows.store(row, &values);
        });
    }
}

/// The gradient of the input, from the gradient and the values of the result.
struct Backward<const LOG: bool>;

impl<E: Element<Acc: Field, Approximate: Field>, const LOG: bool> Passes<E, 2> for Backward<LOG> {
    const KEEPS: bool = false;

    #[inline(always)]
    fn run<R: Rows<E, 2>>(&self, mut rows: R) {
        let Aligned(sums) = &mut Aligned([E::Acc::ZERO; LANES]);
        for_each_row!(rows, row, {
            let [grad, result] = rows.values(row, E::Acc::ZERO);
            for lane in 0..LANES {
                let part = if LOG { grad[lane] } else { grad[lane].mul(result[lane]) };
                sums[lane] = sums[lane].add(part);
            }
        });
        R::merge(sums, Number::add);
        for_each_row!(rows, row, {
            let [grad, result] = rows.values(row, E::Acc::ZERO);
            let mut output = [E::Acc::ZERO; LANES];
            for lane in 0..LANES {
                output[lane] = if LOG {
                    grad[lane].sub(E::Approximate::from(result[lane]).exp().into().mul(sums[lane]))
                } else {
                    grad[lane].sub(sums[lane]).mul(result[lane])
                };
            }
            rows.store(row, &output);
        });
    }
}

fn forward<const LOG: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, dim) = (launch.compute(), softmax::Scalars::of(launch)?.dim.count()?);
    let softmax::Operands { out: output, input } = softmax::Operands::of(launch)?;
    dispatch!(dtype in FLOATING, E => passes::run::<E, _, 1>([input], output, dim, launch.cost(), &Forward::<LOG>))
}

fn backward<const LOG: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, dim) = (launch.compute(), softmax_backward::Scalars::of(launch)?.dim.count()?);
    let softmax_backward::Operands { out, grad, output } = softmax_backward::Operands::of(launch)?;
    dispatch!(dtype in FLOATING, E => passes::run::<E, _, 2>([grad, output], out, dim, launch.cost(), &Backward::<LOG>))
}
