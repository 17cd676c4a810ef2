//! Recurrent layers, compared with their formulas in float64 and, backward, with difference quotients of these; and cells, compared
//! with layers of one step.

use crate::ops::check::{self, Strides, Tensor};
use crate::tensor::{DType, FLOATING, HALVES, Scalar};

const STEPS: usize = 5;
const SIZE: usize = 19;

struct Kind {
    layer: &'static str,
    gates: usize,
    relu: bool,
}

const KINDS: [Kind; 4] = [
    Kind { layer: "lstm_layer", gates: 4, relu: false },
    Kind { layer: "gru_layer", gates: 3, relu: false },
    Kind { layer: "elman_layer", gates: 1, relu: false },
    Kind { layer: "elman_layer", gates: 1, relu: true },
];

fn given(dtype: DType, sizes: &[usize], seed: usize) -> Tensor {
    let values = check::values(dtype, sizes, seed).mapv(|value| check::round_trip(dtype, value / 16.0));
    Tensor::of(dtype, &values, Strides::Contiguous)
}

fn empty(dtype: DType, sizes: &[usize]) -> Tensor {
    Tensor::new(dtype, sizes, Strides::Contiguous)
}

fn copy(tensor: &Tensor, dtype: DType) -> Tensor {
    Tensor::of(dtype, &tensor.values(), Strides::Contiguous)
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.values().iter().map(|value| value.re).collect()
}

fn run(name: &str, outputs: &[Tensor], inputs: &[&Tensor], scalars: &[bool], dtype: DType) {
    let scalars: Vec<_> = scalars.iter().map(|&flag| Scalar::Bool(flag)).collect();
    check::run(name, &outputs.iter().collect::<Vec<_>>(), inputs, &scalars, dtype).unwrap();
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "{what} {at}: {found} != {expected}");
    }
}

/// The hidden states and, of an LSTM, the cell states after each step. `operands`: the sums of the inputs, the weight of the hidden
/// state, the initial hidden state, and the initial cell state or the bias of a GRU's hidden state.
fn reference(kind: &Kind, reverse: bool, operands: &[Vec<f64>; 4]) -> [Vec<f64>; 2] {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let [sums, weight, hx, other] = operands;
    let (mut hidden, mut cell) = (hx.clone(), other.clone());
    let mut results = [vec![0.0; STEPS * hx.len()], vec![0.0; STEPS * hx.len()]];
    for step in (0..STEPS).map(|number| if reverse { STEPS - 1 - number } else { number }) {
        let before = hidden.clone();
        for (unit, new) in hidden.iter_mut().enumerate() {
            let (first, at) = (unit / SIZE * SIZE, unit % SIZE);
            let input = |gate: usize| sums[(step * hx.len() + first) * kind.gates + gate * SIZE + at];
            let row = |gate: usize| weight[(gate * SIZE + at) * SIZE..].iter().zip(&before[first..first + SIZE]);
            let product = |gate: usize| row(gate).map(|(weight, before)| weight * before).sum::<f64>();
            let sum = |gate: usize| input(gate) + product(gate);
            *new = match kind.gates {
                4 => {
                    cell[unit] = sigmoid(sum(1)) * cell[unit] + sigmoid(sum(0)) * sum(2).tanh();
                    results[1][step * hx.len() + unit] = cell[unit];
                    sigmoid(sum(3)) * cell[unit].tanh()
                }
                3 => {
                    let bias = |gate: usize| other[gate * SIZE + at];
                    let [r, z] = [0, 1].map(|gate| sigmoid(sum(gate) + bias(gate)));
                    let n = (input(2) + r * (product(2) + bias(2))).tanh();
                    (1.0 - z) * n + z * before[unit]
                }
                _ if kind.relu => sum(0).max(0.0),
                _ => sum(0).tanh(),
            };
            results[0][step * hx.len() + unit] = *new;
        }
    }
    results
}

fn check_layer(kind: &Kind, dtype: DType, batch: usize, reverse: bool) {
    let (wide, is_lstm, is_gru) = (kind.gates * SIZE, kind.gates == 4, kind.gates == 3);
    let (state, sequence): (&[usize], &[usize]) = (&[batch, SIZE], &[STEPS, batch, SIZE]);
    let tensors = [
        given(dtype, &[STEPS, batch, wide], 1),
        given(dtype, &[wide, SIZE], 2),
        given(dtype, state, 3),
        if is_gru { given(dtype, &[wide], 4) } else { given(dtype, state, 4) },
    ];
    let (operands, scalars) = (tensors.each_ref().map(numbers), [reverse, kind.relu]);
    let [sums, weight, hx, other] = &tensors;
    let (tolerance, what) = (16.0 * check::tolerance(dtype), format!("{} {dtype:?} {batch} {scalars:?}", kind.layer));

    let sums = copy(sums, dtype);
    let results = if kind.gates == 1 { vec![sums] } else { vec![empty(dtype, sequence), empty(dtype, sequence), sums] };
    run(kind.layer, &results, &[weight, hx, other][..if kind.gates == 1 { 2 } else { 3 }], &scalars, dtype);
    let expected = reference(kind, reverse, &operands);
    for (result, expected) in results.iter().zip(&expected).take(if is_lstm { 2 } else { 1 }) {
        assert_near(&numbers(result), expected, tolerance, &what);
    }

    // The slope of relu jumps at 0, where rounding moves sums across.
    if kind.relu && HALVES.contains(dtype) {
        return;
    }
    let grads = [given(dtype, sequence, 5), given(dtype, state, 6), given(dtype, state, 7)];
    let mut found: Vec<_> = (0..if is_gru { 2 } else { 1 }).map(|_| empty(dtype, &[STEPS, batch, wide])).collect();
    found.extend(grads[1..if is_lstm { 3 } else { 2 }].iter().map(|grad| copy(grad, dtype)));
    let inputs = match kind.gates {
        4 => vec![weight, &grads[0], &results[1], &results[2], other, &results[1]],
        3 => vec![weight, &grads[0], &results[1], &results[2], hx, &results[0]],
        _ => vec![weight, &grads[0], &results[0]],
    };
    run(&format!("{}_backward", kind.layer), &found, &inputs, &scalars, dtype);
    let (grads, mut found) = (grads.each_ref().map(numbers), found.iter().map(numbers).collect::<Vec<_>>());
    if is_gru {
        // The bias is added to the products of each row.
        let bias = (0..wide).map(|at| found[1].iter().skip(at).step_by(wide).sum()).collect();
        found.push(bias);
        found.remove(1);
    }
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    let loss = |operands: &[Vec<f64>; 4]| {
        let [out, cells] = reference(kind, reverse, operands);
        let last = if reverse { 0 } else { (STEPS - 1) * batch * SIZE };
        dot(&out, &grads[0]) + dot(&out[last..], &grads[1]) + dot(&cells[last..], &grads[2])
    };
    for (found, operand) in found.iter().zip([0, 2, 3]) {
        for at in (0..found.len()).step_by(found.len() / 3 + 1) {
            let [above, below] = [1e-5, -1e-5].map(|shift| {
                let mut operands = operands.clone();
                operands[operand][at] += shift;
                loss(&operands)
            });
            assert_near(&[found[at]], &[(above - below) / 2e-5], tolerance.max(1e-6), &format!("{what}, operand {operand}"));
        }
    }
}

#[test]
fn layers_are_their_formulas_and_gradients_are_difference_quotients() {
    for kind in &KINDS {
        for dtype in FLOATING.iter() {
            // The last batch has parts of which products are not widened on some processors.
            for (batch, reverse) in [(1, false), (9, true), (130, false)] {
                check_layer(kind, dtype, batch, reverse);
            }
        }
    }
}

#[test]
fn a_cell_is_a_layer_of_one_step() {
    const BATCH: usize = 5;
    let exact = DType::Double;
    for dtype in FLOATING.iter() {
        let [x, h] = [1, 2].map(|seed| given(dtype, &[BATCH, 4 * SIZE], seed));
        let bias = given(dtype, &[4 * SIZE], 3);
        let [cx, grad_hy, grad_cy] = [4, 5, 6].map(|seed| given(dtype, &[BATCH, SIZE], seed));
        for biases in [0.0, 2.0] {
            let cell = [empty(dtype, &[BATCH, SIZE]), empty(dtype, &[BATCH, SIZE]), empty(dtype, &[BATCH, 4 * SIZE])];
            run("_thnn_fused_lstm_cell", &cell, &[&cx, &x, &h, &bias, &bias][..if biases == 0.0 { 3 } else { 5 }], &[], dtype);
            let grads = [empty(dtype, &[BATCH, 4 * SIZE]), empty(dtype, &[BATCH, SIZE])];
            run("_thnn_fused_lstm_cell_backward_impl", &grads, &[&grad_hy, &grad_cy, &cx, &cell[1], &cell[2]], &[], dtype);

            let sums = (x.values() + h.values() + bias.values() * biases).into_shape_with_order(vec![1, BATCH, 4 * SIZE]).unwrap();
            let gates = Tensor::of(exact, &sums, Strides::Contiguous);
            let layer = [empty(exact, &[1, BATCH, SIZE]), empty(exact, &[1, BATCH, SIZE]), gates];
            let (weight, hx, cx) = (empty(exact, &[4 * SIZE, SIZE]), empty(exact, &[BATCH, SIZE]), copy(&cx, exact));
            run("lstm_layer", &layer, &[&weight, &hx, &cx], &[false, false], exact);
            let [out, cells, gates] = &layer;
            let expected = [empty(exact, &[1, BATCH, 4 * SIZE]), copy(&grad_hy, exact), copy(&grad_cy, exact)];
            let inputs = [&weight, &empty(exact, &[1, BATCH, SIZE]), cells, gates, &cx, cells];
            run("lstm_layer_backward", &expected, &inputs, &[false, false], exact);

            let pairs =
                [(&cell[0], out), (&cell[1], cells), (&cell[2], gates), (&grads[0], &expected[0]), (&grads[1], &expected[2])];
            for (found, expected) in pairs {
                assert_near(&numbers(found), &numbers(expected), 4.0 * check::tolerance(dtype), &format!("{dtype:?} {biases}"));
            }
        }
    }
}
