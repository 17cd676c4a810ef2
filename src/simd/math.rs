//! Elementary functions without branches, so that loops over them vectorise.
//!
//! One module per type, with the same names. The accuracy of each function is stated as the greatest error that was found against a
//! wider computation, in units in the last place (ulp). NaN propagates; infinities and subnormal values give the results of IEEE
//! 754.

pub mod approximations;
pub mod bessel;
pub mod complex;
pub mod f32;
pub mod f64;
mod float_functions;
pub mod gamma;
pub mod normal;
mod power;

/// The Taylor series of the sine (`first` 1) or the cosine (`first` 0) of x quarter turns, as a polynomial of x^2, highest power
/// first. The sine's series is divided by x.
const fn quarter_turn_series<const N: usize>(first: usize) -> [core::primitive::f64; N] {
    let mut coefficients = [0.0; N];
    let (mut term, mut degree) = (1.0, 0);
    while degree < first + 2 * N {
        if degree % 2 == first {
            let power = degree / 2;
            coefficients[N - 1 - power] = if power % 2 == 0 { term } else { -term };
        }
        degree += 1;
        term *= std::f64::consts::FRAC_PI_2 / degree as core::primitive::f64;
    }
    coefficients
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use crate::simd::{Leaf, for_each_isa, vectorize};

    struct Each<'a, T, F> {
        values: &'a mut [T],
        function: F,
    }

    impl<T: Copy, F: Fn(T) -> T> Leaf for Each<'_, T, F> {
        type Output = ();

        #[inline(always)]
        fn run(self) {
            for value in self.values {
                *value = (self.function)(*value);
            }
        }
    }

    /// Arguments of both signs and all magnitudes, densest around 1.
    fn arguments() -> Vec<f64> {
        let mut found = vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 1e-310, 5e-324, f64::MAX];
        for step in 0..20_000 {
            let narrow = (step as f64 - 10_000.0) * 1.234_567e-3;
            let wide = 10f64.powf((step as f64 - 10_000.0) * 0.03);
            found.extend([narrow, narrow * 61.8, wide, -wide, 1.0 + narrow * 1e-3, -1.0 + wide.min(1.0)]);
        }
        found
    }

    fn check<T: Copy + Debug>(
        name: &str,
        function: impl Fn(T) -> T + Copy,
        oracle: impl Fn(f64) -> f64,
        narrow: impl Fn(f64) -> T,
        wide: impl Fn(T) -> f64,
        (epsilon, least, limit): (f64, f64, f64),
    ) {
        let given: Vec<T> = arguments().into_iter().map(narrow).collect();
        for_each_isa(|isa| {
            let mut found = given.clone();
            vectorize(Each { values: &mut found, function });
            let mut worst = (0.0, 0.0);
            for (&given, &found) in given.iter().zip(&found) {
                let (given, found, expected) = (wide(given), wide(found), oracle(wide(given)));
                let ulp = (expected.abs() * epsilon).max(least);
                let error = (found - expected).abs() / ulp;
                if expected.is_nan() {
                    assert!(found.is_nan(), "{name}({given:e}) = {found:e}");
                } else if expected.abs() * (1.0 + epsilon / 2.0) > largest(epsilon) {
                    assert!(found == expected || found.is_infinite(), "{name}({given:e}) = {found:e} != {expected:e}");
                } else if error.is_nan() || error > worst.1 {
                    worst = (given, error);
                }
                assert!(
                    found != 0.0 || expected != 0.0 || found.is_sign_negative() == expected.is_sign_negative(),
                    "{name}({given:e})"
                );
            }
            // NaN exceeds any limit.
            assert!(worst.1 <= limit, "{name} {isa:?}: {} ulp at {:e}", worst.1, worst.0);
        });
    }

    fn largest(epsilon: f64) -> f64 {
        if epsilon > 1e-10 { f32::MAX as f64 } else { f64::MAX }
    }

    /// Compares with `f64` functions of the standard library, in units of 2^-24 relative to the result (at most two units are an
    /// ulp).
    fn check_f32(name: &str, function: impl Fn(f32) -> f32 + Copy, oracle: impl Fn(f64) -> f64, limit: f64) {
        let kind = (f32::EPSILON as f64 / 2.0, f32::from_bits(1) as f64, 2.0 * limit);
        check(name, function, oracle, |value| value as f32, |value| value as f64, kind);
    }

    fn check_f64(name: &str, function: impl Fn(f64) -> f64 + Copy, oracle: impl Fn(f64) -> f64, limit: f64) {
        check(name, function, oracle, |value| value, |value| value, (f64::EPSILON / 2.0, f64::from_bits(1), 2.0 * limit));
    }

    fn sigmoid(x: f64) -> f64 {
        if x < -700.0 { x.exp() } else { 1.0 / (1.0 + (-x).exp()) }
    }

    /// Half the complement of the error function.
    fn normal_tail(x: f64) -> f64 {
        0.5 * super::f64::erfc(x.abs() * std::f64::consts::FRAC_1_SQRT_2)
    }

    fn sinc(x: f64) -> f64 {
        let angle = x * std::f64::consts::PI;
        let from_whole = (x - x.round_ties_even()) * std::f64::consts::PI;
        let sine = if x.rem_euclid(2.0) > 0.5 && x.rem_euclid(2.0) < 1.5 { -from_whole.sin() } else { from_whole.sin() };
        if x == 0.0 { 1.0 } else { sine / angle }
    }

    /// Below 2.5 by the series with positive terms: 2 / sqrt(pi) e^(-x^2) times the sum of 2^n x^(2n+1) / (2n+1)!!; above, by the
    /// continued fraction of the complement.
    fn erf(x: f64) -> f64 {
        if x == 0.0 || x.is_nan() || x.abs() > 6.0 {
            return if x.abs() > 6.0 { x.signum() } else { x };
        }
        if x.abs() > 2.5 {
            let fraction = (1..=200).rev().fold(x.abs(), |tail, n| x.abs() + f64::from(n) / 2.0 / tail);
            return (1.0 - (-x * x).exp() / (fraction * std::f64::consts::PI.sqrt())).copysign(x);
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp()
    }

    #[test]
    fn f32_functions_are_accurate() {
        use super::f32;
        check_f32("exp", f32::exp, f64::exp, 1.1);
        check_f32("exp_nonpositive", |x| f32::exp_nonpositive(-x.abs()), |x| (-x.abs()).exp(), 1.1);
        check_f32("expm1", f32::expm1, f64::exp_m1, 1.5);
        check_f32("log", f32::log, f64::ln, 1.0);
        let normal = |x: f32| if x.is_normal() && x > 0.0 { f32::log_of_normal(x) } else { f32::log(x) };
        check_f32("log_of_normal", normal, f64::ln, 1.0);
        check_f32("log1p", f32::log1p, f64::ln_1p, 1.5);
        check_f32("tanh", f32::tanh, f64::tanh, 2.0);
        check_f32("sigmoid", f32::sigmoid, sigmoid, 2.0);
        check_f32("scaled_sigmoid", |x| f32::scaled_sigmoid(x, 3.0), |x| 3.0 * sigmoid(x), 2.5);
        check_f32("sigmoid_and_rest", |x| f32::sigmoid_and_rest(x).1, |x| sigmoid(-x), 2.0);
        check_f32("erf", f32::erf, erf, 2.5);
        check_f32("normal_tail", |x| f32::normal_tail(x).1, normal_tail, 3.0);
        check_f32("sinc", f32::sinc, sinc, 2.5);
    }

    #[test]
    fn approximations_are_accurate_enough_for_16_bits() {
        use super::approximations;
        // 2^-15 in half units of `f32`.
        const LIMIT: f64 = 256.0;
        check_f32("exp", approximations::exp, f64::exp, LIMIT);
        check_f32("exp_nonpositive", |x| approximations::exp_nonpositive(-x.abs()), |x| (-x.abs()).exp(), LIMIT);
        check_f32("exp2", approximations::exp2, f64::exp2, LIMIT);
        check_f32("expm1", approximations::expm1, f64::exp_m1, LIMIT);
        check_f32("tanh", approximations::tanh, f64::tanh, LIMIT);
        check_f32("sigmoid", approximations::sigmoid, sigmoid, LIMIT);
        check_f32("scaled_sigmoid", |x| approximations::scaled_sigmoid(x, 3.0), |x| 3.0 * sigmoid(x), LIMIT);
        // The argument has the bits of a 16 bit float alone.
        let low_bits_cleared = |x: f32| f32::from_bits(x.to_bits() & 0xffff_e000);
        check_f32(
            "normal_tail",
            |x| approximations::normal_tail(low_bits_cleared(x)).1,
            |x| normal_tail(low_bits_cleared(x as f32).into()),
            LIMIT,
        );
    }

    #[test]
    fn f64_functions_are_accurate() {
        use super::f64 as tested;
        check_f64("exp", tested::exp, f64::exp, 1.6);
        check_f64("exp_nonpositive", |x| tested::exp_nonpositive(-x.abs()), |x| (-x.abs()).exp(), 1.6);
        check_f64("expm1", tested::expm1, f64::exp_m1, 2.0);
        check_f64("log", tested::log, f64::ln, 1.5);
        check_f64("log1p", tested::log1p, f64::ln_1p, 2.0);
        check_f64("tanh", tested::tanh, f64::tanh, 2.5);
        check_f64("sigmoid", tested::sigmoid, sigmoid, 2.5);
        check_f64("scaled_sigmoid", |x| tested::scaled_sigmoid(x, 3.0), |x| 3.0 * sigmoid(x), 3.5);
        check_f64("sigmoid_and_rest", |x| tested::sigmoid_and_rest(x).1, |x| sigmoid(-x), 3.0);
        check_f64("erf", tested::erf, erf, 8.0);
    }

    /// `f64` functions of both types that the standard library has.
    macro_rules! shared_accuracy {
        ($check:ident, $module:ident, $($name:ident: $oracle:expr, $limit:expr;)*) => {
            $($check(stringify!($name), super::$module::$name, $oracle, $limit);)*
        };
    }

    /// The inverse sine, by the inverse tangent.
    fn inverse_sine(x: f64) -> f64 {
        if x.abs() <= 1.0 { x.atan2((1.0 - x).sqrt() * (1.0 + x).sqrt()) } else { f64::NAN }
    }

    /// The standard library's function overflows and is inaccurate near 1.
    fn inverse_cosh(x: f64) -> f64 {
        let t = x - 1.0;
        let near = (t + (t * (x + 1.0)).sqrt()).ln_1p();
        let result = if x > 1e150 { x.ln() + std::f64::consts::LN_2 } else { near };
        if x < 1.0 { f64::NAN } else { result }
    }

    #[test]
    fn functions_of_both_types_are_accurate_in_f32() {
        shared_accuracy! {
            check_f32, f32,
            exp2: f64::exp2, 2.0;
            log2: f64::log2, 2.0;
            log10: f64::log10, 2.0;
            sinh: f64::sinh, 3.0;
            cosh: f64::cosh, 3.0;
            asinh: f64::asinh, 4.0;
            acosh: f64::acosh, 4.0;
            atanh: f64::atanh, 4.0;
            asin: f64::asin, 2.5;
            acos: f64::acos, 2.5;
            atan: f64::atan, 2.5;
        }
    }

    /// Half an ulp is added for the standard library's own errors.
    #[test]
    fn functions_of_both_types_are_accurate_in_f64() {
        shared_accuracy! {
            check_f64, f64,
            exp2: f64::exp2, 2.5;
            log2: f64::log2, 2.5;
            log10: f64::log10, 2.5;
            sinh: f64::sinh, 3.5;
            cosh: f64::cosh, 3.5;
            acosh: inverse_cosh, 6.0;
            // The standard library's function is inaccurate near -1.
            atanh: |x: f64| x.abs().atanh().copysign(x), 6.0;
            asin: inverse_sine, 3.5;
            acos: f64::acos, 3.0;
            atan: f64::atan, 3.0;
        }
    }

    #[test]
    fn complements_of_the_error_function() {
        // From tables with 20 digits.
        let table = [
            (-3.0, 1.999_977_909_503_001_5),
            (0.0, 1.0),
            (0.125, 0.859_683_795_198_666_2),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (2.5, 4.069_520_174_449_589e-4),
            (5.0, 1.537_459_794_428_035e-12),
            (9.0, 4.137_031_746_513_81e-37),
        ];
        for (x, value) in table {
            let (narrow, wide) = (f64::from(super::f32::erfc(x as f32)), super::f64::erfc(x));
            assert!((narrow / value - 1.0).abs() < 4e-7, "{x}: {narrow} != {value}");
            assert!((wide / value - 1.0).abs() < 1e-15, "{x}: {wide} != {value}");
        }
        assert!((super::f64::erfc(26.0) / 5.663_192_408_856_143e-296 - 1.0).abs() < 1e-14);
        assert_eq!((super::f64::erfc(40.0), super::f32::erfc(-40.0)), (0.0, 2.0));
        assert!(super::f32::erfc(f32::NAN).is_nan() && super::f64::erfc(f64::NAN).is_nan());
    }

    #[test]
    fn shares_of_the_normal_distribution() {
        // Computed with 40 digits.
        let table = [
            (0.5, 0.308_537_538_725_986_9),
            (3.0, 1.349_898_031_630_094_6e-3),
            (8.0, 6.220_960_574_271_784e-16),
            (15.0, 3.670_966_199_312_751e-51),
            (25.0, 3.056_696_706_382_561e-138),
            (37.5, 4.605_353_009_581_955e-308),
        ];
        for (x, value) in table {
            let ((power, tail), exact) = (super::f64::normal_tail(-x), (-0.5 * x * x).exp());
            assert!((tail / value - 1.0).abs() < 1e-15 && (power / exact - 1.0).abs() < 1e-15, "{x}: {tail} != {value}");
            let (power, tail) = super::f32::normal_tail(x as f32);
            let near = (f64::from(tail) / value - 1.0).abs() < 4e-7 && (f64::from(power) / exact - 1.0).abs() < 2e-7;
            assert!(near || x > 10.0, "{x}: {tail} != {value}");
        }
        assert_eq!((super::f64::normal_tail(f64::NEG_INFINITY), super::f32::normal_tail(1e30)), ((0.0, 0.0), (0.0, 0.0)));
        assert!(super::f32::normal_tail(f32::NAN).1.is_nan() && super::f64::normal_tail(f64::NAN).1.is_nan());
    }

    #[test]
    fn angles_and_distances_of_points() {
        let sides = [0.0, -0.0, 1e-310, 1e-40, 0.3, 1.0, 2.5, 3e20, 1e300, f64::INFINITY];
        for x in sides.into_iter().flat_map(|x| [x, -x]) {
            for y in sides.into_iter().flat_map(|y| [y, -y]) {
                let (angle, distance) = (super::f64::atan2(y, x), super::f64::hypot(x, y));
                assert!(
                    (angle - y.atan2(x)).abs() <= 1e-15 * angle.abs() && angle.is_sign_negative() == y.is_sign_negative(),
                    "{y} {x}"
                );
                assert!(distance == x.hypot(y) || (distance / x.hypot(y) - 1.0).abs() < 5e-16, "{x} {y}: {distance}");
                let (x, y) = (x as f32, y as f32);
                let (angle, distance) = (super::f32::atan2(y, x), super::f32::hypot(x, y));
                assert!(
                    (angle - y.atan2(x)).abs() <= 3e-7 * angle.abs() && angle.is_sign_negative() == y.is_sign_negative(),
                    "{y} {x}"
                );
                assert!(distance == x.hypot(y) || (distance / x.hypot(y) - 1.0).abs() < 3e-7, "{x} {y}: {distance}");
            }
        }
        assert!(super::f64::atan2(f64::NAN, 0.0).is_nan() && super::f32::atan2(0.0, f32::NAN).is_nan());
        assert_eq!(super::f32::hypot(f32::NAN, f32::INFINITY), f32::INFINITY);
    }

    #[test]
    fn small_angles() {
        for step in -50_000..50_000_i32 {
            // Angles of all magnitudes, and those next to the zeros.
            let scale = 2f64.powi(step.rem_euclid(48) - 20);
            let zero = f64::from(step) * std::f64::consts::FRAC_PI_2;
            for x in [f64::from(step) * 1e-5 * scale, zero] {
                let narrow = x as f32;
                let ((sine, cosine), exact) = (super::f32::sin_cos_fast(narrow), f64::from(narrow));
                let tan = super::f32::tan_fast(narrow);
                for (found, expected, limit) in
                    [(sine, exact.sin(), 2.4e-7), (cosine, exact.cos(), 2.4e-7), (tan, exact.tan(), 5e-7)]
                {
                    assert!((f64::from(found) - expected).abs() <= limit * expected.abs(), "{narrow}: {found} != {expected}");
                }
                let ((sine, cosine), tan) = (super::f64::sin_cos_fast(x), super::f64::tan_fast(x));
                for (found, expected, limit) in [(sine, x.sin(), 5e-16), (cosine, x.cos(), 5e-16), (tan, x.tan(), 1e-15)] {
                    assert!((found - expected).abs() <= limit * expected.abs(), "{x}: {found} != {expected}");
                }
            }
        }
        assert_eq!(super::f32::sin_cos_fast(-0.0).0.to_bits(), (-0.0f32).to_bits());
        assert!(
            super::f32::takes_fast_path(-134_217_728.0)
                && !super::f32::takes_fast_path(134_217_744.0)
                && !super::f32::takes_fast_path(f32::NAN)
        );
        assert!(super::f64::takes_fast_path(1e9) && !super::f64::takes_fast_path(1e10) && !super::f64::takes_fast_path(f64::NAN));
    }

    /// The greatest absolute error of the sine and the cosine of fractions of turns.
    fn turns_error(function: impl Fn(f64) -> (f64, f64)) -> f64 {
        let error = |step: i32| {
            let x = f64::from(step) / 4096.0;
            let (sine, cosine) = function(x);
            let (expected_sine, expected_cosine) = (x.rem_euclid(1.0) * std::f64::consts::TAU).sin_cos();
            (sine - expected_sine).abs().max((cosine - expected_cosine).abs())
        };
        (-8192..8192).map(error).fold(0.0, f64::max)
    }

    #[test]
    fn sines_and_cosines_of_turns() {
        let narrow = |x: f64| {
            let (sine, cosine) = super::f32::sin_cos_turns(x as f32);
            (f64::from(sine), f64::from(cosine))
        };
        assert!(turns_error(narrow) < 1.2e-7);
        assert!(turns_error(super::f64::sin_cos_turns) < 1e-15);
        assert_eq!([0.25, 0.5, 0.75].map(super::f64::sin_cos_turns), [(1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)]);
    }

    #[test]
    fn lgamma_of_f32_is_that_of_f64() {
        for x in arguments().into_iter().map(|x| x as f32) {
            let (found, expected) = (f64::from(super::f32::lgamma(x)), super::f64::lgamma(f64::from(x)));
            let overflows = expected > f64::from(f32::MAX) && found == f64::INFINITY;
            let close = (found - expected).abs() <= 6e-8 * expected.abs() + 2e-11 || found == expected || overflows;
            assert!(close || found.is_nan() && expected.is_nan(), "{x:e}: {found:e} != {expected:e}");
        }
        // Next to the zeros below 0.
        for (x, expected) in
            [(-2.747_666_6, -3.072_163_104_836_6e-5), (-2.457_024_8, -1.128_784_253e-7), (-3.955_294_1, -3.163_175_862e-6)]
        {
            assert!((f64::from(super::f32::lgamma(x)) / expected - 1.0).abs() < 1e-4, "{x}");
        }
        assert_eq!([-1e38, -3.0, 0.0].map(super::f32::lgamma), [f32::INFINITY; 3]);
        assert_eq!([-1e307, -3.0, 0.0].map(super::f64::lgamma), [f64::INFINITY; 3]);
    }

    #[test]
    fn powers_are_those_of_the_standard_library() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            2.0,
            -2.0,
            3.0,
            -3.0,
            1e-3,
            -1e-3,
            1e30,
            -1e30,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        for base in special {
            for exponent in special {
                let (found, expected) = (super::f32::pow(base, exponent), base.powf(exponent));
                let close = found == expected || (found / expected - 1.0).abs() < 2e-7;
                assert!(
                    close && found.is_sign_negative() == expected.is_sign_negative() || found.is_nan() && expected.is_nan(),
                    "{base}^{exponent} = {found}"
                );
            }
        }
        for step in 1..2000 {
            let (base, exponent) = (step as f32 * 0.01, (step % 37) as f32 * 0.3 - 5.0);
            assert!((super::f32::pow(base, exponent) as f64 / (base as f64).powf(exponent as f64) - 1.0).abs() < 1.2e-7);
        }
    }
}
