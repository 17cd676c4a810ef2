//! Every elementwise row of the operator table, over ties and zeros and over numbers of all magnitudes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ndarray::ArrayD;

use crate::ops::check::{self, Case, Make, agree_if, any_bits, close, doubles, near, real, tolerance, values};
use crate::ops::table::TABLE;
use crate::tensor::{Complex64, DType, DTypeSet, FIELD, FLOAT, FLOATING, INTEGRAL, Op, REAL, Scalar};

/// The scalars of the rows that have some; `T` stands for true and `F` for false.
const SCALARS: &[(&str, &[&[f64]])] = &[
    ("add", &[&[1.0], &[3.0]]),
    ("addcdiv", &[&[0.5]]),
    ("addcmul", &[&[2.0]]),
    ("addr", &[&[2.0, 3.0], &[0.0, 2.0]]),
    ("clamp", &[&[T, 1.0, T, 3.0], &[F, 1.0, T, 3.0], &[T, 1.0, F, 3.0]]),
    ("clamp_max", &[&[3.0]]),
    ("clamp_min", &[&[1.0]]),
    ("clamp_tensor", &[&[T, T]]),
    ("div", &[&[0.0], &[1.0], &[2.0]]),
    ("elu", &[&[1.0, 1.0, 1.0], &[1.5, 2.0, 0.5]]),
    ("elu_backward", &[&[1.5, 2.0, 0.5, 0.0], &[1.5, 2.0, 0.5, 1.0]]),
    ("gelu", &[&[0.0], &[1.0]]),
    ("gelu_backward", &[&[0.0], &[1.0]]),
    ("hardshrink", &[&[1.5]]),
    ("hardshrink_backward", &[&[1.5]]),
    ("hardtanh_backward", &[&[-1.0, 2.0]]),
    ("huber_loss", &[&[2.0]]),
    ("huber_loss_backward", &[&[0.5, 2.0]]),
    ("kaiser_window", &[&[1000.0, 12.0]]),
    ("leaky_relu", &[&[0.25]]),
    ("leaky_relu_backward", &[&[0.25, 0.0]]),
    ("lerp_scalar", &[&[0.25], &[1.0]]),
    ("logit", &[&[-1.0], &[0.125]]),
    ("logit_backward", &[&[F, 0.0], &[T, 0.125]]),
    ("mse_loss_backward", &[&[0.5]]),
    ("nan_to_num", &[&[F, 0.0, F, 0.0, F, 0.0], &[T, 5.0, T, 6.0, T, -7.0]]),
    ("pow_scalar", &[&[2.0], &[3.0], &[0.5], &[-0.5], &[-1.0], &[2.5]]),
    ("rotary", &[&[1.0], &[-1.0]]),
    ("round_decimals", &[&[1.0], &[-1.0]]),
    ("smooth_l1_loss", &[&[2.0]]),
    ("smooth_l1_loss_backward", &[&[0.5, 2.0]]),
    ("softplus", &[&[1.0, 20.0], &[2.0, 5.0]]),
    ("softplus_backward", &[&[1.0, 20.0], &[2.0, 5.0]]),
    ("softshrink", &[&[1.5]]),
    ("softshrink_backward", &[&[1.5]]),
    ("sub", &[&[2.0]]),
    ("threshold", &[&[2.0, 5.0]]),
    ("threshold_backward", &[&[1.0]]),
];

const F: f64 = f64::NEG_INFINITY;
const T: f64 = f64::INFINITY;

fn scalars(row: &[f64]) -> Vec<Scalar> {
    let scalar = |&value: &f64| if value.is_infinite() { Scalar::Bool(value > 0.0) } else { doubles(&[value])[0] };
    row.iter().map(scalar).collect()
}

/// The elementwise rows of the table: all before the reductions, and those of our own.
fn rows() -> impl Iterator<Item = &'static Op> {
    let own = ["residual_add", "rotary", "swiglu", "swiglu_backward"].map(check::find);
    TABLE.iter().skip_while(|op| op.text() != "abs").take_while(|op| op.text() != "all").chain(own)
}

/// The number of inputs of a row with one output.
fn inputs(op: &Op) -> usize {
    op.signature().text().split(')').next().unwrap().matches([',', ';']).count()
}

fn result(name: &str, dtype: DType) -> DType {
    match (name, dtype) {
        ("eq" | "ne" | "lt" | "le" | "gt" | "ge" | "signbit", _) => DType::Bool,
        _ if name.starts_with("is") || name.starts_with("logical_") => DType::Bool,
        ("angle" | "complex_abs", _) => dtype.real(),
        ("complex" | "polar", DType::Half) => DType::ComplexHalf,
        ("complex" | "polar", DType::Float) => DType::ComplexFloat,
        ("complex" | "polar", _) => DType::ComplexDouble,
        _ => dtype,
    }
}

/// The values of an input, if the row does not take them as they are.
fn given(name: &str, input: usize, dtype: DType, values: ArrayD<Complex64>) -> (DType, ArrayD<Complex64>) {
    let share = |value: Complex64| real(if value.re.abs() <= 8.0 { value.re.abs() / 8.0 } else { 0.5 });
    match (name, input) {
        ("where", 0) => (DType::Bool, values),
        ("ldexp", 1) => (DType::Int, values.mapv(|value| real(value.re.clamp(-300.0, 300.0)))),
        ("binary_cross_entropy", _) => (dtype, values.mapv(share)),
        // Terms are scaled by up to 3 before the factor below 1, and overflow on the way.
        ("addcmul" | "addr", _) => (dtype, values.mapv(|value| if value.norm() > 1e37 { value / 16.0 } else { value })),
        ("div" | "fmod" | "remainder", 1) if INTEGRAL.contains(dtype) => {
            (dtype, values.mapv(|value| if value.re.abs() < 1.0 { real(3.0) } else { value }))
        }
        _ => (dtype, values),
    }
}

/// Values of a dtype for sizes and a seed.
type Draw = fn(DType, &[usize], usize) -> ArrayD<Complex64>;

/// The launch of a row over values of `draw`. An input without one is a number.
fn case(make: &Make, op: &Op, numbers: &[f64], sizes: &[usize], draw: impl Fn(usize) -> Option<Draw>) -> Case {
    let (name, dtype) = (op.text(), make.dtype());
    let input = |number: usize| match draw(number) {
        None => make.number(sizes, 0.75),
        Some(draw) => {
            let (dtype, values) = given(name, number, dtype, draw(dtype, sizes, number));
            make.of(dtype, &values)
        }
    };
    let inputs: Vec<_> = (0..inputs(op)).map(input).collect();
    Case { is_pointwise: true, ..Case::new([make.output_of(result(name, dtype), sizes)], inputs, scalars(numbers)) }
}

/// Runs a check of every row, its dtypes and each of its scalars; reports all that fail.
fn each_row(check: impl Fn(&'static Op, DTypeSet, &[f64])) {
    const NONE: &[&[f64]] = &[&[]];
    let mut failures = Vec::new();
    for op in rows() {
        let listed = SCALARS.iter().find(|(name, _)| *name == op.text()).map_or(NONE, |(_, scalars)| scalars);
        for numbers in listed {
            // Complex numbers are divided without rounding, integers with rounding alone.
            let dtypes = match (op.text(), numbers) {
                ("div", [0.0]) => FIELD,
                ("div", _) => REAL,
                _ => op.dtypes(),
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| check(op, dtypes, numbers)));
            if let Err(payload) = outcome {
                failures.push(payload.downcast::<String>().map_or_else(|_| op.text().to_owned(), |text| *text));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn rows_over_ties_and_zeros() {
    // Errors of results below 1 are relative to 1: terms may cancel.
    let is_near = |found, expected, dtype| close(found, expected, 4.0 * tolerance(dtype));
    each_row(|op, dtypes, numbers| {
        for sizes in [&[0][..], &[3, 5, 17]] {
            agree_if(op.text(), dtypes, Some(&is_near), 0.0, |make| case(make, op, numbers, sizes, |_| Some(values)));
        }
    });
}

/// Rows that amplify the rounding of an intermediate result, or overflow where double precision does not.
const ROUGH: [&str; 5] =
    ["gelu", "kaiser_window", "round_decimals", "special_hermite_polynomial_h", "special_hermite_polynomial_he"];

/// One input has numbers of all magnitudes; the others are a number.
#[test]
fn rows_over_numbers_of_all_magnitudes() {
    each_row(|op, dtypes, numbers| {
        let name = op.text();
        let dtypes: Vec<_> = FLOATING.iter().filter(|&dtype| dtypes.contains(dtype)).collect();
        let is_near: Option<&dyn Fn(_, _, _) -> bool> = if ROUGH.contains(&name) { None } else { Some(&near) };
        for varied in 0..inputs(op) {
            let draw = |number| (number == varied || name == "where" || name == "ldexp").then_some(any_bits as Draw);
            agree_if(name, DTypeSet::of(&dtypes), is_near, 0.0, |make| case(make, op, numbers, &[400], draw));
        }
    });
}

#[test]
fn large_tensors_are_divided() {
    for sizes in [&[70_001][..], &[1025, 33]] {
        check::agree("add", FLOAT, [1.0, 0.0], |make| {
            Case::new([make.output(sizes)], [make.input(sizes, 1), make.row(sizes, 2)], doubles(&[3.0]))
        });
    }
}
