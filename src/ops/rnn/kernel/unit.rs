//! [`BatchStep`]: a step for the units of rows of a batch. Cells by themselves are one step for each row of a batch.
//!
//! A row of an operand is one or more vectors, each as long as the hidden state: one for each gate or state.

use std::array;
use std::mem::take;

use num_complex::Complex;
use smallvec::SmallVec;

use super::steps::{Step, Unit};
use crate::tensor::prelude::*;
use crate::tuning::sharing::CELL_PIECE;

/// Evaluates an expression for the indices of an array of at most 17 elements. There is no loop, so that arrays of slices become
/// variables before the compiler looks for bounds checks to omit.
macro_rules! unrolled {
    ($index:ident in $len:ident => $body:expr) => {
        unrolled!($index, $len, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    ($index:ident, $len:ident, $body:expr, $($number:literal)*) => {$(
        if $number < $len {
            let $index: usize = $number;
            $body;
        }
    )*};
}

#[derive(Clone, Copy)]
pub struct Input<'a, E> {
    elements: &'a [E],
    /// Elements from one step to the next, and from one row to the next; 0 if all have the same.
    strides: [usize; 2],
    /// Vectors of a row.
    vectors: usize,
}

impl<'a, E: Element> Input<'a, E> {
    /// An operand [steps, batch, ..], [batch, ..] or [..].
    pub fn of(view: &View<'a>, size: usize) -> Result<Self, Error> {
        let width = view.size(view.ndim() - 1);
        let strides = match view.ndim() {
            1 => [0, 0],
            2 => [0, width],
            _ => [view.size(1) * width, width],
        };
        Ok(Self { elements: elements(Row::flat(view)?)?, strides, vectors: width / size })
    }

    /// The input from a row of a step on.
    #[inline]
    pub fn from(&self, step: usize, row: usize) -> Self {
        Self { elements: &self.elements[step * self.strides[0] + row * self.strides[1]..], ..*self }
    }

    pub fn first(&self, count: usize) -> &'a [E] {
        &self.elements[..count]
    }
}

/// Rows of an output, one after the other.
pub struct Written<'a, E> {
    elements: &'a mut [E],
    /// Vectors of a row.
    vectors: usize,
}

impl<'a, E: Element> Written<'a, E> {
    /// The rows of the output at an index of all dimensions but the last two.
    #[inline]
    pub fn of(output: &'a mut Output<'_>, index: &[usize], size: usize) -> Result<Self, Error> {
        let vectors = output.size(index.len() + 1) / size;
        Ok(Self { elements: target(output.row_mut(index))?, vectors })
    }
}

/// A step for rows of a batch. The products are of dtype `P`.
pub struct BatchStep<'a, 'b, E: Element, P> {
    pub count: usize,
    pub size: usize,
    pub outputs: &'a mut [Written<'b, E>],
    pub inputs: &'a [Input<'b, E>],
    pub products: &'a [P],
    pub factors: &'a mut [P],
    /// Empty if the step carries nothing.
    pub carried: &'a mut [E::Acc],
}

impl<E: Element, P: Element<Acc = E::Acc>> BatchStep<'_, '_, E, P> {
    /// Computes the step. Panics if the operands have fewer vectors than the step has numbers.
    pub fn run<S, const KEPT: usize, const READ: usize, const PRODUCTS: usize, const FACTORS: usize>(mut self, step: S)
    where
        S: Step<E::Acc, KEPT, READ, PRODUCTS, FACTORS>,
    {
        let size = self.size;
        for row in 0..self.count {
            // Filled in place: a copy would wait for the stores of addresses and lengths.
            let mut units = Units {
                step,
                size,
                kept: array::from_fn(|_| Default::default()),
                read: [&[]; READ],
                products: array::from_fn(|n| &self.products[(row * PRODUCTS + n) * size..]),
                factors: array::from_fn(|_| next(&mut self.factors, size)),
                carried: next(&mut self.carried, if S::CARRIES { size } else { 0 }),
            };
            let (mut kept, mut read) = (units.kept.iter_mut(), units.read.iter_mut());
            for output in &mut *self.outputs {
                kept.by_ref().take(output.vectors).for_each(|vector| *vector = next(&mut output.elements, size));
            }
            for input in self.inputs {
                let row = &input.elements[row * input.strides[1]..];
                (0..input.vectors).zip(read.by_ref()).for_each(|(n, vector)| *vector = &row[n * size..]);
            }
            vectorize(units);
        }
    }
}

/// A step for the units of a row.
struct Units<'a, E: Element, P, S, const KEPT: usize, const READ: usize, const PRODUCTS: usize, const FACTORS: usize> {
    step: S,
    size: usize,
    kept: [&'a mut [E]; KEPT],
    read: [&'a [E]; READ],
    products: [&'a [P]; PRODUCTS],
    factors: [&'a mut [P]; FACTORS],
    carried: &'a mut [E::Acc],
}

impl<E, P, S, const KEPT: usize, const READ: usize, const PRODUCTS: usize, const FACTORS: usize> Leaf
    for Units<'_, E, P, S, KEPT, READ, PRODUCTS, FACTORS>
where
    E: Element,
    P: Element<Acc = E::Acc>,
    S: Step<E::Acc, KEPT, READ, PRODUCTS, FACTORS>,
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // The compiler omits bounds checks of slices that it knows to have equal lengths.
        let Self { step, size, mut kept, mut read, mut products, mut factors, carried } = self;
        unrolled!(n in KEPT => kept[n] = &mut take(&mut kept[n])[..size]);
        unrolled!(n in READ => read[n] = &read[n][..size]);
        unrolled!(n in PRODUCTS => products[n] = &products[n][..size]);
        unrolled!(n in FACTORS => factors[n] = &mut take(&mut factors[n])[..size]);
        let carried = &mut carried[..if S::CARRIES { size } else { 0 }];
        for at in 0..size {
            // The compiler omits what the step does not use.
            let zero = <E::Acc as Number>::ZERO;
            let mut unit = Unit {
                kept: [zero; KEPT],
                read: [zero; READ],
                products: [zero; PRODUCTS],
                factors: [zero; FACTORS],
                carried: if S::CARRIES { carried[at] } else { zero },
            };
            unrolled!(n in KEPT => unit.kept[n] = kept[n][at].load());
            unrolled!(n in READ => unit.read[n] = read[n][at].load());
            unrolled!(n in PRODUCTS => unit.products[n] = products[n][at].load());
            unrolled!(n in FACTORS => unit.factors[n] = factors[n][at].load());
            let (new, carry) = step.apply(unit);
            let mut rounded = [E::default(); KEPT];
            unrolled!(n in KEPT => rounded[n] = E::store(new[n]));
            unrolled!(n in KEPT => kept[n][at] = rounded[n]);
            unrolled!(n in FACTORS => factors[n][at] = P::store(rounded[S::FACTORS_KEPT[n]].load()));
            if S::CARRIES {
                carried[at] = carry;
            }
        }
    }
}

/// Elements that are handed out from the front.
type Remaining<'a, T> = &'a mut [T];

/// The next `count` elements; none if there are fewer.
#[inline(always)]
fn next<'a, T>(rest: &mut Remaining<'a, T>, count: usize) -> &'a mut [T] {
    rest.split_off_mut(..count).unwrap_or_default()
}

pub fn elements<E: Element>(row: Row<'_>) -> Result<&[E], Error> {
    row.as_slice().ok_or_else(|| Error::new("an operand of a cell has gaps"))
}

/// The elements of an output's row.
pub fn target<E: Element>(row: RowMut<'_>) -> Result<&mut [E], Error> {
    row.into_slice().ok_or_else(|| Error::new("a result of a cell has gaps"))
}

/// A body of [`in_parts`].
type PartBody<'f, const N: usize> = &'f (dyn Fn(usize, usize, [Output<'_>; N]) -> Result<(), Error> + Sync);

/// Runs `body(begin, end, outputs)` for parts of the batch, as [`Output::in_parts`], and returns the first error.
pub fn in_parts<const N: usize>(outputs: [Output<'_>; N], grain: usize, cost: f64, body: PartBody<'_, N>) -> Result<(), Error> {
    let failure = Failure::default();
    // The batch is the last dimension but one.
    let outputs = outputs.map(|output| {
        let dim = output.ndim() - 2;
        (output, dim)
    });
    Output::in_parts(outputs, grain, cost, &|begin, end, parts| failure.note(body(begin, end, parts)));
    failure.result()
}

/// Computes a step of each row of a batch. The first of the inputs is [batch, size].
pub fn cell<S, const OUTPUTS: usize, const KEPT: usize, const READ: usize>(
    launch: &Launch<'_>,
    step: S,
    outputs: [Output<'_>; OUTPUTS],
    operands: &[View<'_>],
) -> Result<(), Error>
where
    S: Step<f32, KEPT, READ, 0, 0> + Step<f64, KEPT, READ, 0, 0>,
    S: Step<Complex<f32>, KEPT, READ, 0, 0> + Step<Complex<f64>, KEPT, READ, 0, 0>,
{
    let (size, dtype) = (operands[0].size(1), launch.compute());
    let (grain, cost) = (CELL_PIECE.div_ceil(size.max(1)), launch.cost() * size as f64);
    dispatch!(dtype in FLOATING | WIDE_COMPLEX, E => in_parts(outputs, grain, cost, &|begin, end, mut outputs| {
        let (mut written, mut inputs) = (SmallVec::<[_; 3]>::new(), SmallVec::<[_; 5]>::new());
        for output in &mut outputs {
            written.push(Written::of(output, &[], size)?);
        }
        for operand in operands {
            inputs.push(Input::of(operand, size)?.from(0, begin));
        }
        let batch_step = BatchStep::<E, E> {
            count: end - begin,
            size,
            outputs: &mut written,
            inputs: &inputs,
            products: &[],
            factors: &mut [],
            carried: &mut [],
        };
        batch_step.run(step);
        Ok(())
    }))
}
