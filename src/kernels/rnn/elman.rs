//! A layer of a plain recurrent network (Elman, "Finding Structure in Time", 1990) over a whole sequence, forward and backward.

#![forbid(unsafe_code)]

use super::sequence::{Factor, Layer, cost, layers, load, load_back, row, store, target, transposed_weight, weight};
use crate::kernels::signature::signature;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::Memory;
use crate::tensor::number::{Field, Number, Ordered, Real};

signature! {
    elman_layer(out, weight, hx)[reverse, relu] in FLOATING;
    elman_layer_backward(grad_sums, grad_hx, grad_out, out, weight)[reverse, relu] in FLOATING;
}

/// Computes a row of one step. On entry out holds the sums of the inputs, on return the new hidden state.
struct Forward<'a, E, P> {
    out: &'a mut [E],
    products: &'a [P],
    hidden: &'a mut [P],
    relu: bool,
}

impl<E: Element<Acc: Real>, P: Element<Acc = E::Acc>> Leaf for Forward<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((out, product), hidden) in self.out.iter_mut().zip(self.products).zip(self.hidden) {
            let sum = out.load().add(product.load());
            *out = E::store(if self.relu { sum.maximum(<E::Acc as Number>::ZERO) } else { sum.tanh() });
            *hidden = P::store(out.load());
        }
    }
}

layers! {
    /// The recurrent part of a layer. Operands [out, weight, hx], contiguous and of one dtype: out [steps, batch, size], on entry
    /// the sums of the inputs and both biases; weight [size, size], of the hidden state; hx [batch, size]. Scalars [reverse, relu]:
    /// reverse runs from the last step to the first; relu replaces tanh by max(0, x).
    elman_layer, 0, forward;
}

fn forward<E: Element<Acc: Real>, P: Factor<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), Error> {
    let Layer { steps, size, .. } = layer;
    let relu = elman_layer::Scalars::of(launch)?.relu.to::<i64>() != 0;
    let mut weight = transposed_weight::<E, P>(&launch.view(1), size, size)?;
    let weight: &[P] = weight.numbers(P::prepared_len([size, size]));
    layer.for_parts([(launch.output(0)?, 1)], cost(launch), &|begin, end, [mut out]| {
        let elements = (end - begin) * size;
        let mut memory = [(); 2].map(|()| Memory::of(elements * size_of::<P>()));
        let [products, hidden] = memory.each_mut().map(|memory| memory.numbers::<P>(elements));
        load::<E, P>(&launch.view(2), begin, hidden, size)?;
        for position in (0..steps).map(|number| layer.position(number)) {
            P::multiply([end - begin, size, size], products, hidden, weight)?;
            for (number, hidden) in hidden.chunks_exact_mut(size).enumerate() {
                let (out, products) = (target::<E>(out.row_mut(&[position, number]))?, &products[number * size..][..size]);
                vectorize(Forward { out, products, hidden, relu });
            }
        }
        Ok(())
    })
}

/// Computes a row of one step of the gradient.
struct Backward<'a, E, P> {
    grad_sums: &'a mut [E],
    sums: &'a mut [P],
    grad_hidden: &'a [P],
    grad_out: &'a [E],
    out: &'a [E],
    relu: bool,
}

impl<E: Element<Acc: Real>, P: Element<Acc = E::Acc>> Leaf for Backward<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (one, zero) = (<E::Acc as Number>::ONE, <E::Acc as Number>::ZERO);
        let grads = self.grad_hidden.iter().zip(self.grad_out);
        for (((to, sum), (by_hidden, by_out)), out) in self.grad_sums.iter_mut().zip(self.sums).zip(grads).zip(self.out) {
            let (grad, out) = (by_hidden.load().add(by_out.load()), out.load());
            let of_relu = if out <= zero { zero } else { grad };
            *to = E::store(if self.relu { of_relu } else { grad.mul(one.sub(out.mul(out))) });
            *sum = P::store(to.load());
        }
    }
}

layers! {
    /// The gradient of [`elman_layer`]. Operands [grad of sums, grad of hx, grad of out, out, weight], contiguous, of one dtype,
    /// and sized as there; on entry grad of hx holds the gradient of the last hidden state. Scalars as there.
    elman_layer_backward, 2, backward;
}

fn backward<E: Element<Acc: Real>, P: Factor<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), Error> {
    let Layer { steps, size, .. } = layer;
    let relu = elman_layer::Scalars::of(launch)?.relu.to::<i64>() != 0;
    let mut weight = weight::<E, P>(&launch.view(4), size, size)?;
    let weight: &[P] = weight.numbers(P::prepared_len([size, size]));
    let outputs = [(launch.output(0)?, 1), (launch.output(1)?, 0)];
    layer.for_parts(outputs, cost(launch), &|begin, end, [mut grad_sums, mut grad_hx]| {
        let [grad_out, out] = [2, 3].map(|operand| launch.view(operand));
        let elements = (end - begin) * size;
        let mut memory = [(); 2].map(|()| Memory::of(elements * size_of::<P>()));
        let [sums, grad_hidden] = memory.each_mut().map(|memory| memory.numbers::<P>(elements));
        load_back::<E, P>(&grad_hx, grad_hidden, size)?;
        for position in (0..steps).rev().map(|number| layer.position(number)) {
            for (number, sums) in sums.chunks_exact_mut(size).enumerate() {
                let index = [position, begin + number];
                vectorize(Backward {
                    grad_sums: target::<E>(grad_sums.row_mut(&[position, number]))?,
                    sums,
                    grad_hidden: &grad_hidden[number * size..][..size],
                    grad_out: row(&grad_out, &index)?,
                    out: row(&out, &index)?,
                    relu,
                });
            }
            P::multiply([end - begin, size, size], grad_hidden, sums, weight)?;
        }
        store::<E, P>(&mut grad_hx, grad_hidden, size)
    })
}

#[cfg(test)]
mod tests {
    use super::super::rnn_tests::{SIZE, STEPS, assert_gradients, copy, empty, given, position, product, real};
    use crate::kernels::check::{self, Tensor};
    use crate::tensor::dtype::{DType, FLOATING};
    use crate::tensor::launch::Scalar;

    fn forward(dtype: DType, flags: [bool; 2], sums: &Tensor, weight: &Tensor, hx: &Tensor) -> Tensor {
        let out = copy(sums, dtype);
        check::run("elman_layer", &[&out], &[weight, hx], &flags.map(Scalar::Bool), dtype).unwrap();
        out
    }

    #[test]
    fn a_layer_is_its_cells_one_after_the_other() {
        for dtype in FLOATING.iter() {
            for (batch, reverse, relu) in [(1, false, true), (9, true, false), (70, false, false), (70, true, true)] {
                let (sums, weight) = (given(dtype, &[STEPS, batch, SIZE], 1), given(dtype, &[SIZE, SIZE], 2));
                let hx = given(dtype, &[batch, SIZE], 3);
                let out = real(&forward(dtype, [reverse, relu], &sums, &weight, &hx));
                let (sums, weight, mut hidden) = (real(&sums), real(&weight), real(&hx));
                for number in 0..STEPS {
                    let step = position(number, reverse);
                    for (row, at) in (0..batch).flat_map(|row| (0..SIZE).map(move |at| (row, at))) {
                        let sum = sums[[step, row, at]] + product(&weight, &hidden, row, 0, at);
                        let (found, expected) = (out[[step, row, at]], if relu { sum.max(0.0) } else { sum.tanh() });
                        let tolerance = 8.0 * check::tolerance(dtype) * expected.abs().max(1.0);
                        assert!((found - expected).abs() <= tolerance, "{dtype:?} {batch} {number}: {found} != {expected}");
                    }
                    // Errors do not accumulate from step to step.
                    hidden = out.index_axis(ndarray::Axis(0), step).to_owned();
                }
            }
        }
    }

    #[test]
    fn gradients_are_difference_quotients() {
        let (dtype, batch) = (DType::Double, 9);
        for flags in [[false, false], [true, false], [false, true]] {
            let (sums, weight) = (given(dtype, &[STEPS, batch, SIZE], 1), given(dtype, &[SIZE, SIZE], 2));
            let (hx, grad_out) = (given(dtype, &[batch, SIZE], 3), given(dtype, &[STEPS, batch, SIZE], 5));
            let grad_hy = given(dtype, &[batch, SIZE], 6);
            let loss = |by: &[Tensor]| {
                let out = real(&forward(dtype, flags, &by[0], &weight, &by[1]));
                let last = out.index_axis(ndarray::Axis(0), position(STEPS - 1, flags[0])).to_owned();
                (&out * &real(&grad_out)).sum() + (last * real(&grad_hy)).sum()
            };
            let out = forward(dtype, flags, &sums, &weight, &hx);
            let results = [empty(dtype, &[STEPS, batch, SIZE]), copy(&grad_hy, dtype)];
            let operands = [&grad_out, &out, &weight];
            check::run("elman_layer_backward", &results.each_ref(), &operands, &flags.map(Scalar::Bool), dtype).unwrap();
            assert_gradients(&[&sums, &hx], &results.each_ref(), loss);
        }
    }
}
