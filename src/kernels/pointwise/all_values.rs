//! Every pointwise row over all 65,536 values of the 16 bit floats, compared with the same row in double precision.
//!
//! A result must be the number nearest to the exact value, or adjacent to it, also in tails and among subnormal numbers. The
//! kernels' own tests compare the double precision results with tables and oracles.

use half::{bf16, f16};

use crate::kernels::check::{self, Strides, Tensor};
use crate::kernels::table::{Op, TABLE};
use crate::tensor::dtype::DType;
use crate::tensor::launch::{Layout, Scalar};

/// An input: every value, those in the domain of a sigmoid's result (0 for others), or one value everywhere.
#[derive(Clone, Copy, Debug)]
enum Input {
    All,
    Unit,
    One(f64),
}

use Input::{All, One, Unit};

/// Rows of one input, with their scalars.
const OF_ONE: &[(&str, &[&[f64]])] = &[
    ("abs", &[&[]]),
    ("acos", &[&[]]),
    ("acosh", &[&[]]),
    ("angle", &[&[]]),
    ("asin", &[&[]]),
    ("asinh", &[&[]]),
    ("atan", &[&[]]),
    ("atanh", &[&[]]),
    ("ceil", &[&[]]),
    ("clamp", &[&[1.0, -1.5, 1.0, 2.5]]),
    ("clamp_max", &[&[2.5]]),
    ("clamp_min", &[&[-1.5]]),
    ("cos", &[&[]]),
    ("cosh", &[&[]]),
    ("digamma", &[&[]]),
    ("elu", &[&[1.0, 1.0, 1.0], &[1.5, 2.0, 0.5], &[1.0, 1.0, 4.0]]),
    ("erf", &[&[]]),
    ("erfc", &[&[]]),
    ("erfinv", &[&[]]),
    ("exp", &[&[]]),
    ("exp2", &[&[]]),
    ("expm1", &[&[]]),
    ("floor", &[&[]]),
    ("frac", &[&[]]),
    ("gelu", &[&[0.0], &[1.0]]),
    ("hardshrink", &[&[0.5]]),
    ("hardsigmoid", &[&[]]),
    ("hardswish", &[&[]]),
    ("i0", &[&[]]),
    ("kaiser_window", &[&[1000.0, 12.0], &[9.0, 0.5]]),
    ("leaky_relu", &[&[0.25]]),
    ("lgamma", &[&[]]),
    ("log", &[&[]]),
    ("log10", &[&[]]),
    ("log1p", &[&[]]),
    ("log2", &[&[]]),
    ("log_sigmoid_forward", &[&[]]),
    ("logit", &[&[-1.0], &[0.125]]),
    ("mish", &[&[]]),
    ("neg", &[&[]]),
    ("pow_scalar", &[&[2.0], &[3.0], &[0.5], &[-0.5], &[-1.0], &[2.5], &[-3.0], &[0.25]]),
    ("reciprocal", &[&[]]),
    ("relu", &[&[]]),
    ("round", &[&[]]),
    ("rsqrt", &[&[]]),
    ("sgn", &[&[]]),
    ("sigmoid", &[&[]]),
    ("sign", &[&[]]),
    ("silu", &[&[]]),
    ("sin", &[&[]]),
    ("sinc", &[&[]]),
    ("sinh", &[&[]]),
    ("softplus", &[&[1.0, 20.0], &[2.0, 5.0], &[0.25, 8.0]]),
    ("softshrink", &[&[0.5]]),
    ("special_entr", &[&[]]),
    ("special_erfcx", &[&[]]),
    ("special_i0e", &[&[]]),
    ("special_i1", &[&[]]),
    ("special_i1e", &[&[]]),
    ("special_log_ndtr", &[&[]]),
    ("special_ndtri", &[&[]]),
    ("sqrt", &[&[]]),
    ("tan", &[&[]]),
    ("tanh", &[&[]]),
    ("trunc", &[&[]]),
];

/// Gradients of such rows: operands [grad, x], or the result instead of x.
const SLOPES: &[(&str, &[&[f64]])] = &[
    ("elu_backward", &[&[1.0, 1.0, 1.0, 0.0], &[1.5, 2.0, 0.5, 0.0], &[1.0, 1.0, 4.0, 0.0], &[1.5, 2.0, 0.5, 1.0]]),
    ("gelu_backward", &[&[0.0], &[1.0]]),
    ("hardshrink_backward", &[&[0.5]]),
    ("hardsigmoid_backward", &[&[]]),
    ("hardswish_backward", &[&[]]),
    ("hardtanh_backward", &[&[-1.0, 2.0]]),
    ("leaky_relu_backward", &[&[0.25, 0.0]]),
    ("logit_backward", &[&[0.0, 0.0], &[1.0, 0.125]]),
    ("mish_backward", &[&[]]),
    ("silu_backward", &[&[]]),
    ("softplus_backward", &[&[1.0, 20.0], &[2.0, 5.0], &[0.25, 8.0]]),
    ("softshrink_backward", &[&[0.5]]),
    ("threshold_backward", &[&[1.0]]),
];

/// The factor of the gradients.
const GRADS: &[f64] = &[1.0, -3.0, 1e-3, 100.0];

/// A row, its scalars and several choices of inputs.
type Case = (&'static str, &'static [f64], &'static [&'static [Input]]);

/// Rows of several inputs, of which one runs over every value.
const OF_SEVERAL: &[Case] = &[
    ("_prelu_kernel", &[], &[&[All, One(0.25)], &[One(-3.0), All]]),
    ("add", &[1.0], &[&[All, One(1.5)]]),
    ("addcdiv", &[0.5], &[&[One(1.0), All, One(3.0)], &[One(1.0), One(3.0), All]]),
    ("addcmul", &[0.5], &[&[One(1.0), All, One(3.0)], &[All, One(2.0), One(3.0)]]),
    ("addr", &[2.0, 3.0], &[&[One(1.0), All, One(3.0)], &[All, One(2.0), One(3.0)]]),
    ("atan2", &[], &[&[All, One(1.5)], &[All, One(-1.5)], &[One(1.5), All], &[One(-1e-3), All]]),
    ("binary_cross_entropy_backward", &[], &[&[One(1.0), All, One(0.25)], &[One(1.0), One(0.75), All]]),
    ("clamp_max_tensor", &[], &[&[All, One(2.5)]]),
    ("clamp_min_tensor", &[], &[&[All, One(2.5)]]),
    ("copysign", &[], &[&[All, One(-1.0)], &[One(2.0), All]]),
    ("div", &[0.0], &[&[All, One(3.0)], &[One(3.0), All]]),
    ("fmax", &[], &[&[All, One(2.5)]]),
    ("fmin", &[], &[&[All, One(2.5)]]),
    ("fmod", &[], &[&[All, One(2.5)], &[One(2.5), All]]),
    ("glu", &[], &[&[All, One(1.5)], &[One(1.5), All], &[One(-1000.0), All]]),
    ("glu_backward", &[], &[&[All, One(1.5), One(1.0)], &[One(0.25), All, One(1.0)]]),
    ("heaviside", &[], &[&[All, One(2.5)]]),
    ("huber_loss", &[2.0], &[&[All, One(0.5)]]),
    ("huber_loss_backward", &[0.5, 2.0], &[&[All, One(0.5), One(1.0)]]),
    ("hypot", &[], &[&[All, One(1.5)], &[One(1e-6), All]]),
    ("ldexp", &[], &[&[All, One(3.0)], &[All, One(-20.0)]]),
    ("lerp", &[], &[&[One(1.5), All, One(0.25)], &[One(1.5), One(4.0), All]]),
    ("lerp_scalar", &[0.25], &[&[One(1.5), All], &[All, One(4.0)]]),
    ("log_sigmoid_backward", &[], &[&[All, One(1.0)], &[All, One(1000.0)]]),
    ("logaddexp", &[], &[&[All, One(0.0)], &[All, One(1.5)], &[One(-3.0), All]]),
    ("logaddexp2", &[], &[&[All, One(0.0)], &[All, One(1.5)], &[One(-3.0), All]]),
    ("maximum", &[], &[&[All, One(2.5)]]),
    ("minimum", &[], &[&[All, One(2.5)]]),
    ("mse_loss", &[], &[&[All, One(0.5)]]),
    ("mse_loss_backward", &[0.5], &[&[All, One(0.5), One(1.0)]]),
    ("mul", &[], &[&[All, One(1.5)], &[All, One(-1e-3)]]),
    ("pow", &[], &[&[All, One(2.5)], &[All, One(-0.75)], &[One(1.5), All], &[One(1e-3), All]]),
    ("remainder", &[], &[&[All, One(2.5)], &[One(2.5), All]]),
    ("residual_add", &[], &[&[All, One(1.0), One(0.5)]]),
    ("rotary", &[1.0], &[&[All, One(1.0), One(0.5), One(0.25)]]),
    ("sigmoid_backward", &[], &[&[One(1.0), Unit], &[One(1e-3), Unit], &[All, One(0.75)]]),
    ("smooth_l1_loss", &[2.0], &[&[All, One(0.5)]]),
    ("smooth_l1_loss_backward", &[0.5, 2.0], &[&[All, One(0.5), One(1.0)]]),
    ("special_xlog1py", &[], &[&[All, One(1.5)], &[One(1.5), All]]),
    ("sub", &[1.0], &[&[All, One(1.5)]]),
    ("swiglu", &[], &[&[All, One(1.5)], &[One(1.5), All], &[All, One(-1000.0)]]),
    ("swiglu_backward", &[], &[&[One(1.0), All, One(1.5)], &[One(100.0), All, One(-3.0)]]),
    ("tanh_backward", &[], &[&[One(1.0), Unit], &[One(1e-3), Unit], &[All, One(0.75)]]),
    ("threshold", &[2.0, 5.0], &[&[All, All]]),
    ("xlogy", &[], &[&[All, One(1.5)], &[One(1.5), All]]),
];

/// Elementwise rows that are not functions of values, or whose bits other tests compare.
const OTHERS: &[&str] = &[
    // Copies, selections and exact operations.
    "copy_",
    "fill_",
    "zero_",
    "where",
    "clamp_tensor",
    "nan_to_num",
    "nextafter",
    "round_decimals",
    // Bool results.
    "eq",
    "ge",
    "gt",
    "le",
    "lt",
    "ne",
    "isnan",
    "isneginf",
    "isposinf",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "signbit",
    // Refuses inputs that are no probabilities.
    "binary_cross_entropy",
    // Reductions.
    "amax",
    "amin",
    "aminmax",
    "argmax",
    "argmin",
    "count_nonzero",
    "linalg_vector_norm",
    "max.dim",
    "mean",
    "min.dim",
    "nansum",
    "prod",
    "std",
    "sum",
    "var",
    // Random numbers.
    "bernoulli_",
    "bernoulli_.float",
    "cauchy_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "native_dropout",
    "native_dropout_backward",
    "normal_",
    "poisson",
    "random_",
    "randperm",
    "uniform_",
    // Indexing.
    "gather",
    "embedding_dense_backward",
    "index",
    "index_add",
    "index_copy",
    "index_fill",
    "index_reduce",
    "index_put",
    "index_select",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "take",
];

/// Values of a 16 bit type.
const VALUES: usize = 1 << 16;

/// A number's rank among all numbers of its type; both zeros have the same rank.
fn position(bits: u16) -> i32 {
    let magnitude = i32::from(bits & 0x7fff);
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// The value of a bit pattern.
fn value_of(dtype: DType, bits: u16) -> f64 {
    if dtype == DType::Half { f16::from_bits(bits).to_f64() } else { bf16::from_bits(bits).to_f64() }
}

/// The bits of the type's number that is nearest to a value.
fn nearest(dtype: DType, value: f64) -> u16 {
    if dtype == DType::Half { f16::from_f64(value).to_bits() } else { bf16::from_f64(value).to_bits() }
}

/// The values of a 16 bit type whose results are neither nearest to those of double precision nor adjacent to the nearest.
fn faults(name: &str, scalars: &[f64], inputs: &[Input], dtype: DType) -> Vec<String> {
    let scalars: Vec<Scalar> = scalars.iter().map(|&value| Scalar::Double(value)).collect();
    let value = |bits: u16| value_of(dtype, bits);
    let given = |input: &Input| -> Vec<u16> {
        match *input {
            All => (0..=u16::MAX).collect(),
            Unit => (0..=u16::MAX).map(|bits| if value(bits).abs() <= 1.0 { bits } else { 0 }).collect(),
            One(value) => vec![nearest(dtype, value); VALUES],
        }
    };
    let given: Vec<Vec<u16>> = inputs.iter().map(given).collect();
    let widened = |bits: &Vec<u16>| bits.iter().map(|&bits| value(bits)).collect::<Vec<f64>>();
    let narrow: Vec<Tensor> = given.iter().map(|bits| Tensor::of_bits(dtype, bits)).collect();
    let wide: Vec<Tensor> = given.iter().map(|bits| Tensor::of_bits(DType::Double, &widened(bits))).collect();
    let run = |dtype: DType, inputs: &[Tensor]| {
        let output = Tensor::new(dtype, &[VALUES], Strides::Contiguous);
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        check::run(name, &[&output], &inputs, &scalars, dtype).unwrap_or_else(|error| panic!("{name}: {error}"));
        output
    };
    let (found, exact) = (run(dtype, &narrow).bits::<u16>(), run(DType::Double, &wide).bits::<f64>());
    let mut faults = Vec::new();
    for (index, (&found, &exact)) in found.iter().zip(&exact).enumerate() {
        let is_close = (position(found) - position(nearest(dtype, exact))).abs() <= 1;
        if value(found).is_nan() != exact.is_nan() || !is_close && !exact.is_nan() {
            let given: Vec<f64> = given.iter().map(|bits| value(bits[index])).collect();
            faults.push(format!("{given:?}: {:e} for {exact:e}", value(found)));
        }
    }
    faults
}

fn check(cases: impl Iterator<Item = (&'static str, &'static [f64], Vec<Input>)>) {
    let mut report = Vec::new();
    for (name, scalars, inputs) in cases {
        for dtype in [DType::Half, DType::BFloat16] {
            let faults = faults(name, scalars, &inputs, dtype);
            if !faults.is_empty() {
                let some: Vec<&String> = faults.iter().step_by(faults.len().div_ceil(6)).collect();
                report.push(format!("{name} {scalars:?} {inputs:?} {dtype:?}: {} values, {some:?}", faults.len()));
            }
        }
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
}

#[test]
fn functions_of_one_number() {
    check(OF_ONE.iter().flat_map(|&(name, parameters)| parameters.iter().map(move |&scalars| (name, scalars, vec![All]))));
}

#[test]
fn slopes_of_functions_of_one_number() {
    check(SLOPES.iter().flat_map(|&(name, parameters)| {
        parameters.iter().flat_map(move |&scalars| GRADS.iter().map(move |&grad| (name, scalars, vec![One(grad), All])))
    }));
}

#[test]
fn functions_of_several_numbers() {
    check(OF_SEVERAL.iter().flat_map(|&(name, scalars, cases)| cases.iter().map(move |inputs| (name, scalars, inputs.to_vec()))));
}

#[test]
fn every_row_is_looked_at() {
    let named: Vec<&str> = OF_ONE
        .iter()
        .chain(SLOPES)
        .map(|&(name, _)| name)
        .chain(OF_SEVERAL.iter().map(|&(name, ..)| name))
        .chain(OTHERS.iter().copied())
        .collect();
    let is_looked_at = |op: &&Op| op.layout() == Layout::Elementwise && op.dtypes().contains(DType::BFloat16);
    let missing: Vec<&str> = TABLE.iter().filter(is_looked_at).map(Op::text).filter(|name| !named.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
