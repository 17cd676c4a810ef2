//! Functions with the same source for `f32` and `f64`: a macro that both modules expand with their constants and polynomials.

/// Defines the functions. `Float` is the type; the stated accuracy is the worse one of both types.
macro_rules! shared {
    () => {
        /// The number of mantissa bits that are stored.
        const FRACTION: u32 = Float::MANTISSA_DIGITS - 1;

        /// The polynomial with these coefficients, highest first.
        #[inline(always)]
        pub(super) fn polynomial<const N: usize>(x: Float, coefficients: [Float; N]) -> Float {
            let mut sum = coefficients[0];
            for coefficient in &coefficients[1..] {
                sum = sum.mul_add(x, *coefficient);
            }
            sum
        }

        /// 2^n for an integral `n` that is the exponent of a normal number.
        #[inline(always)]
        pub(super) fn power_of_two(n: Integer) -> Float {
            Float::from_bits((n.wrapping_add((Float::MAX_EXP - 1) as Integer) as Bits) << FRACTION)
        }

        /// The integer n of `rounded` = n + [`ROUND`].
        #[inline(always)]
        pub(super) fn integer(rounded: Float) -> Integer {
            (rounded.to_bits() as Integer).wrapping_sub(ROUND.to_bits() as Integer)
        }

        /// `x` clamped to the bounds; NaN propagates.
        #[inline(always)]
        pub(super) fn clamp(x: Float, low: Float, high: Float) -> Float {
            let x = if x > high { high } else { x };
            if x < low { low } else { x }
        }

        /// Splits x = n ln 2 + r with |r| <= ln 2 / 2 into n + [`ROUND`] and e^r - 1.
        #[inline(always)]
        fn exp_parts(x: Float) -> (Float, Float) {
            let rounded = x.mul_add(consts::LOG2_E, ROUND);
            let n = rounded - ROUND;
            (rounded, expm1_near_0(n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x))))
        }

        /// e^x; 1.1 ulp in `f32`, 1.6 in `f64`.
        #[inline(always)]
        pub fn exp(x: Float) -> Float {
            let (rounded, p) = exp_parts(clamp(x, -EXP_LIMIT, EXP_LIMIT));
            scale(p, rounded)
        }

        /// e^x - 1; 1.5 ulp in `f32`, 2 in `f64`.
        #[inline(always)]
        pub fn expm1(x: Float) -> Float {
            let (rounded, p) = exp_parts(clamp(x, EXPM1_LIMITS[0], EXPM1_LIMITS[1]));
            // Half of the power, because 2^n overflows for the greatest n.
            let half = power_of_two(integer(rounded).wrapping_sub(1));
            let result = 2.0 * p.mul_add(half, half - 0.5);
            let result = if rounded == ROUND { p } else { result };
            // Keeps the sign of zero.
            if x == 0.0 { x } else { result }
        }

        /// The logarithm of `x` to any base above 1: `result` if x is positive and finite, else the special value.
        #[inline(always)]
        fn log_or_special(x: Float, result: Float) -> Float {
            let special = if x == 0.0 { Float::NEG_INFINITY } else { Float::NAN };
            let result = if x > 0.0 { result } else { special };
            if x == Float::INFINITY { x } else { result }
        }

        /// ln(1 + x) for a finite x above -1; 1 ulp in `f32`, 1.5 in `f64`.
        #[inline(always)]
        pub fn log1p_of_finite(x: Float) -> Float {
            // 1 + x = 2^e (1 + f), where f includes the rounding error of the sum. The factor is 2^(2 - e) because 2^-e may be out
            // of range.
            let e = ((1.0 + x).to_bits() as Integer).wrapping_sub(SQRT_HALF) >> FRACTION;
            let shrink = Float::from_bits((Float::to_bits(4.0) as Integer).wrapping_sub(e << FRACTION) as Bits);
            log_of_parts(small_float(e), (x * shrink).mul_add(0.25, shrink.mul_add(0.25, -1.0)))
        }

        /// tanh x; 2 ulp in `f32`, 2.5 in `f64`.
        #[inline(always)]
        pub fn tanh(x: Float) -> Float {
            let magnitude = clamp(x.abs(), 0.0, TANH_LIMIT);
            let t = expm1(2.0 * magnitude);
            (t / (t + 2.0)).copysign(x)
        }

        /// sin x; 1 ulp. Scalar code.
        #[inline(always)]
        pub fn sin(x: Float) -> Float {
            x.sin()
        }

        /// cos x; 1 ulp. Scalar code.
        #[inline(always)]
        pub fn cos(x: Float) -> Float {
            x.cos()
        }

        /// tan x; 1 ulp. Scalar code.
        #[inline(always)]
        pub fn tan(x: Float) -> Float {
            x.tan()
        }

        /// True if [`sin_cos_fast`] and [`tan_fast`] are accurate for `x`.
        #[inline(always)]
        pub fn takes_fast_path(x: Float) -> bool {
            x.abs() <= NEAR
        }

        /// sin x and cos x for a small x; 2 ulp.
        #[inline(always)]
        pub fn sin_cos_fast(x: Float) -> (Float, Float) {
            let (quarter, r) = quarter_turns(x);
            let (sine, cosine) = sin_cos_quarters(quarter, r);
            // The sine of a small angle is the angle, which also keeps the sign of zero.
            (if x.abs() < LINEAR { x } else { sine }, cosine)
        }

        /// tan x for a small x; 3.5 ulp.
        #[inline(always)]
        pub fn tan_fast(x: Float) -> Float {
            let (quarter, r) = quarter_turns(x);
            let square = r * r;
            let (sine, cosine) = (r * polynomial(square, SINE), polynomial(square, COSINE));
            let odd = quarter & 1 != 0;
            let quotient = if odd { -cosine } else { sine } / if odd { sine } else { cosine };
            if x.abs() < LINEAR { x } else { quotient }
        }

        /// Sine and cosine of `quarter` + r quarter turns, |r| <= 1/2.
        #[inline(always)]
        fn sin_cos_quarters(quarter: Integer, r: Float) -> (Float, Float) {
            let square = r * r;
            let (sine, cosine) = (r * polynomial(square, SINE), polynomial(square, COSINE));
            let (sine, cosine) = if quarter & 1 == 0 { (sine, cosine) } else { (cosine, sine) };
            // The sine is negative in the second half of the turn, the cosine in the second and the third quarter.
            let sine_sign = ((quarter & 2) as Bits) << (Bits::BITS - 2);
            let cosine_sign = ((quarter.wrapping_add(1) & 2) as Bits) << (Bits::BITS - 2);
            (Float::from_bits(sine.to_bits() ^ sine_sign), Float::from_bits(cosine.to_bits() ^ cosine_sign))
        }

        /// sin 2 pi x and cos 2 pi x; absolute error below an ulp of 1. x must be finite and of magnitude below 2^20.
        #[inline(always)]
        pub fn sin_cos_turns(x: Float) -> (Float, Float) {
            // x = n / 4 + r / 4 with |r| <= 1/2, exactly.
            let rounded = x.mul_add(4.0, ROUND);
            sin_cos_quarters(integer(rounded), x.mul_add(4.0, ROUND - rounded))
        }

        /// 2^n, where `exponent` is n as the biased exponent bits of a normal number.
        #[inline(always)]
        fn power(exponent: Bits) -> Float {
            Float::from_bits(Float::to_bits(1.0).wrapping_add(exponent))
        }

        /// (1 + p) 2^n, rounded once, for `rounded` = n + [`ROUND`]. In two steps, since 2^n may be out of range where the result
        /// is not.
        #[inline(always)]
        fn scale(p: Float, rounded: Float) -> Float {
            // The low bits of `rounded` hold n. They become the exponents of two factors: one of half of n, one of the rest.
            let half = rounded.to_bits() << (FRACTION - 1) & (Bits::MAX << FRACTION);
            let (first, second) = (power(half), power((rounded.to_bits() << FRACTION).wrapping_sub(half)));
            p.mul_add(first, first) * second
        }

        /// e^x for x <= 0; 1.6 ulp.
        #[inline(always)]
        pub fn exp_nonpositive(x: Float) -> Float {
            let (rounded, p) = exp_parts(x);
            // Scaled by a factor with which all powers are normal numbers.
            let scale = Float::from_bits(RAISED.to_bits().wrapping_add(rounded.to_bits() << FRACTION));
            let raised = p.mul_add(scale, scale);
            // Avoids a product that underflows: some processors take long for it.
            (if x < -EXP_LIMIT { 0.0 } else { raised }) * (1.0 / RAISED)
        }

        /// 1 / (1 + e^-x); 2.5 ulp.
        #[inline(always)]
        pub fn sigmoid(x: Float) -> Float {
            let power = exp_nonpositive(-x.abs());
            (if x < 0.0 { power } else { 1.0 }) / (1.0 + power)
        }

        /// factor / (1 + e^-x); 3 ulp.
        #[inline(always)]
        pub fn scaled_sigmoid(x: Float, factor: Float) -> Float {
            let power = exp_nonpositive(-x.abs());
            factor * (if x < 0.0 { power } else { 1.0 }) / (1.0 + power)
        }

        /// 1 / (1 + e^-x) and 1 minus it, both with small relative errors; 2.5 ulp.
        #[inline(always)]
        pub fn sigmoid_and_rest(x: Float) -> (Float, Float) {
            let power = exp_nonpositive(-x.abs());
            let greater = 1.0 / (1.0 + power);
            let lesser = power * greater;
            if x < 0.0 { (lesser, greater) } else { (greater, lesser) }
        }

        /// 2^x; 2 ulp.
        #[inline(always)]
        pub fn exp2(x: Float) -> Float {
            let x = clamp(x, -EXP_LIMIT * consts::LOG2_E, EXP_LIMIT * consts::LOG2_E);
            let rounded = x + ROUND;
            let p = expm1_near_0((x - (rounded - ROUND)) * consts::LN_2);
            scale(p, rounded)
        }

        /// e^x / 2, even if e^x is out of range; 1.6 ulp.
        #[inline(always)]
        fn half_exp(x: Float) -> Float {
            let (rounded, p) = exp_parts(clamp(x, -EXP_LIMIT, EXP_LIMIT));
            scale(p, rounded - 1.0)
        }

        /// log to base 2; 2 ulp, exact for powers of 2. NaN below 0, -infinity at 0.
        #[inline(always)]
        pub fn log2(x: Float) -> Float {
            let (e, high, low) = split_log(x);
            let fraction = high.mul_add(LOG2_E_LOW, low * consts::LOG2_E);
            log_or_special(x, e + high.mul_add(consts::LOG2_E, fraction))
        }

        /// log to base 10; 2 ulp. NaN below 0, -infinity at 0.
        #[inline(always)]
        pub fn log10(x: Float) -> Float {
            let (e, high, low) = split_log(x);
            let rest = high.mul_add(LOG10_E_LOW, low.mul_add(consts::LOG10_E, e * LOG10_2_LOW));
            log_or_special(x, e.mul_add(LOG10_2_HIGH, high.mul_add(consts::LOG10_E, rest)))
        }

        /// ln(1 + x); 1.5 ulp. NaN below -1, -infinity at -1.
        #[inline(always)]
        pub fn log1p(x: Float) -> Float {
            // `copysign` keeps the sign of zero.
            log_or_special(1.0 + x, log1p_of_finite(x)).copysign(x)
        }

        /// ln(e^x + e^y), without overflow; 2.5 ulp.
        #[inline(always)]
        pub fn logaddexp(x: Float, y: Float) -> Float {
            let greater = if x > y { x } else { y };
            let sum = greater + log1p_of_finite(exp(-(x - y).abs()));
            // For equal infinities the difference is NaN.
            if x == y { x + consts::LN_2 } else { sum }
        }

        /// log2(2^x + 2^y), without overflow; 2.5 ulp.
        #[inline(always)]
        pub fn logaddexp2(x: Float, y: Float) -> Float {
            let greater = if x > y { x } else { y };
            let sum = greater + log1p_of_finite(exp2(-(x - y).abs())) * consts::LOG2_E;
            if x == y { x + 1.0 } else { sum }
        }

        /// sinh x; 3 ulp.
        #[inline(always)]
        pub fn sinh(x: Float) -> Float {
            let magnitude = x.abs();
            let t = expm1(clamp(magnitude, 0.0, 40.0));
            let small = 0.5 * (t + t / (t + 1.0));
            (if magnitude > 40.0 { half_exp(magnitude) } else { small }).copysign(x)
        }

        /// cosh x; 3 ulp.
        #[inline(always)]
        pub fn cosh(x: Float) -> Float {
            let half = half_exp(x.abs());
            half + 0.25 / half
        }

        /// sin(pi x) / (pi x), 1 at 0; 3 ulp, exactly 0 at the other integers.
        #[inline(always)]
        pub fn sinc(x: Float) -> Float {
            // Subtracting whole turns is exact.
            let half_turns = x - 2.0 * (0.5 * x).round_ties_even();
            let rounded = half_turns.mul_add(2.0, ROUND);
            let (sine, _) = sin_cos_quarters(integer(rounded), half_turns.mul_add(2.0, ROUND - rounded));
            if x == 0.0 { 1.0 } else { sine / (consts::PI * x) }
        }

        /// The inverse of sinh; 4 ulp.
        #[inline(always)]
        pub fn asinh(x: Float) -> Float {
            let magnitude = x.abs();
            let square = magnitude * magnitude;
            let small = log1p_of_finite(magnitude + square / (1.0 + (square + 1.0).sqrt()));
            (if magnitude > SQUARABLE { log(magnitude) + consts::LN_2 } else { small }).copysign(x)
        }

        /// The inverse of cosh; 4 ulp. NaN below 1.
        #[inline(always)]
        pub fn acosh(x: Float) -> Float {
            let t = x - 1.0;
            let small = log1p_of_finite(t + (t * (x + 1.0)).sqrt());
            let result = if x > SQUARABLE { log(x) + consts::LN_2 } else { small };
            if x < 1.0 { Float::NAN } else { result }
        }

        /// The inverse of tanh; 4 ulp. NaN for |x| > 1, infinite at 1 and -1.
        #[inline(always)]
        pub fn atanh(x: Float) -> Float {
            let magnitude = x.abs();
            (0.5 * log1p(2.0 * magnitude / (1.0 - magnitude))).copysign(x)
        }

        /// Returns (asin |x|, false) for small |x|, else ((pi / 2 - asin |x|) / 2, true).
        #[inline(always)]
        fn asin_parts(magnitude: Float) -> (Float, bool) {
            let large = magnitude > 0.5;
            let square = if large { (1.0 - magnitude) * 0.5 } else { magnitude * magnitude };
            let root = if large { square.sqrt() } else { magnitude };
            (root.mul_add(square * polynomial(square, ASIN), root), large)
        }

        /// The inverse sine; 2.5 ulp. NaN for |x| > 1.
        #[inline(always)]
        pub fn asin(x: Float) -> Float {
            let (part, large) = asin_parts(x.abs());
            (if large { consts::FRAC_PI_2 - (2.0 * part - FRAC_PI_2_LOW) } else { part }).copysign(x)
        }

        /// The inverse cosine; 2.5 ulp. NaN for |x| > 1.
        #[inline(always)]
        pub fn acos(x: Float) -> Float {
            let (part, large) = asin_parts(x.abs());
            let far = if x < 0.0 { consts::PI - (2.0 * part - 2.0 * FRAC_PI_2_LOW) } else { 2.0 * part };
            if large { far } else { consts::FRAC_PI_2 - (part.copysign(x) - FRAC_PI_2_LOW) }
        }

        /// The inverse tangent of y / x, neither of which is negative; not defined for 0 / 0.
        #[inline(always)]
        fn atan_quotient(y: Float, x: Float) -> Float {
            // Expanded about 0, pi / 4 or pi / 2, whichever is nearest: the argument stays below tan(pi / 8).
            let (steep, middle) = (y > 2.414_213_5 * x, y > 0.414_213_57 * x);
            let (over, under) = if middle { (y - x, y + x) } else { (y, x) };
            let (over, under) = if steep { (-x, y) } else { (over, under) };
            let (base, low) = if middle { (consts::FRAC_PI_4, 0.5 * FRAC_PI_2_LOW) } else { (0.0, 0.0) };
            let (base, low) = if steep { (consts::FRAC_PI_2, FRAC_PI_2_LOW) } else { (base, low) };
            let t = over / under;
            let square = t * t;
            base + (t.mul_add(square * polynomial(square, ATAN), t) + low)
        }

        /// The inverse tangent; 2.5 ulp.
        #[inline(always)]
        pub fn atan(x: Float) -> Float {
            atan_quotient(x.abs(), 1.0).copysign(x)
        }

        /// The angle of the point (x, y); 2 ulp.
        #[inline(always)]
        pub fn atan2(y: Float, x: Float) -> Float {
            let (up, along) = (y.abs(), x.abs());
            // Scaled, because x + y may overflow; quotients of infinities and of zeros are replaced.
            let shrink = if up > SQUARABLE || along > SQUARABLE { 0.25 } else { 1.0 };
            let both_infinite = up == Float::INFINITY && along == Float::INFINITY;
            let (over, under) = if both_infinite { (1.0, 1.0) } else { (up * shrink, along * shrink) };
            let angle = atan_quotient(over, under);
            let angle = if up == 0.0 { 0.0 } else { angle };
            let turned = if x.is_sign_negative() { consts::PI - (angle - 2.0 * FRAC_PI_2_LOW) } else { angle };
            (if x != x { x } else { turned }).copysign(y)
        }

        /// sqrt(x^2 + y^2), without overflow; 1.5 ulp. Infinite if either is infinite.
        #[inline(always)]
        pub fn hypot(x: Float, y: Float) -> Float {
            let (x, y) = (x.abs(), y.abs());
            let large = x > SQUARABLE || y > SQUARABLE;
            let small = x < 1.0 / SQUARABLE && y < 1.0 / SQUARABLE;
            let (shrink, grow) = if large { (HYPOT_SHRINK, 1.0 / HYPOT_SHRINK) } else { (1.0, 1.0) };
            let (shrink, grow) = if small { (1.0 / HYPOT_SHRINK, HYPOT_SHRINK) } else { (shrink, grow) };
            let (a, b) = (x * shrink, y * shrink);
            let result = a.mul_add(a, b * b).sqrt() * grow;
            if x == Float::INFINITY || y == Float::INFINITY { Float::INFINITY } else { result }
        }

        /// The number adjacent to `x` in the direction of `y`.
        #[inline(always)]
        pub fn nextafter(x: Float, y: Float) -> Float {
            let away = (x < y) == (x > 0.0);
            let bits = x.to_bits();
            let next = Float::from_bits(if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) });
            let next = if x == 0.0 { Float::from_bits(1).copysign(y) } else { next };
            let next = if x == y { y } else { next };
            if x != x || y != y { x + y } else { next }
        }

        /// e^(x^2) erfc x for x >= 0; 2 ulp.
        #[inline(always)]
        pub(super) fn erfcx_of_positive(x: Float) -> Float {
            let t = 1.0 - 2.0 * ERFCX_CENTRE / (x + ERFCX_CENTRE);
            // Numerator and denominator are halved, because doubling the greatest numbers overflows.
            0.5 * polynomial(t, ERFCX) / (0.5 + x)
        }

        /// 1 - erf x, with a small relative error where it is small; 4 ulp.
        #[inline(always)]
        pub fn erfc(x: Float) -> Float {
            let magnitude = clamp(x.abs(), 0.0, 28.0);
            let square = magnitude * magnitude;
            let power = exp(-square);
            // The rounding error of the square.
            let lost = magnitude.mul_add(magnitude, -square);
            let tail = power.mul_add(-lost, power) * erfcx_of_positive(magnitude);
            let middle = 1.0 - erf_near_0(x).mul_add(x, x);
            let result = if x < 0.0 { 2.0 - tail } else { tail };
            if magnitude < 0.5 { middle } else { result }
        }
    };
}
pub(super) use shared;
