//! Elementary functions of complex numbers, in double precision; single precision is rounded from them. They are scalar code:
//! functions of the C library (C99, section 7.3 and annex G), which PyTorch's CPU device calls as well, and some that C lacks.

use num_complex::Complex;

use super::f64 as real;

type Complex64 = Complex<f64>;

/// Declares functions of the C library under names of this module. `name = function(arguments);`
macro_rules! of_c {
    ($($(#[$doc:meta])* $name:ident = $function:ident($($argument:ident),+);)*) => {
        // SAFETY: C99 declares these functions, which have no preconditions. The calling conventions of x86-64 and AArch64 pass a
        // complex number as a struct of its two parts, which `Complex` is (`repr(C)`).
        unsafe extern "C" {
            $(safe fn $function($($argument: Complex64),+) -> Complex64;)*
        }

        $(
            $(#[$doc])*
            pub fn $name($($argument: Complex64),+) -> Complex64 {
                $function($($argument),+)
            }
        )*
    };
}

of_c! {
    /// The principal inverse cosine.
    acos = cacos(z);
    /// The principal inverse hyperbolic cosine.
    acosh = cacosh(z);
    /// The principal inverse sine.
    asin = casin(z);
    /// The principal inverse hyperbolic sine.
    asinh = casinh(z);
    /// The principal inverse tangent.
    atan = catan(z);
    /// The principal inverse hyperbolic tangent.
    atanh = catanh(z);
    cos = ccos(z);
    cosh = ccosh(z);
    exp = cexp(z);
    /// The principal logarithm.
    log = clog(z);
    pow = cpow(base, exponent);
    sin = csin(z);
    sinh = csinh(z);
    /// The principal square root.
    sqrt = csqrt(z);
    tan = ctan(z);
    tanh = ctanh(z);
}

pub fn exp2(z: Complex64) -> Complex64 {
    exp(z * std::f64::consts::LN_2)
}

/// The principal logarithm to base 10.
pub fn log10(z: Complex64) -> Complex64 {
    log(z) / std::f64::consts::LN_10
}

/// The principal logarithm to base 2.
pub fn log2(z: Complex64) -> Complex64 {
    log(z) / std::f64::consts::LN_2
}

/// sin(pi z) / (pi z), 1 at 0.
pub fn sinc(z: Complex64) -> Complex64 {
    let turns = z * std::f64::consts::PI;
    if turns == Complex64::ZERO {
        return Complex64::ONE;
    }
    // Both are scaled to a magnitude whose square is in range.
    let size = turns.re.abs().max(turns.im.abs());
    (sin(turns) / size) / (turns / size)
}

/// 1 / (1 + e^-z).
pub fn sigmoid(z: Complex64) -> Complex64 {
    // For a negative real part e^z does not overflow.
    if z.re < 0.0 {
        let power = exp(z);
        return power / (1.0 + power);
    }
    (1.0 + exp(-z)).inv()
}

/// factor / (1 + e^-z).
pub fn scaled_sigmoid(z: Complex64, factor: Complex64) -> Complex64 {
    factor * sigmoid(z)
}

/// e^z - 1, accurate near 0.
pub fn expm1(z: Complex64) -> Complex64 {
    if z.im == 0.0 {
        return Complex64::new(real::expm1(z.re), z.im);
    }
    let power = exp(z);
    if !(0.5..2.0).contains(&power.re) {
        return power - 1.0;
    }
    let half_sine = (0.5 * z.im).sin();
    // cos y - 1 = -2 sin(y/2)^2
    Complex64::new(real::expm1(z.re) * z.im.cos() - 2.0 * half_sine * half_sine, z.re.exp() * z.im.sin())
}

/// ln(1 + z), accurate near 0.
pub fn log1p(z: Complex64) -> Complex64 {
    let next = Complex64::new(1.0 + z.re, z.im);
    if z.re.abs() > 0.5 || z.im.abs() > 0.5 || z.re.is_nan() || z.im.is_nan() {
        return log(next);
    }
    // |1 + z|^2 = 1 + x (2 + x) + y^2
    Complex64::new(0.5 * real::log1p(z.re.mul_add(2.0 + z.re, z.im * z.im)), z.im.atan2(next.re))
}

/// ln(e^lhs + e^rhs). Of equal real parts, the greater number is the one with the greater imaginary part. NaN propagates, and an
/// infinite number dominates.
pub fn logaddexp(lhs: Complex64, rhs: Complex64) -> Complex64 {
    let is_nan = |z: Complex64| z.re.is_nan() || z.im.is_nan();
    if is_nan(lhs) || is_nan(rhs) {
        return Complex64::new(f64::NAN, f64::NAN);
    }
    let is_left_less = lhs.re < rhs.re || lhs.re == rhs.re && lhs.im < rhs.im;
    let (low, high) = if is_left_less { (lhs, rhs) } else { (rhs, lhs) };
    if high.re.is_infinite() && low.re == high.re {
        // Two numbers of -infinity: either is the result. Two of +infinity: the angle of the sum comes from the imaginary parts.
        return if high.re < 0.0 { low } else { log(exp(low) + exp(high)) };
    }
    high + log1p(exp(low - high))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: Complex64, expected: Complex64, z: Complex64) {
        assert!((found - expected).norm() <= 1e-13 * expected.norm().max(1.0), "{found} != {expected} of {z}");
    }

    type Function = fn(Complex64) -> Complex64;

    #[test]
    fn functions_keep_their_identities() {
        let parts = [-3.0, -0.4, -1e-9, 0.0, 1e-9, 0.3, 1.5, 20.0];
        let other = Complex64::new(0.25, -2.0);
        for z in parts.into_iter().flat_map(|re| parts.map(|im| Complex64::new(re, im))) {
            let inverses: [[Function; 2]; 6] = [[sin, asin], [cos, acos], [sinh, asinh], [cosh, acosh], [tan, atan], [tanh, atanh]];
            for [function, inverse] in inverses.into_iter().take(if z.norm() < 10.0 { 6 } else { 4 }) {
                assert_close(function(inverse(z)), z, z);
            }
            assert_close(sqrt(z) * sqrt(z), z, z);
            assert_close(expm1(z), exp(z) - 1.0, z);
            assert_close(sigmoid(z) * (1.0 + exp(-z)), Complex64::ONE, z);
            if z.re > -1.0 {
                assert_close(log1p(z), log(1.0 + z), z);
            }
            if z.norm() > 0.0 {
                assert_close(exp(log(z)), z, z);
                assert_close(exp2(log2(z)), z, z);
                assert_close(log10(z) * std::f64::consts::LN_10, log(z), z);
                assert_close(pow(z, Complex64::new(2.0, 0.0)) / z, z, z);
            }
            if (exp(z) + exp(other)).norm() > 1e-6 {
                let scale = exp(z).norm().max(1.0);
                assert_close(exp(logaddexp(z, other)) / scale, (exp(z) + exp(other)) / scale, z);
            }
        }
        assert_eq!(sinc(Complex64::new(0.0, 1e-308)), Complex64::ONE);
        let (small, nothing) = (Complex64::new(3e-20, -2e-20), Complex64::new(f64::NEG_INFINITY, 0.0));
        assert_eq!((expm1(small), log1p(small), logaddexp(nothing, other)), (small, small, other));
        assert_eq!(logaddexp(nothing, nothing).re, f64::NEG_INFINITY);
    }
}
