//! Random numbers: independence of threads, instruction sets and lengths, and the ends and tails of distributions. The Python tests
//! compare distributions with those of PyTorch's CPU device.

use super::kernel::WORDS;
use super::kernel::distribution::{Bernoulli, Cauchy, Distribution, Exponential, Geometric, Integers, Normal};
use crate::ops::check::{Case, Make, agree_if, any_threads, doubles, longs, run};
use crate::tensor::{Bool, DType, FLOATING, Hub, Number, Scalar};

const COUNT: usize = 20_000;

fn scalars(offset: i64, others: &[f64]) -> Vec<Scalar> {
    [longs(&[1234, offset]), doubles(others)].concat()
}

fn draw(name: &str, dtype: DType, count: usize, scalars: &[Scalar]) -> Vec<f64> {
    let output = Make::plain(dtype).output(&[count]);
    run(name, &[&output], &[], scalars, dtype).unwrap();
    output.reals()
}

/// Rows that fill a tensor, with their parameters.
const FILLS: [(&str, &[f64]); 7] = [
    ("uniform_", &[-1.0, 3.0]),
    ("normal_", &[1.0, 2.0]),
    ("log_normal_", &[0.0, 0.5]),
    ("exponential_", &[2.0]),
    ("cauchy_", &[1.0, 0.5]),
    ("geometric_", &[0.4]),
    ("bernoulli_.float", &[0.3]),
];

#[test]
fn nothing_but_seed_and_offset_changes_the_values() {
    for (name, others) in FILLS {
        agree_if(name, FLOATING, None, 0.0, |make| Case::new([make.output(&[1500])], [], scalars(8, others)));
        any_threads(name, &[DType::Float], |make| Case::new([make.output(&[50_000])], [], scalars(8, others)));
        for dtype in [DType::Float, DType::Double] {
            let long = draw(name, dtype, 1500, &scalars(0, others));
            for count in [1, 3, 255, 257, 511, 513, 1025] {
                assert_eq!(draw(name, dtype, count, &scalars(0, others)), long[..count], "{name} {dtype:?} {count}");
            }
        }
    }
    for (name, p) in [("bernoulli_", 0.3), ("poisson", 3.0), ("poisson", 30.0)] {
        agree_if(name, FLOATING, None, 0.0, |make| Case::new([make.output(&[1500])], [make.number(&[1500], p)], longs(&[1, 2])));
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
    for (lambda, is_zero) in [(1.4e7, false), (f64::INFINITY, true)] {
        assert!(draw("exponential_", DType::Half, COUNT, &scalars(0, &[lambda])).iter().all(|&value| (value == 0.0) == is_zero));
    }
}

#[test]
fn neighbours_and_offsets_are_not_correlated() {
    let correlation = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>() / left.len() as f64;
    let [first, second] = [0, 4].map(|offset| draw("normal_", DType::Float, 2 * COUNT, &scalars(offset, &[0.0, 1.0])));
    for apart in [1, 2, 256, 512, 1024] {
        assert!(correlation(&first[apart..], &first[..2 * COUNT - apart]).abs() < 0.02, "{apart}");
    }
    assert!(correlation(&first, &second).abs() < 0.02);
    let mut values = [0, 4].map(|offset| draw("uniform_", DType::Double, COUNT, &scalars(offset, &[0.0, 1.0]))).concat();
    values.sort_by(f64::total_cmp);
    assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "a number comes twice");
}
