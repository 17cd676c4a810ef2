//! Special functions of `torch.special` and related ones: gamma, Bessel, normal distribution. Operands [out, x]. Computed in double
//! precision, to which 16 bit floats are cast.

use super::functions;
use crate::tensor::{Elementary, Hub};

/// The coefficients of x^12, x^10, ... 1 in the Taylor series of sin(x) / x.
const BESSEL_J0: [f64; 7] =
    [1.0 / 6_227_020_800.0, -1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0, 1.0];

/// The maximum orders of Hermite polynomials, in `f32` and `f64`; above them PyTorch returns NaN.
const GREATEST_ORDERS: [i64; 2] = [128, 512];

/// A Hermite polynomial of an integer order, by its recurrence: `scale` is 2 for the physicists', 1 for the probabilists'. 0 for
/// negative orders, NaN above [`GREATEST_ORDERS`]. Abramowitz and Stegun, Handbook of Mathematical Functions, 22.7.
fn hermite<T: Elementary>(x: T, n: T, scale: i64) -> T {
    let order = n.hub().to::<i64>();
    if order < 0 {
        return T::ZERO;
    }
    if order > GREATEST_ORDERS[usize::from(size_of::<T>() > 4)] {
        return T::from_f64(f64::NAN);
    }
    let slope = T::from_i64(scale).mul(x);
    let (mut before, mut value) = (T::ZERO, T::ONE);
    for step in 0..order {
        // Fused as in PyTorch, for equal rounding: near a zero of the polynomial the two products cancel.
        (before, value) = (value, slope.mul_add(value, T::from_i64(scale * step).mul(before).neg()));
    }
    value
}

functions! {
    /// `aten::digamma`: the derivative of ln gamma.
    digamma, Digamma, WIDENED, Elementary, [], |[x]| x.digamma();
    /// `aten::erfinv`: the inverse of the error function.
    erfinv, Erfinv, WIDENED, Elementary, [], |[x]| x.erfinv();
    /// `aten::i0`: the modified Bessel function of order 0.
    i0, I0, WIDENED, Elementary, [], |[x]| x.i0();
    /// `aten::kaiser_window` of the positions 0..window_length: i0(beta sqrt(1 - t^2)) / i0(beta), with t from -1 to 1.
    kaiser_window, KaiserWindow, WIDENED, Elementary, [window_length, beta], |[position]| {
        let middle = window_length.sub(T::ONE).div(T::from_f64(2.0));
        let t = position.sub(middle).div(middle);
        beta.mul(T::ONE.sub(t.mul(t)).maximum(T::ZERO).sqrt()).i0().div(beta.i0())
    };
    /// `aten::lgamma`: ln |gamma(x)|.
    lgamma, Lgamma, WIDENED, Elementary, [], |[x]| x.lgamma();
    /// `aten::special_entr`: -x ln x; 0 at 0, -infinity below.
    special_entr, Entr, WIDENED, Elementary, [], |[x]| {
        let inside = x.neg().mul(x.log());
        let zero_or_nan = if x == T::ZERO { T::ZERO } else { x };
        let outside = if x < T::ZERO { T::LOWEST } else { zero_or_nan };
        if x > T::ZERO { inside } else { outside }
    };
    /// `aten::special_erfcx`: e^(x^2) erfc(x).
    special_erfcx, Erfcx, WIDENED, Elementary, [], |[x]| x.erfcx();
    /// `aten::special_hermite_polynomial_h`: the physicists' Hermite polynomial of order n.
    special_hermite_polynomial_h, HermiteH, WIDE, Elementary, [], |[x, n]| hermite(x, n, 2);
    /// `aten::special_hermite_polynomial_he`: the probabilists' Hermite polynomial of order n.
    special_hermite_polynomial_he, HermiteHe, WIDE, Elementary, [], |[x, n]| hermite(x, n, 1);
    /// `aten::special_i0e`: e^-|x| i0(x).
    special_i0e, I0e, WIDENED, Elementary, [], |[x]| x.i0e();
    /// `aten::special_i1`: the modified Bessel function of order 1.
    special_i1, I1, WIDENED, Elementary, [], |[x]| x.i1();
    /// `aten::special_i1e`: e^-|x| i1(x).
    special_i1e, I1e, WIDENED, Elementary, [], |[x]| x.i1e();
    /// `aten::special_log_ndtr`: the logarithm of the normal distribution function.
    special_log_ndtr, LogNdtr, WIDENED, Elementary, [], |[x]| x.log_ndtr();
    /// `aten::special_ndtri`: the inverse of the normal distribution function.
    special_ndtri, Ndtri, WIDENED, Elementary, [], |[x]| x.ndtri();
    /// `aten::special_spherical_bessel_j0`: sin(x) / x, by its Taylor series near 0; 0 at infinity.
    special_spherical_bessel_j0, SphericalBesselJ0, WIDE, Elementary, [], |[x]| {
        let square = x.mul(x);
        let near = BESSEL_J0.iter().fold(T::ZERO, |sum, &factor| sum.mul(square).add(T::from_f64(factor)));
        let ratio = if x.abs() == T::from_f64(f64::INFINITY) { T::ZERO } else { x.sin().div(x) };
        if x.abs() < T::from_f64(0.5) { near } else { ratio }
    };
    /// `aten::special_xlog1py`: x ln(1 + y); 0 where x is 0, unless y is NaN.
    special_xlog1py, Xlog1py, WIDENED, Elementary, [], |[x, y]| if x == T::ZERO && !y.is_nan() { T::ZERO } else { x.mul(y.log1p()) };
    /// `aten::xlogy`: x ln y; 0 where x is 0, unless y is NaN.
    xlogy, Xlogy, WIDENED, Elementary, [], |[x, y]| if x == T::ZERO && !y.is_nan() { T::ZERO } else { x.mul(y.log()) };
}
