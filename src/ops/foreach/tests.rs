//! Operators over lists, over all their rows: lists, numbers, reductions.

use crate::ops::check::{Case, Make, Tensor, agree, doubles, real, values};
use crate::ops::table::TABLE;
use crate::tensor::{FLOAT, FLOATING, Scalar};

const SIZES: [usize; 4] = [3, 0, 64, 200];

fn list(make: &Make, seed: usize, sizes: &[usize]) -> Vec<Tensor> {
    let dtype = make.dtype();
    sizes.iter().enumerate().map(|(at, &size)| make.dense(dtype, &values(dtype, &[size], 7 * seed + at))).collect()
}

/// A launch of a row over its lists, with these numbers and a factor in device memory.
fn case(make: &Make, name: &str, is_in_place: bool, numbers: &[f64], factor: Option<f64>) -> Case {
    let count = match name {
        "_foreach_lerp.List" | "_foreach_addcdiv.Scalar" | "_foreach_addcmul.Scalar" => 3,
        _ if name.ends_with(".List") || name == "_foreach_lerp.Scalar" => 2,
        _ => 1,
    };
    let mut inputs: Vec<Tensor> = (0..count).flat_map(|seed| list(make, seed, &SIZES)).collect();
    let outputs = if is_in_place { inputs.drain(..SIZES.len()).collect() } else { list(make, 99, &SIZES) };
    inputs.extend(factor.map(|factor| make.dense(make.dtype(), &values(make.dtype(), &[1], 0).mapv(|_| real(factor)))));
    let scalars = [vec![Scalar::Long(SIZES.len() as i64), Scalar::Bool(is_in_place)], doubles(numbers)].concat();
    Case::new(outputs, inputs, scalars)
}

#[test]
fn lists_and_numbers() {
    const EACH: [f64; SIZES.len()] = [0.5, 2.0, -1.0, 4.0];
    for (name, is_in_place) in TABLE.iter().filter(|op| op.is_piecewise()).flat_map(|op| [(op.text(), false), (op.text(), true)]) {
        let numbers: &[&[f64]] = match name {
            "_foreach_add.List" | "_foreach_sub.List" | "_foreach_pow.ScalarAndTensor" => &[&EACH[..1]],
            _ if name.ends_with(".Scalar") => &[&EACH[..1], &EACH],
            _ => &[&[]],
        };
        for numbers in numbers {
            agree(name, FLOATING, [8.0, 0.0], |make| case(make, name, is_in_place, numbers, None));
        }
    }
    for name in ["_foreach_mul.Scalar", "_foreach_add.Scalar"] {
        agree(name, FLOATING, [2.0, 0.0], |make| case(make, name, false, &[2.0], Some(0.25)));
    }
}

#[test]
fn every_tensor_is_reduced() {
    let sizes = [3, 64, 20_000];
    for (name, order) in [("_foreach_norm.Scalar", Some(1.0)), ("_foreach_norm.Scalar", Some(2.0)), ("_foreach_max", None)] {
        agree(name, FLOAT, [100.0, 0.0], |make| {
            let scalars = [vec![Scalar::Long(sizes.len() as i64)], doubles(order.as_slice())].concat();
            Case::new(sizes.map(|_| make.output(&[1])), list(make, 1, &sizes), scalars)
        });
    }
}
