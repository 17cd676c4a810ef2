//! Rounding, signs and magnitudes.

#![forbid(unsafe_code)]

use super::functions;
use crate::tensor::dtype::dispatch;
use crate::tensor::launch::Launch;
use crate::tensor::loops::pointwise::{Map, run};
use crate::tensor::number::{Ordered, Real};

functions! {
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

/// To multiples of a power of 10, or of its inverse.
#[derive(Clone, Copy)]
struct Decimals<T> {
    power: T,
    whole: bool,
}

impl<T: Real> Map<T, 1> for Decimals<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [x]: [T; 1]) -> T {
        let (tens, decimals) = (x.div(self.power).round().mul(self.power), x.mul(self.power).round().div(self.power));
        if self.whole { tens } else { decimals }
    }
}

/// `aten::round.decimals`: to that many decimals, or for a negative number to tens, hundreds and so on. Operands [out, x]; scalars
/// [decimals].
///
/// # Errors
/// A dtype outside the table's, or no scalar.
pub fn round_decimals(launch: &Launch<'_>) -> Result<(), String> {
    let (dtype, decimals) = (launch.compute(), launch.scalar(0)?.to::<i64>());
    let power = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    match decimals {
        0 => round(launch),
        _ => dispatch!(dtype in WIDE, T => run::<T, T, _, 1>(launch, Decimals { power: power as T, whole: decimals < 0 })),
    }
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, real};
    use crate::tensor::launch::Scalar;

    #[test]
    fn values_are_rounded() {
        let check = |name: &str, oracle: fn(f64) -> f64| check::pointwise::<1>(name, &[], |dtype| dtype, |[x]| real(oracle(x.re)));
        check("ceil", f64::ceil);
        check("floor", f64::floor);
        check("frac", f64::fract);
        check("round", f64::round_ties_even);
        for (decimals, power) in [(0, 1.0), (1, 10.0), (-1, 0.1)] {
            let scalars = [Scalar::Long(decimals)];
            check::pointwise::<1>("round_decimals", &scalars, |dtype| dtype, |[x]| real((x.re * power).round_ties_even() / power));
        }
        check("sign", |x| if x == 0.0 { 0.0 } else { x.signum() });
        check("trunc", f64::trunc);
    }
}
