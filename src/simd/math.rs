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
    use super::{approximations, f32, f64};
    use crate::simd::{Leaf, for_each_isa, vectorize};

    type Wide = core::primitive::f64;
    type Narrow = core::primitive::f32;

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
    fn arguments() -> Vec<Wide> {
        let mut found = vec![0.0, -0.0, Wide::INFINITY, Wide::NEG_INFINITY, Wide::NAN, 1.0, -1.0, 1e-310, 5e-324, Wide::MAX];
        for step in -1000..1000 {
            let (narrow, wide) = (Wide::from(step) * 1.234_567e-2, 10f64.powf(Wide::from(step) * 0.3));
            found.extend([narrow, narrow * 61.8, wide, -wide, 1.0 + narrow * 1e-3, -1.0 + wide.min(1.0)]);
        }
        found
    }

    /// Compares a function under every instruction set with one in `f64`. `limit`: the greatest error in ulp; a result's ulp is
    /// taken as `epsilon` times the result, or `least` if that is greater.
    fn check<T: Copy + Into<Wide>>(
        name: &str,
        function: impl Fn(T) -> T + Copy,
        oracle: impl Fn(Wide) -> Wide,
        narrow: fn(Wide) -> T,
        [epsilon, least, largest]: [Wide; 3],
        limit: Wide,
    ) {
        let given: Vec<T> = arguments().into_iter().map(narrow).collect();
        for_each_isa(|isa| {
            let mut found = given.clone();
            vectorize(Each { values: &mut found, function });
            for (&given, &found) in given.iter().zip(&found) {
                let (given, found): (Wide, Wide) = (given.into(), found.into());
                let expected = oracle(given);
                let error = (found - expected).abs() / (expected.abs() * epsilon).max(least);
                let overflows = expected.abs() * (1.0 + epsilon / 2.0) > largest && (found == expected || found.is_infinite());
                let is_near = error <= limit || overflows || found.is_nan() && expected.is_nan();
                assert!(is_near, "{name}({given:e}) = {found:e} != {expected:e} ({error} ulp, {isa:?})");
                let is_zero = found == 0.0 && expected == 0.0;
                assert!(!is_zero || found.is_sign_negative() == expected.is_sign_negative(), "{name}({given:e}) = {found:e}");
            }
        });
    }

    fn narrow(name: &str, function: impl Fn(Narrow) -> Narrow + Copy, oracle: impl Fn(Wide) -> Wide, limit: Wide) {
        let units = [Narrow::EPSILON, Narrow::from_bits(1), Narrow::MAX].map(Wide::from);
        check(name, function, oracle, |value| value as Narrow, units, limit);
    }

    fn wide(name: &str, function: impl Fn(Wide) -> Wide + Copy, oracle: impl Fn(Wide) -> Wide, limit: Wide) {
        check(name, function, oracle, |value| value, [Wide::EPSILON, Wide::from_bits(1), Wide::MAX], limit);
    }

    /// Checks functions of one module, each against a function in `f64` with a limit.
    macro_rules! accuracy {
        ($check:ident, $module:ident: $($name:ident $oracle:expr, $limit:expr;)*) => {
            $($check(stringify!($name), $module::$name, $oracle, $limit);)*
        };
    }

    fn sigmoid(x: Wide) -> Wide {
        if x < -700.0 { x.exp() } else { 1.0 / (1.0 + (-x).exp()) }
    }

    /// Half the complement of the error function.
    fn normal_tail(x: Wide) -> Wide {
        0.5 * f64::erfc(x.abs() * std::f64::consts::FRAC_1_SQRT_2)
    }

    #[test]
    fn functions_of_f32_are_accurate() {
        accuracy! { narrow, f32:
            exp Wide::exp, 1.1; expm1 Wide::exp_m1, 1.5; log Wide::ln, 1.0; log1p Wide::ln_1p, 1.5; tanh Wide::tanh, 2.0;
            sigmoid sigmoid, 2.0; erf f64::erf, 2.5; sinc f64::sinc, 2.5; exp2 Wide::exp2, 2.0; log2 Wide::log2, 2.0;
            log10 Wide::log10, 2.0; sinh Wide::sinh, 3.0; cosh Wide::cosh, 3.0; asinh Wide::asinh, 4.0; acosh Wide::acosh, 4.0;
            atanh Wide::atanh, 4.0; asin Wide::asin, 2.5; acos Wide::acos, 2.5; atan Wide::atan, 2.5;
        }
        narrow("exp_nonpositive", |x| f32::exp_nonpositive(-x.abs()), |x| (-x.abs()).exp(), 1.1);
        let normal = |x: Narrow| if x.is_normal() && x > 0.0 { f32::log_of_normal(x) } else { f32::log(x) };
        narrow("log_of_normal", normal, Wide::ln, 1.0);
        narrow("scaled_sigmoid", |x| f32::scaled_sigmoid(x, 3.0), |x| 3.0 * sigmoid(x), 2.5);
        narrow("sigmoid_and_rest", |x| f32::sigmoid_and_rest(x).1, |x| sigmoid(-x), 2.0);
        narrow("normal_tail", |x| f32::normal_tail(x).1, normal_tail, 3.0);
    }

    #[test]
    fn approximations_are_accurate_enough_for_16_bits() {
        // 2^-15 in ulp of `f32`.
        const LIMIT: Wide = 256.0;
        accuracy! { narrow, approximations:
            exp Wide::exp, LIMIT; exp2 Wide::exp2, LIMIT; expm1 Wide::exp_m1, LIMIT; tanh Wide::tanh, LIMIT; sigmoid sigmoid, LIMIT;
        }
        narrow("exp_nonpositive", |x| approximations::exp_nonpositive(-x.abs()), |x| (-x.abs()).exp(), LIMIT);
        narrow("scaled_sigmoid", |x| approximations::scaled_sigmoid(x, 3.0), |x| 3.0 * sigmoid(x), LIMIT);
        // The argument has the bits of a 16 bit float alone.
        let cleared = |x: Narrow| Narrow::from_bits(x.to_bits() & 0xffff_e000);
        let tail_of_cleared = |x: Wide| normal_tail(cleared(x as Narrow).into());
        narrow("normal_tail", |x| approximations::normal_tail(cleared(x)).1, tail_of_cleared, LIMIT);
    }

    /// Half an ulp is added for the standard library's own errors.
    #[test]
    fn functions_of_f64_are_accurate() {
        // The standard library's functions are inaccurate near 1 or -1, and acosh overflows.
        let asin = |x: Wide| if x.abs() <= 1.0 { x.atan2((1.0 - x).sqrt() * (1.0 + x).sqrt()) } else { Wide::NAN };
        let acosh = |x: Wide| match x - 1.0 {
            t if t < 0.0 => Wide::NAN,
            _ if x > 1e150 => x.ln() + std::f64::consts::LN_2,
            t => (t + (t * (x + 1.0)).sqrt()).ln_1p(),
        };
        accuracy! { wide, f64:
            exp Wide::exp, 1.6; expm1 Wide::exp_m1, 2.0; log Wide::ln, 1.5; log1p Wide::ln_1p, 2.0; tanh Wide::tanh, 2.5;
            sigmoid sigmoid, 2.5; exp2 Wide::exp2, 2.5; log2 Wide::log2, 2.5; log10 Wide::log10, 2.5; sinh Wide::sinh, 3.5;
            cosh Wide::cosh, 3.5; acosh acosh, 6.0; atanh |x: Wide| x.abs().atanh().copysign(x), 6.0; asin asin, 3.5;
            acos Wide::acos, 3.0; atan Wide::atan, 3.0;
        }
        wide("exp_nonpositive", |x| f64::exp_nonpositive(-x.abs()), |x| (-x.abs()).exp(), 1.6);
        wide("scaled_sigmoid", |x| f64::scaled_sigmoid(x, 3.0), |x| 3.0 * sigmoid(x), 3.5);
        wide("sigmoid_and_rest", |x| f64::sigmoid_and_rest(x).1, |x| sigmoid(-x), 3.0);
    }

    fn is_within(found: Wide, expected: Wide, limit: Wide) -> bool {
        found == expected || (found - expected).abs() <= limit * expected.abs() || found.is_nan() && expected.is_nan()
    }

    /// Complements of the error function, from tables with 20 digits, and shares of the normal distribution, with 40 digits.
    #[test]
    fn tails_of_the_normal_distribution() {
        for (x, value) in [
            (-3.0, 1.999_977_909_503_001_5),
            (0.125, 0.859_683_795_198_666_2),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (2.5, 4.069_520_174_449_589e-4),
            (5.0, 1.537_459_794_428_035e-12),
            (9.0, 4.137_031_746_513_81e-37),
        ] {
            let narrow = Wide::from(f32::erfc(x as Narrow));
            assert!(is_within(f64::erfc(x), value, 1e-15) && is_within(narrow, value, 4e-7), "{x}");
            assert!(is_within(f64::erf(x), 1.0 - value, 1e-15), "{x}");
        }
        for (x, value) in [
            (0.5, 0.308_537_538_725_986_9),
            (3.0, 1.349_898_031_630_094_6e-3),
            (8.0, 6.220_960_574_271_784e-16),
            (25.0, 3.056_696_706_382_561e-138),
            (37.5, 4.605_353_009_581_955e-308),
        ] {
            let ((power, tail), (_, narrow)) = (f64::normal_tail(-x), f32::normal_tail(x as Narrow));
            assert!(is_within(tail, value, 1e-15) && is_within(power, (-0.5 * x * x).exp(), 1e-15), "{x}");
            assert!(is_within(narrow.into(), value, 4e-7) || x > 10.0, "{x}");
        }
        assert_eq!((f64::erfc(40.0), f32::erfc(-40.0), f64::normal_tail(Wide::NEG_INFINITY)), (0.0, 2.0, (0.0, 0.0)));
    }

    #[test]
    fn angles_and_distances_of_points() {
        let sides = [0.0, -0.0, 1e-310, 1e-40, 0.3, 1.0, 2.5, 3e20, 1e300, Wide::INFINITY];
        let signed = || sides.into_iter().flat_map(|side| [side, -side]);
        for (x, y) in signed().flat_map(|x| signed().map(move |y| (x, y))) {
            let (angle, distance) = (f64::atan2(y, x), f64::hypot(x, y));
            assert!(is_within(angle, y.atan2(x), 1e-15) && angle.is_sign_negative() == y.is_sign_negative(), "{y} {x}");
            assert!(is_within(distance, x.hypot(y), 5e-16), "{x} {y}: {distance}");
            let (x, y) = (x as Narrow, y as Narrow);
            let (angle, distance) = (f32::atan2(y, x), f32::hypot(x, y));
            let is_near = is_within(angle.into(), y.atan2(x).into(), 3e-7) && is_within(distance.into(), x.hypot(y).into(), 3e-7);
            assert!(is_near && angle.is_sign_negative() == y.is_sign_negative(), "{y} {x}");
        }
        assert!(f64::atan2(Wide::NAN, 0.0).is_nan() && f32::atan2(0.0, Narrow::NAN).is_nan());
        assert_eq!(f32::hypot(Narrow::NAN, Narrow::INFINITY), Narrow::INFINITY);
    }

    #[test]
    fn sines_cosines_and_tangents() {
        for step in -5000..5000 {
            // Angles of all magnitudes, and those next to the zeros.
            let scale = 2f64.powi(i32::rem_euclid(step, 48) - 20) * 1e-4;
            for x in [Wide::from(step) * scale, Wide::from(step) * std::f64::consts::FRAC_PI_2] {
                let ((sine, cosine), tan) = (f64::sin_cos_fast(x), f64::tan_fast(x));
                assert!(
                    is_within(sine, x.sin(), 5e-16) && is_within(cosine, x.cos(), 5e-16) && is_within(tan, x.tan(), 1e-15),
                    "{x}"
                );
                let (narrow, exact) = (x as Narrow, Wide::from(x as Narrow));
                let ((sine, cosine), tan) = (f32::sin_cos_fast(narrow), f32::tan_fast(narrow));
                assert!(is_within(sine.into(), exact.sin(), 2.4e-7) && is_within(cosine.into(), exact.cos(), 2.4e-7), "{narrow}");
                assert!(is_within(tan.into(), exact.tan(), 5e-7), "{narrow}");
            }
            let turns = Wide::from(step) / 2048.0;
            let (sine, cosine) = (turns.rem_euclid(1.0) * std::f64::consts::TAU).sin_cos();
            let (found, narrow) = (f64::sin_cos_turns(turns), f32::sin_cos_turns(turns as Narrow));
            assert!((found.0 - sine).abs() < 1e-15 && (found.1 - cosine).abs() < 1e-15, "{turns}");
            assert!((Wide::from(narrow.0) - sine).abs() < 1.2e-7 && (Wide::from(narrow.1) - cosine).abs() < 1.2e-7, "{turns}");
        }
        assert_eq!([0.25, 0.5, 0.75].map(f64::sin_cos_turns), [(1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)]);
        assert_eq!(f32::sin_cos_fast(-0.0).0.to_bits(), (-0.0f32).to_bits());
        assert_eq!([-134_217_728.0, 134_217_744.0, Narrow::NAN].map(f32::takes_fast_path), [true, false, false]);
        assert_eq!([1e9, 1e10, Wide::NAN].map(f64::takes_fast_path), [true, false, false]);
    }
}
