//! Rounding: `ceil`, `floor`, `frac`, `round`, `trunc`. Operands [out, x].

#![forbid(unsafe_code)]

use super::functions;
use crate::kernels::copy;
use crate::kernels::signature::signature;
use crate::tensor::dtype::{Element, FLOATING, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run};
use crate::tensor::number::{Number, Real};

signature! {
    ceil(out; x)[] in REAL | UNSIGNED;
    floor(out; x)[] in REAL | UNSIGNED;
    round(out; x)[] in REAL | UNSIGNED;
    trunc(out; x)[] in REAL | UNSIGNED;
    round_decimals(out; x)[decimals] in FLOATING;
}

functions! {
    /// `aten::ceil` of floating point dtypes.
    real_ceil, Ceil, FLOATING, Real, [], |[x]| x.ceil();
    /// `aten::floor` of floating point dtypes.
    real_floor, Floor, FLOATING, Real, [], |[x]| x.floor();
    /// `aten::frac`: x - trunc(x).
    frac, Frac, FLOATING, Real, [], |[x]| x.sub(x.trunc());
    /// `aten::round` of floating point dtypes.
    real_round, Round, FLOATING, Real, [], |[x]| x.round();
    /// `aten::trunc` of floating point dtypes.
    real_trunc, Trunc, FLOATING, Real, [], |[x]| x.trunc();
}

/// Kernels that round floating point dtypes and copy integers.
macro_rules! to_whole_numbers {
    ($($(#[$doc:meta])* $kernel:ident = $real:ident;)*) => {$(
        $(#[$doc])*
        pub fn $kernel(launch: &Launch<'_>) -> Result<(), Error> {
            if FLOATING.contains(launch.compute()) { $real(launch) } else { copy::copy_(launch) }
        }
    )*};
}

to_whole_numbers! {
    /// `aten::ceil`: rounds up to an integer. Operands [out, x].
    ceil = real_ceil;
    /// `aten::floor`: rounds down to an integer. Operands [out, x].
    floor = real_floor;
    /// `aten::round`: rounds to the nearest integer, ties to even. Operands [out, x].
    round = real_round;
    /// `aten::trunc`: rounds towards 0 to an integer. Operands [out, x].
    trunc = real_trunc;
}

/// Rounds to multiples of a power of 10, or of its inverse.
#[derive(Clone, Copy)]
struct Decimals<T> {
    power: T,
    whole: bool,
}

impl<T: Real> Map<T, 1> for Decimals<T> {
    type Output = T;

    #[inline(always)]
    fn apply(self, [x]: [T; 1]) -> T {
        let Self { power, whole } = self;
        let (tens, decimals) = (x.div(power).round().mul(power), x.mul(power).round().div(power));
        if whole { tens } else { decimals }
    }
}

/// `aten::round.decimals`: rounds to a number of decimals; a negative number rounds to tens, hundreds and so on.
pub fn round_decimals(launch: &Launch<'_>) -> Result<(), Error> {
    let (dtype, decimals) = (launch.compute(), round_decimals::Scalars::of(launch)?.decimals.to::<i64>());
    let power = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
    match decimals {
        0 => round(launch),
        _ => dispatch!(dtype in FLOATING, T => {
            let power = <T as Element>::Acc::from_f64(power);
            run::<T, T, _, 1>(launch, Decimals { power, whole: decimals < 0 })
        }),
    }
}
