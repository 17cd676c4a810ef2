//! Recurrent layers over whole sequences: one loop for all cells, forward and backward.
//!
//! The batch is divided into parts, and a thread takes a part through the whole sequence, so that threads do not wait for each
//! other after each step. The parts depend on the shapes alone, so that results do not depend on the number of threads.

use smallvec::SmallVec;

use super::elman_layer;
use super::steps::Step;
use super::unit::{BatchStep, Input, Written, elements, in_parts, target};
use super::weights::{Factor, convert, prepared};
use crate::tensor::prelude::*;
use crate::tuning::algorithms::SEQUENCE_ROWS_16_BIT;
use crate::tuning::sharing::{MAX_SEQUENCE_PARTS, SEQUENCE_PART_ROWS};

/// The sizes of a layer. Its first output is [steps, batch, ..], and its first input the weight [.., size].
#[derive(Clone, Copy)]
struct Layer {
    steps: usize,
    batch: usize,
    size: usize,
    reverse: bool,
}

impl Layer {
    fn new(launch: &Launch<'_>, outputs: &[Output<'_>], weight: &View<'_>, operands: &[View<'_>]) -> Result<Self, Error> {
        let &[steps, batch, _] = outputs[0].sizes() else {
            return Err(Error::new("a sequence has three dimensions"));
        };
        if !outputs.iter().map(|output| &**output).chain(operands).chain([weight]).all(View::is_contiguous) {
            return Err(Error::new("an operand of a layer has gaps"));
        }
        // The scalars of every layer are the same.
        let reverse = elman_layer::Scalars::of(launch)?.reverse.is_true();
        Ok(Self { steps: steps as usize, batch: batch as usize, size: weight.size(1), reverse })
    }

    /// The number of rows of a part of the batch.
    fn rows_of_part(&self) -> usize {
        let parts = 1 << (self.batch / SEQUENCE_PART_ROWS).clamp(1, MAX_SEQUENCE_PARTS).ilog2();
        self.batch.div_ceil(parts).max(1)
    }

    /// The position in the sequence of the step that is computed as number `number`.
    fn position(&self, number: usize) -> usize {
        if self.reverse { self.steps - 1 - number } else { number }
    }

    /// True if products are computed in `E::Acc` instead of `E`.
    fn widens<E: Element>(&self) -> bool {
        matches!(E::DTYPE, DType::Half | DType::BFloat16) && (self.rows_of_part() < SEQUENCE_ROWS_16_BIT || !simd::is_intel())
    }
}

/// Nanoseconds of one thread for a layer, forward or backward.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let weight = launch.sizes(launch.num_outputs());
    let is_of_gates = |&output: &usize| launch.sizes(output).len() == 3 && launch.sizes(output).last() == weight.first();
    let gates: usize = (0..launch.num_outputs()).filter(is_of_gates).map(|output| launch.numel(output)).sum();
    let size = weight.last().copied().unwrap_or(1);
    (gates as f64 * (size as f64 * 0.02 + 1.0)) as u64
}

/// Computes a layer whose cell has this step.
///
/// The outputs [steps, batch, ..] have what the step keeps. Forward, the operands are [initial states.., what the step reads]. In a
/// gradient there are outputs [batch, size] as well, the gradients of the states, and the operands are what the step reads. A step
/// reads rows of operands [steps, batch, ..] at its position, and operands of one dimension. The last two operands of a gradient
/// may be [batch, size] and [steps, batch, size], a state at the beginning and after each step, of which it reads the one before
/// the step.
pub fn layer<S, const OUTPUTS: usize, const KEPT: usize, const READ: usize, const PRODUCTS: usize, const FACTORS: usize>(
    launch: &Launch<'_>,
    step: S,
    outputs: [Output<'_>; OUTPUTS],
    weight: View<'_>,
    operands: &[View<'_>],
) -> Result<(), Error>
where
    S: Step<f32, KEPT, READ, PRODUCTS, FACTORS> + Step<f64, KEPT, READ, PRODUCTS, FACTORS>,
{
    let (layer, dtype) = (Layer::new(launch, &outputs, &weight, operands)?, launch.compute());
    dispatch!(dtype in FLOATING, E => if layer.widens::<E>() {
        run::<E, <E as Element>::Acc, _, _, _, _, _, _>(launch, layer, step, outputs, weight, operands)
    } else {
        run::<E, E, _, _, _, _, _, _>(launch, layer, step, outputs, weight, operands)
    })
}

/// [`layer`], with products of dtype `P`.
fn run<E, P, S, const OUTPUTS: usize, const KEPT: usize, const READ: usize, const PRODUCTS: usize, const FACTORS: usize>(
    launch: &Launch<'_>,
    layer: Layer,
    step: S,
    outputs: [Output<'_>; OUTPUTS],
    weight: View<'_>,
    operands: &[View<'_>],
) -> Result<(), Error>
where
    E: Element,
    P: Factor<Acc = E::Acc>,
    S: Step<E::Acc, KEPT, READ, PRODUCTS, FACTORS>,
{
    let Layer { steps, size, .. } = layer;
    let (wide, deep, carry) = (PRODUCTS * size, FACTORS * size, if S::CARRIES { size } else { 0 });
    let mut weight = prepared::<E, P>(&weight, S::IS_GRADIENT)?;
    let weight: &[P] = weight.numbers(P::prepared_len([deep, wide]));
    let inputs = operands.iter().map(|view| Input::of(view, size)).collect::<Result<SmallVec<[Input<'_, E>; 6]>, _>>()?;
    let (initial, read) = inputs.split_at(if S::IS_GRADIENT { 0 } else { 1 + usize::from(S::CARRIES) });
    let (read, before) = match *operands {
        [.., first, _] if S::IS_GRADIENT && first.ndim() == 2 => read.split_at(read.len() - 2),
        _ => (read, &[][..]),
    };
    let cost = cost(launch) as f64 / layer.batch.max(1) as f64;
    in_parts(outputs, layer.rows_of_part(), cost, &|begin, end, mut outputs| {
        let rows = end - begin;
        let sequences = outputs.iter().filter(|output| output.ndim() == 3).count();
        let (sequences, states) = outputs.split_at_mut(sequences);
        let mut memory = [wide, deep].map(|width| Memory::of(rows * width * size_of::<P>()));
        let [products, factors] = memory.each_mut();
        let (products, factors) = (products.numbers::<P>(rows * wide), factors.numbers::<P>(rows * deep));
        let mut memory = Memory::of(rows * carry * size_of::<E::Acc>());
        let carried = memory.numbers::<E::Acc>(rows * carry);
        carried.fill(<E::Acc as Number>::ZERO);
        if S::IS_GRADIENT {
            // The outputs hold the gradients of the last states.
            convert::<E, P>(elements(states[0].row(&[]))?, products);
            if let Some(cell) = states.get(1) {
                convert::<E, E::Acc>(elements(cell.row(&[]))?, carried);
            }
        } else {
            convert::<E, P>(initial[0].from(0, begin).first(rows * size), factors);
            if S::CARRIES {
                convert::<E, E::Acc>(initial[1].from(0, begin).first(rows * size), carried);
            }
        }
        for turn in 0..steps {
            let number = if S::IS_GRADIENT { steps - 1 - turn } else { turn };
            let (position, previous) = (layer.position(number), number.checked_sub(1).map(|number| layer.position(number)));
            if !S::IS_GRADIENT {
                P::multiply([rows, wide, deep], products, factors, weight)?;
            }
            let (mut written, mut inputs) = (SmallVec::<[_; 3]>::new(), SmallVec::<[_; 6]>::new());
            for output in &mut *sequences {
                written.push(Written::of(output, &[position], size)?);
            }
            for input in read {
                inputs.push(input.from(position, begin));
            }
            if let [first, later] = before {
                inputs.push(previous.map_or_else(|| first.from(0, begin), |previous| later.from(previous, begin)));
            }
            let batch_step = BatchStep {
                count: rows,
                size,
                outputs: &mut written,
                inputs: &inputs,
                products: &*products,
                factors: &mut *factors,
                carried: &mut *carried,
            };
            batch_step.run(step);
            if S::IS_GRADIENT {
                P::multiply([rows, wide, deep], products, factors, weight)?;
            }
        }
        match states {
            [] => {}
            [hidden, cell] => {
                convert::<P, E>(products, target(hidden.row_mut(&[]))?);
                convert::<E::Acc, E>(carried, target(cell.row_mut(&[]))?);
            }
            // The carried number is a part of the gradient of the hidden state.
            [hidden, ..] => {
                for (product, carried) in products.iter_mut().zip(&*carried) {
                    *product = P::store(carried.add(product.load()));
                }
                convert::<P, E>(products, target(hidden.row_mut(&[]))?);
            }
        }
        Ok(())
    })
}
