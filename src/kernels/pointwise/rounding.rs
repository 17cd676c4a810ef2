//! Rounding, signs and magnitudes.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::number::{Ordered, Real};

functions! {
    /// `aten::abs` of real numbers: the magnitude; the least integer stays. Operands [out, x].
    abs, Abs, REAL, Ordered, [], |[x]| if x < T::ZERO { x.neg() } else { x.add(T::ZERO) };
    /// `aten::ceil`: up to a whole number. Operands [out, x].
    ceil, Ceil, FLOATING, Real, [], |[x]| x.ceil();
    /// `aten::floor`: down to a whole number. Operands [out, x].
    floor, Floor, FLOATING, Real, [], |[x]| x.floor();
    /// `aten::frac`: x - trunc(x). Operands [out, x].
    frac, Frac, FLOATING, Real, [], |[x]| x.sub(x.trunc());
    /// `aten::round`: to the nearest whole number, ties to even. Operands [out, x].
    round, Round, FLOATING, Real, [], |[x]| x.round();
    /// `aten::sign`: -1, 0 or 1; 0 for NaN. Operands [out, x].
    sign, Sign, REAL, Ordered, [], |[x]| if x > T::ZERO { T::ONE } else if x < T::ZERO { T::ZERO.sub(T::ONE) } else { T::ZERO };
    /// `aten::trunc`: towards 0 to a whole number. Operands [out, x].
    trunc, Trunc, FLOATING, Real, [], |[x]| x.trunc();
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};

    #[test]
    fn values_are_rounded() {
        let check = |name: &str, oracle: fn(f64) -> f64| check::pointwise::<1>(name, &[], |dtype| dtype, |[x]| real(oracle(x.re)));
        check("abs", f64::abs);
        check("ceil", f64::ceil);
        check("floor", f64::floor);
        check("frac", f64::fract);
        check("round", f64::round_ties_even);
        check("sign", |x| if x == 0.0 { 0.0 } else { x.signum() });
        check("trunc", f64::trunc);
    }
}
