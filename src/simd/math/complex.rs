//! Elementary functions of complex numbers, in double precision; single precision is rounded from them. They are scalar code.

#![forbid(unsafe_code)]

use num_complex::Complex;

type Complex64 = Complex<f64>;

/// e^z.
pub fn exp(z: Complex64) -> Complex64 {
    z.exp()
}

/// The principal logarithm.
pub fn log(z: Complex64) -> Complex64 {
    z.ln()
}

/// The principal square root.
pub fn sqrt(z: Complex64) -> Complex64 {
    z.sqrt()
}

/// sin z.
pub fn sin(z: Complex64) -> Complex64 {
    z.sin()
}

/// cos z.
pub fn cos(z: Complex64) -> Complex64 {
    z.cos()
}

/// tanh z, accurate near its poles and without overflow.
///
/// W. Kahan, *Branch cuts for complex elementary functions* (1987).
pub fn tanh(z: Complex64) -> Complex64 {
    if z.re.abs() > 22.0 {
        let (sin, cos) = z.im.sin_cos();
        let decay = (-2.0 * z.re.abs()).exp();
        return Complex64::new(1f64.copysign(z.re), 4.0 * sin * cos * decay);
    }
    let (tan, sinh) = (z.im.tan(), z.re.sinh());
    let beta = 1.0 + tan * tan;
    let rho = (1.0 + sinh * sinh).sqrt();
    let denominator = 1.0 + beta * sinh * sinh;
    Complex64::new(beta * rho * sinh / denominator, tan / denominator)
}

/// 1 / (1 + e^-z).
pub fn sigmoid(z: Complex64) -> Complex64 {
    (1.0 + exp(-z)).inv()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_the_quotient_of_sinh_and_cosh() {
        for re in [-3.0, -0.1, 0.0, 0.5, 20.0] {
            for im in [-7.0, -0.5, 0.0, 1.5, 3.0] {
                let z = Complex64::new(re, im);
                assert!((tanh(z) - z.sinh() / z.cosh()).norm() < 1e-13, "{z}");
            }
        }
        assert_eq!(tanh(Complex64::new(-500.0, 1.0)).re, -1.0);
        assert!((tanh(Complex64::new(21.99, 1.0)) - tanh(Complex64::new(22.01, 1.0))).norm() < 1e-18);
    }
}
