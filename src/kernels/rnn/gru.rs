//! A layer of a GRU over a whole sequence, forward and backward.

#![forbid(unsafe_code)]

use super::formulas::{GRU_GATES as GATES, gates, gates_mut, gru_step, gru_step_backward};
use super::sequence::{Factor, Layer, cost, layers, load, load_back, row, store, target, transposed_weight, weight};
use crate::kernels::signature::signature;
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::Memory;
use crate::tensor::number::{Number, Real};

signature! {
    gru_layer(out, resettable, gates, weight, bias, hx)[reverse] in FLOATING;
    gru_layer_backward(grads, grad_hx, grad_out, gates, resettable, out, hx, weight)[reverse] in FLOATING;
}

/// Computes a row of one step. On entry the gates hold the sums of the inputs, on return the activated gates.
struct Forward<'a, E: Element, P> {
    gates: [&'a mut [E]; GATES],
    products: [&'a [P]; GATES],
    bias: [&'a [E]; GATES],
    hidden: &'a mut [P],
    resettable: &'a mut [E],
    out: &'a mut [E],
}

impl<E: Element<Acc: Real>, P: Element<Acc = E::Acc>> Leaf for Forward<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // The compiler omits bounds checks of slices that it knows to have equal lengths.
        let size = self.hidden.len();
        let [in_r, in_z, in_n] = self.gates.map(|gate| &mut gate[..size]);
        let [from_r, from_z, from_n] = self.products.map(|gate| &gate[..size]);
        let [bias_r, bias_z, bias_n] = self.bias.map(|gate| &gate[..size]);
        let (hidden, resettable, out) = (self.hidden, &mut self.resettable[..size], &mut self.out[..size]);
        for at in 0..size {
            let sum_r = in_r[at].load().add(from_r[at].load().add(bias_r[at].load()));
            let sum_z = in_z[at].load().add(from_z[at].load().add(bias_z[at].load()));
            let hn = from_n[at].load().add(bias_n[at].load());
            let sums = [sum_r, sum_z, in_n[at].load()];
            let ([r, z, n], new_hidden) = gru_step(sums, hn, hidden[at].load());
            resettable[at] = E::store(hn);
            out[at] = E::store(new_hidden);
            hidden[at] = P::store(out[at].load());
            in_r[at] = E::store(r);
            in_z[at] = E::store(z);
            in_n[at] = E::store(n);
        }
    }
}

layers! {
    /// The recurrent part of a layer. Operands [out, resettable, gates, weight, bias, hx], contiguous and of one dtype: out [steps,
    /// batch, size]; resettable, of the same sizes, the hidden state's term of n before the reset; gates [steps, batch, 3 size], on
    /// entry the sums of the inputs and their biases, on return the activated gates r, z, n; weight [3 size, size] and bias [3
    /// size], of the hidden state; hx [batch, size]. Scalars [reverse]: from the last step to the first.
    gru_layer, 0, forward;
}

fn forward<E: Element<Acc: Real>, P: Factor<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), Error> {
    let Layer { steps, size, .. } = layer;
    let wide = GATES * size;
    let mut weight = transposed_weight::<E, P>(&launch.view(3), wide, size)?;
    let weight: &[P] = weight.numbers(P::prepared_len([size, wide]));
    let outputs = [(launch.output(0)?, 1), (launch.output(1)?, 1), (launch.output(2)?, 1)];
    layer.for_parts(outputs, cost(launch), &|begin, end, [mut out, mut resettable, mut gates]| {
        let bias = launch.view(4);
        let rows = end - begin;
        let mut memory = [wide, size].map(|cols| Memory::of(rows * cols * size_of::<P>()));
        let [products, hidden] = memory.each_mut();
        let (products, hidden) = (products.numbers::<P>(rows * wide), hidden.numbers::<P>(rows * size));
        load::<E, P>(&launch.view(5), begin, hidden, size)?;
        for position in (0..steps).map(|number| layer.position(number)) {
            P::multiply([rows, wide, size], products, hidden, weight)?;
            for (number, hidden) in hidden.chunks_exact_mut(size).enumerate() {
                let index = [position, number];
                vectorize(Forward {
                    gates: gates_mut(target::<E>(gates.row_mut(&index))?, size),
                    products: self::gates(&products[number * wide..], size),
                    bias: self::gates(row(&bias, &[])?, size),
                    hidden,
                    resettable: target(resettable.row_mut(&index))?,
                    out: target(out.row_mut(&index))?,
                });
            }
        }
        Ok(())
    })
}

/// Computes a row of one step of the gradient.
struct Backward<'a, E: Element, P> {
    grad_gates: [&'a mut [E]; GATES],
    grad_products: [&'a mut [E]; GATES],
    grad_sums: [&'a mut [P]; GATES],
    direct: &'a mut [E::Acc],
    grad_hidden: &'a [P],
    grad_out: &'a [E],
    gates: [&'a [E]; GATES],
    resettable: &'a [E],
    hx: &'a [E],
}

impl<E: Element<Acc: Real>, P: Element<Acc = E::Acc>> Leaf for Backward<'_, E, P> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let size = self.direct.len();
        let [out_r, out_z, out_n] = self.grad_gates.map(|gate| &mut gate[..size]);
        let [product_r, product_z, product_n] = self.grad_products.map(|gate| &mut gate[..size]);
        let [to_r, to_z, to_n] = self.grad_sums.map(|gate| &mut gate[..size]);
        let [in_r, in_z, in_n] = self.gates.map(|gate| &gate[..size]);
        let (grad_hidden, grad_out) = (&self.grad_hidden[..size], &self.grad_out[..size]);
        let (resettable, hx) = (&self.resettable[..size], &self.hx[..size]);
        for at in 0..size {
            let activated = [in_r[at].load(), in_z[at].load(), in_n[at].load()];
            let grad = grad_hidden[at].load().add(self.direct[at]).add(grad_out[at].load());
            let ([r, z, n], hn, direct) = gru_step_backward(grad, activated, resettable[at].load(), hx[at].load());
            self.direct[at] = direct;
            out_r[at] = E::store(r);
            out_z[at] = E::store(z);
            out_n[at] = E::store(n);
            product_r[at] = out_r[at];
            product_z[at] = out_z[at];
            product_n[at] = E::store(hn);
            to_r[at] = P::store(out_r[at].load());
            to_z[at] = P::store(out_z[at].load());
            to_n[at] = P::store(product_n[at].load());
        }
    }
}

layers! {
    /// The gradient of [`gru_layer`]. Operands [grads, grad of hx, grad of out, gates, resettable, out, hx, weight], contiguous, of
    /// one dtype and sized as there, the gates activated; grads [2, steps, batch, 3 size], of the sums of the inputs and of the
    /// hidden state's products, which differ in n. On entry grad of hx holds the gradient of the last hidden state. Scalars
    /// [reverse], as there.
    gru_layer_backward, 2, backward;
}

fn backward<E: Element<Acc: Real>, P: Factor<Acc = E::Acc>>(launch: &Launch<'_>, layer: Layer) -> Result<(), Error> {
    let Layer { steps, size, .. } = layer;
    let wide = GATES * size;
    let mut weight = weight::<E, P>(&launch.view(7), wide, size)?;
    let weight: &[P] = weight.numbers(P::prepared_len([wide, size]));
    let outputs = [(launch.output(0)?, 2), (launch.output(1)?, 0)];
    layer.for_parts(outputs, cost(launch), &|begin, end, [mut grads, mut grad_hx]| {
        let [grad_out, gates, resettable, out, hx] = [2, 3, 4, 5, 6].map(|operand| launch.view(operand));
        let rows = end - begin;
        let mut memory = [wide, size].map(|cols| Memory::of(rows * cols * size_of::<P>()));
        let [grad_sums, grad_hidden] = memory.each_mut();
        let (grad_sums, grad_hidden) = (grad_sums.numbers::<P>(rows * wide), grad_hidden.numbers::<P>(rows * size));
        let mut memory = Memory::of(rows * size * size_of::<E::Acc>());
        let direct = memory.numbers::<E::Acc>(rows * size);
        load_back::<E, E::Acc>(&grad_hx, direct, size)?;
        grad_hidden.fill(P::store(<E::Acc as Number>::ZERO));
        for number in (0..steps).rev() {
            for (row_of_part, direct) in direct.chunks_exact_mut(size).enumerate() {
                let index = [layer.position(number), begin + row_of_part];
                let before = match number {
                    0 => row::<E>(&hx, &[index[1]])?,
                    _ => row::<E>(&out, &[layer.position(number - 1), index[1]])?,
                };
                let [grad_gates, grad_products] = grads.rows_mut([&[0, index[0], row_of_part], &[1, index[0], row_of_part]]);
                vectorize(Backward {
                    grad_gates: gates_mut(target::<E>(grad_gates)?, size),
                    grad_products: gates_mut(target::<E>(grad_products)?, size),
                    grad_sums: gates_mut(&mut grad_sums[row_of_part * wide..][..wide], size),
                    direct,
                    grad_hidden: &grad_hidden[row_of_part * size..][..size],
                    grad_out: row(&grad_out, &index)?,
                    gates: self::gates(row(&gates, &index)?, size),
                    resettable: row(&resettable, &index)?,
                    hx: before,
                });
            }
            P::multiply([rows, size, wide], grad_hidden, grad_sums, weight)?;
        }
        for (direct, hidden) in direct.iter_mut().zip(&*grad_hidden) {
            *direct = direct.add(hidden.load());
        }
        store::<E, E::Acc>(&mut grad_hx, direct, size)
    })
}

#[cfg(test)]
mod tests {
    use ndarray::Axis;

    use super::super::rnn_tests::{SIZE, STEPS, assert_gradients, copy, empty, given, position, product, real, sigmoid};
    use crate::kernels::check::{self, Strides, Tensor};
    use crate::tensor::dtype::{DType, FLOATING};
    use crate::tensor::launch::Scalar;

    /// The [out, resettable, gates] of a layer, from [sums, bias, hx].
    fn forward(dtype: DType, batch: usize, reverse: bool, weight: &Tensor, [sums, bias, hx]: [&Tensor; 3]) -> [Tensor; 3] {
        let of_steps = || empty(dtype, &[STEPS, batch, SIZE]);
        let results = [of_steps(), of_steps(), copy(sums, dtype)];
        check::run("gru_layer", &results.each_ref(), &[weight, bias, hx], &[Scalar::Bool(reverse)], dtype).unwrap();
        results
    }

    #[test]
    fn a_layer_is_its_cells_one_after_the_other() {
        for dtype in FLOATING.iter() {
            for (batch, reverse) in [(1, false), (9, true), (70, false)] {
                let (sums, weight) = (given(dtype, &[STEPS, batch, 3 * SIZE], 1), given(dtype, &[3 * SIZE, SIZE], 2));
                let (hx, bias) = (given(dtype, &[batch, SIZE], 3), given(dtype, &[3 * SIZE], 4));
                let results = forward(dtype, batch, reverse, &weight, [&sums, &bias, &hx]);
                let [out, resettable, gates] = results.each_ref().map(real);
                let (sums, weight, bias, mut hidden) = (real(&sums), real(&weight), real(&bias), real(&hx));
                let tolerance = 8.0 * check::tolerance(dtype);
                for number in 0..STEPS {
                    let step = position(number, reverse);
                    for (row, at) in (0..batch).flat_map(|row| (0..SIZE).map(move |at| (row, at))) {
                        let given = |gate: usize| sums[[step, row, gate * SIZE + at]];
                        let brought = |gate: usize| product(&weight, &hidden, row, gate, at) + bias[[gate * SIZE + at]];
                        let (r, z) = (sigmoid(given(0) + brought(0)), sigmoid(given(1) + brought(1)));
                        let hn = brought(2);
                        let n = (given(2) + r * hn).tanh();
                        let expected = (1.0 - z) * n + z * hidden[[row, at]];
                        let found =
                            [r, z, n].into_iter().enumerate().map(|(gate, value)| (gates[[step, row, gate * SIZE + at]], value));
                        for (found, expected) in found.chain([(resettable[[step, row, at]], hn), (out[[step, row, at]], expected)])
                        {
                            assert!((found - expected).abs() <= tolerance, "{dtype:?} {batch} {number}: {found} != {expected}");
                        }
                    }
                    // Errors do not accumulate from step to step.
                    hidden = out.index_axis(Axis(0), step).to_owned();
                }
            }
        }
    }

    #[test]
    fn gradients_are_difference_quotients() {
        let (dtype, batch) = (DType::Double, 9);
        for reverse in [false, true] {
            let (sums, weight) = (given(dtype, &[STEPS, batch, 3 * SIZE], 1), given(dtype, &[3 * SIZE, SIZE], 2));
            let (hx, bias) = (given(dtype, &[batch, SIZE], 3), given(dtype, &[3 * SIZE], 4));
            let (grad_out, grad_hy) = (given(dtype, &[STEPS, batch, SIZE], 5), given(dtype, &[batch, SIZE], 6));
            let loss = |by: &[Tensor]| {
                let out = real(&forward(dtype, batch, reverse, &weight, [&by[0], &by[1], &by[2]])[0]);
                let last = out.index_axis(Axis(0), position(STEPS - 1, reverse)).to_owned();
                (&out * &real(&grad_out)).sum() + (last * real(&grad_hy)).sum()
            };
            let [out, resettable, gates] = forward(dtype, batch, reverse, &weight, [&sums, &bias, &hx]);
            let results = [empty(dtype, &[2, STEPS, batch, 3 * SIZE]), copy(&grad_hy, dtype)];
            let operands = [&grad_out, &gates, &resettable, &out, &hx, &weight];
            check::run("gru_layer_backward", &results.each_ref(), &operands, &[Scalar::Bool(reverse)], dtype).unwrap();
            let [of_sums, of_products] = [0, 1].map(|which| results[0].values().index_axis(Axis(0), which).to_owned());
            let of_bias = of_products.sum_axis(Axis(0)).sum_axis(Axis(0));
            let [of_sums, of_bias] = [of_sums, of_bias].map(|values| Tensor::of(dtype, &values, Strides::Contiguous));
            assert_gradients(&[&sums, &bias, &hx], &[&of_sums, &of_bias, &results[1]], loss);
        }
    }
}
