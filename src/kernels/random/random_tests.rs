//! Tests of distributions by mean, variance and the Kolmogorov-Smirnov statistic, and of the independence of values from threads
//! and instruction sets.

use super::WORDS;
use super::distribution::{Bernoulli, Cauchy, Distribution, Exponential, Geometric, Integers, Normal};
use crate::kernels::check::{self, Strides, Tensor};
use crate::runtime::parallel_for;
use crate::simd::{for_each_isa, math};
use crate::tensor::dtype::{Bool, DType};
use crate::tensor::kernel_error::ErrorKind;
use crate::tensor::launch::Scalar;
use crate::tensor::number::{Hub, Number};

const COUNT: usize = 40_000;

fn scalars(offset: i64, others: &[f64]) -> Vec<Scalar> {
    [Scalar::Long(1234), Scalar::Long(offset)].into_iter().chain(others.iter().map(|&value| Scalar::Double(value))).collect()
}

fn draw(name: &str, dtype: DType, sizes: &[usize], strides: Strides, scalars: &[Scalar]) -> Vec<f64> {
    let output = Tensor::new(dtype, sizes, strides);
    check::run(name, &[&output], &[], scalars, dtype).unwrap();
    output.values().iter().map(|value| value.re).collect()
}

/// The Kolmogorov-Smirnov statistic: the greatest distance between the values' distribution and a continuous one.
fn distance(mut values: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let apart = |(position, &value): (usize, &f64)| {
        let expected = distribution(value);
        (expected - position as f64 / count).abs().max(((position + 1) as f64 / count - expected).abs())
    };
    values.iter().enumerate().map(apart).fold(0.0, f64::max)
}

/// The statistic's limit at a significance level of 0.1 %, plus the steps due to rounding to `f32` and the 16 bit floats.
fn limit(dtype: DType) -> f64 {
    let steps = match dtype {
        DType::BFloat16 => 0.01,
        DType::Half => 0.002,
        _ => 0.0,
    };
    1.95 / (COUNT as f64).sqrt() + steps
}

/// The normal distribution.
fn normal(x: f64) -> f64 {
    0.5 + 0.5 * math::f64::erf(x * std::f64::consts::FRAC_1_SQRT_2)
}

#[test]
fn continuous_distributions() {
    let check = |name: &str, others: &[f64], distribution: &dyn Fn(f64) -> f64| {
        for dtype in [DType::Half, DType::BFloat16, DType::Float, DType::Double] {
            let found = distance(draw(name, dtype, &[COUNT], Strides::Contiguous, &scalars(8, others)), distribution);
            assert!(found < limit(dtype), "{name} {dtype:?}: {found}");
        }
    };
    check("uniform_", &[-1.0, 3.0], &|x| ((x + 1.0) / 4.0).clamp(0.0, 1.0));
    check("normal_", &[1.0, 2.0], &|x| normal((x - 1.0) / 2.0));
    check("log_normal_", &[0.0, 0.5], &|x| normal(x.ln() / 0.5));
    check("exponential_", &[2.0], &|x| 1.0 - (-2.0 * x).exp());
    check("cauchy_", &[1.0, 0.5], &|x| 0.5 + ((x - 1.0) / 0.5).atan() / std::f64::consts::PI);
}

/// Rounding would give the excluded end about once in 2^digits numbers, at widths where a sum has lower precision than its terms.
#[test]
fn uniform_stays_below_its_end() {
    for dtype in [DType::Half, DType::BFloat16, DType::Float, DType::Double] {
        for (from, to) in [(0.0, 1.0), (1.0, 2.0), (-1.0, 0.0), (1000.0, 1001.0), (-3.0, -2.9), (1.0, 1.000_01)] {
            let values = draw("uniform_", dtype, &[COUNT], Strides::Contiguous, &scalars(0, &[from, to]));
            let (first, end) = (check::round_trip(dtype, check::real(from)).re, check::round_trip(dtype, check::real(to)).re);
            let is_inside = |&value: &f64| first <= value && value <= end && (value < to || first == end);
            assert!(values.iter().all(is_inside), "{dtype:?} {from} {to}");
        }
        let values = draw("uniform_", dtype, &[100], Strides::Contiguous, &scalars(0, &[2.0, 2.0]));
        assert!(values.iter().all(|&value| value == 2.0));
    }
}

/// The values of the least and of the greatest words.
fn extremes<T: Number, D: Distribution<T>>(distribution: D) -> [f64; 2] {
    [0, u32::MAX].map(|word| {
        let mut value = [T::ZERO];
        distribution.fill(&[word; WORDS], &mut value);
        value[0].hub().to()
    })
}

#[test]
fn extreme_words() {
    let close = |found: [f64; 2], expected: [f64; 2]| {
        let is_close = |(found, expected): (f64, f64)| (found - expected).abs() <= 1e-6 * expected.abs();
        assert!(found.into_iter().zip(expected).all(is_close), "{found:?} {expected:?}");
    };
    close(extremes::<f32, _>(Normal { mean: 0.0, std: 1.0 }), [(62.0 * std::f64::consts::LN_2).sqrt(), 0.0]);
    close(extremes::<f64, _>(Normal { mean: 0.0, std: 1.0 }), [0.0, (106.0 * std::f64::consts::LN_2).sqrt()]);
    let [greatest, least] = extremes::<f64, _>(Exponential { scale: 1.0, least: 0.0 });
    assert!(least > 0.0 && (36.0..37.0).contains(&greatest), "{least} {greatest}");
    assert_eq!(extremes::<f64, _>(Exponential { scale: 1.0, least: 1e-3 })[1], 1e-3);
    let [tries, first] = extremes::<f64, _>(Geometric { scale: 1.0 / (-0.5f64).ln_1p() });
    assert_eq!([tries, first], [53.0, 1.0]);
    assert!(extremes::<f64, _>(Cauchy { median: 0.0, sigma: 1.0 }).into_iter().all(f64::is_finite));
    assert_eq!(extremes::<i64, _>(Integers { from: -2, count: 5 }), [-2.0, 2.0]);
    assert_eq!(extremes::<i64, _>(Integers { from: -2, count: 1 << 32 }), [-2.0, 4_294_967_293.0]);
    assert_eq!(extremes::<i64, _>(Integers { from: 7, count: (1 << 32) + 1 }), [7.0, 4_294_967_303.0]);
    assert_eq!([0.0, 0.5, 1.0].map(|p| extremes::<Bool, _>(Bernoulli::new(p))), [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]);
}

#[test]
fn exponential_is_not_rounded_to_zero() {
    // At this scale a third of the values is below half of the least 16 bit number.
    let lambda = 1.4e7;
    let values = draw("exponential_", DType::Half, &[COUNT], Strides::Contiguous, &scalars(0, &[lambda]));
    assert!(values.iter().all(|&value| value > 0.0));
    let values = draw("exponential_", DType::Half, &[COUNT], Strides::Contiguous, &scalars(0, &[f64::INFINITY]));
    assert!(values.iter().all(|&value| value == 0.0));
}

#[test]
fn normal_has_its_tails() {
    let values = draw("normal_", DType::Float, &[1_000_000], Strides::Contiguous, &scalars(0, &[0.0, 1.0]));
    for (limit, expected) in [(2.0, 45_500.3), (3.0, 2_699.8), (4.0, 63.34), (4.5, 6.795)] {
        let beyond = values.iter().filter(|value| value.abs() > limit).count() as f64;
        assert!((beyond - expected).abs() < 4.0 * f64::sqrt(expected), "{limit}: {beyond}");
    }
}

#[test]
fn discrete_distributions() {
    let share = |values: &[f64], wanted: f64| values.iter().filter(|&&value| value == wanted).count() as f64 / values.len() as f64;
    for dtype in [DType::Bool, DType::Long, DType::Float] {
        let values = draw("bernoulli_.float", dtype, &[COUNT], Strides::Contiguous, &scalars(4, &[0.3]));
        assert!((share(&values, 1.0) - 0.3).abs() < 0.012 && share(&values, 0.0) + share(&values, 1.0) == 1.0, "{dtype:?}");
    }
    for (p, expected) in [(0.0, 0.0), (1.0, 1.0)] {
        let values = draw("bernoulli_.float", DType::Float, &[COUNT], Strides::Contiguous, &scalars(4, &[p]));
        assert_eq!(share(&values, expected), 1.0);
    }
    let values = draw("geometric_", DType::Long, &[COUNT], Strides::Contiguous, &scalars(4, &[0.4]));
    for tries in 1..5 {
        let expected = 0.4 * 0.6f64.powi(tries - 1);
        assert!((share(&values, f64::from(tries)) - expected).abs() < 0.012, "{tries}");
    }
    let limits = [Scalar::Long(1234), Scalar::Long(0), Scalar::Long(-3), Scalar::Long(7)];
    let values = draw("random_", DType::Int, &[COUNT], Strides::Contiguous, &limits);
    for value in -3..4 {
        assert!((share(&values, f64::from(value)) - 1.0 / 7.0).abs() < 0.01, "{value}");
    }
    assert_eq!(values.iter().filter(|value| !(-3.0..4.0).contains(*value)).count(), 0);
}

#[test]
fn whole_numbers_of_64_bits() {
    let limits = [Scalar::Long(1), Scalar::Long(0), Scalar::Long(i64::MIN), Scalar::Long(0)];
    let values = draw("random_", DType::Long, &[COUNT], Strides::Contiguous, &limits);
    let mean = values.iter().sum::<f64>() / COUNT as f64;
    assert!(mean.abs() < 1.5e17 && values.iter().any(|&value| value < -9e18) && values.iter().any(|&value| value > 9e18));
}

#[test]
fn neighbours_and_offsets_are_not_correlated() {
    let correlation = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>() / left.len() as f64;
    let first = draw("normal_", DType::Float, &[COUNT], Strides::Contiguous, &scalars(0, &[0.0, 1.0]));
    let second = draw("normal_", DType::Float, &[COUNT], Strides::Contiguous, &scalars(4, &[0.0, 1.0]));
    for apart in [1, 2, 256, 512, 1024] {
        assert!(correlation(&first[apart..], &first[..COUNT - apart]).abs() < 0.02, "{apart}");
    }
    assert!(correlation(&first, &second).abs() < 0.02);
}

#[test]
fn no_number_comes_twice() {
    let mut values = draw("uniform_", DType::Double, &[COUNT], Strides::Contiguous, &scalars(0, &[0.0, 1.0]));
    values.extend(draw("uniform_", DType::Double, &[COUNT], Strides::Contiguous, &scalars(4, &[0.0, 1.0])));
    values.sort_by(f64::total_cmp);
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn threads_and_instruction_sets_do_not_change_the_values() {
    let before = parallel_for::num_threads();
    let uniform = &[0.0, 1.0][..];
    let rows = [("uniform_", uniform), ("normal_", uniform), ("exponential_", &[1.0]), ("bernoulli_.float", &[0.5])];
    for (name, others) in rows {
        let mut first = None;
        for_each_isa(|_| {
            for count in [1, 2, 3] {
                parallel_for::set_num_threads(count);
                let values = draw(name, DType::Float, &[50_000], Strides::Contiguous, &scalars(0, others));
                assert_eq!(first.get_or_insert_with(|| values.clone()), &values);
            }
        });
    }
    parallel_for::set_num_threads(before);
}

#[test]
fn a_longer_tensor_begins_with_the_values_of_a_shorter_one() {
    for (name, others) in [("uniform_", &[0.0, 1.0][..]), ("normal_", &[0.0, 1.0]), ("bernoulli_.float", &[0.5])] {
        for dtype in [DType::Float, DType::Double] {
            let long = draw(name, dtype, &[3000], Strides::Contiguous, &scalars(0, others));
            for count in [1, 3, 255, 257, 511, 513, 1025] {
                let short = draw(name, dtype, &[count], Strides::Contiguous, &scalars(0, others));
                assert_eq!(short, long[..count], "{name} {dtype:?} {count}");
            }
        }
    }
}

#[test]
fn strides_are_filled() {
    for strides in [Strides::Transposed, Strides::Sliced] {
        let values = draw("uniform_", DType::Float, &[30, 70], strides, &scalars(0, &[1.0, 2.0]));
        assert!(values.iter().all(|&value| (1.0..2.0).contains(&value)));
    }
}

#[test]
fn probabilities_of_their_own() {
    let p = ndarray::ArrayD::from_shape_fn(ndarray::IxDyn(&[4, 10_000]), |index| check::real(index[0] as f64 / 3.0));
    let (p, output) =
        (Tensor::of(DType::Float, &p, Strides::Contiguous), Tensor::new(DType::Float, &[4, 10_000], Strides::Contiguous));
    check::run("bernoulli_", &[&output], &[&p], &scalars(0, &[]), DType::Float).unwrap();
    for (row, expected) in output.values().outer_iter().zip([0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]) {
        let share = row.iter().map(|value| value.re).sum::<f64>() / 10_000.0;
        assert!((share - expected).abs() < 0.02, "{share}");
    }
}

#[test]
fn probabilities_outside_0_to_1_are_refused() {
    for wrong in [-0.1, 1.1, f64::NAN] {
        let p = ndarray::ArrayD::from_shape_fn(ndarray::IxDyn(&[3000]), |index| {
            check::real(if index[0] == 2999 { wrong } else { 0.5 })
        });
        let (p, output) =
            (Tensor::of(DType::Float, &p, Strides::Contiguous), Tensor::new(DType::Float, &[3000], Strides::Contiguous));
        let refused = check::run("bernoulli_", &[&output], &[&p], &scalars(0, &[]), DType::Float);
        assert!(refused.is_err_and(|error| error.kind() == ErrorKind::Value), "{wrong}");
    }
}

#[test]
fn dropout_keeps_and_scales() {
    for dtype in [DType::BFloat16, DType::Float, DType::Double] {
        let input = Tensor::of(dtype, &check::values(dtype, &[200, 200], 1).mapv(|value| value + 20.0), Strides::Transposed);
        let (output, mask) =
            (Tensor::new(dtype, &[200, 200], Strides::Contiguous), Tensor::new(DType::Bool, &[200, 200], Strides::Contiguous));
        check::run("native_dropout", &[&output, &mask], &[&input], &scalars(0, &[0.75, 4.0]), dtype).unwrap();
        let (values, kept) = (output.values(), mask.values());
        for ((value, kept), input) in values.iter().zip(&kept).zip(&input.values()) {
            assert_eq!(value.re, if kept.re == 1.0 { check::round_trip(dtype, input * 4.0).re } else { 0.0 });
        }
        assert!((kept.sum().re / 40_000.0 - 0.75).abs() < 0.012);
        let grad = Tensor::new(dtype, &[200, 200], Strides::Contiguous);
        check::run("native_dropout_backward", &[&grad], &[&output, &mask], &[Scalar::Double(2.0)], dtype).unwrap();
        assert_eq!(grad.values()[[3, 7]].re, check::round_trip(dtype, values[[3, 7]] * 2.0).re);
    }
}

#[test]
fn permutations_have_every_number_once() {
    let mut values = draw("randperm", DType::Long, &[5000], Strides::Contiguous, &scalars(0, &[]));
    for (dtype, strides) in [
        (DType::Int, Strides::Contiguous),
        (DType::Short, Strides::Contiguous),
        (DType::Double, Strides::Contiguous),
        (DType::Float, Strides::Contiguous),
        (DType::Long, Strides::Sliced),
    ] {
        assert_eq!(draw("randperm", dtype, &[5000], strides, &scalars(0, &[])), values, "{dtype:?}");
    }
    let displaced = values.iter().enumerate().filter(|&(position, &value)| position as f64 != value).count();
    assert!(displaced > 4900);
    values.sort_by(f64::total_cmp);
    assert!(values.into_iter().eq((0..5000).map(f64::from)));
}
