//! Rounding: `ceil`, `floor`, `frac`, `round`, `trunc`. Operands [out, x].

use super::{functions, maps};
use crate::ops::copy::kernel as copy;
use crate::tensor::loops::elementwise::run;
use crate::tensor::op::Run;
use crate::tensor::{Element, Error, FLOATING, Launch, Number, Real, dispatch, signature};

signature! {
    /// `aten::ceil`: rounds up to an integer.
    ceil(out; x)[] in REAL | UNSIGNED => |launch| whole(launch, real_ceil);
    /// `aten::floor`: rounds down to an integer.
    floor(out; x)[] in REAL | UNSIGNED => |launch| whole(launch, real_floor);
    /// `aten::round`: rounds to the nearest integer, ties to even.
    round(out; x)[] in REAL | UNSIGNED => |launch| whole(launch, real_round);
    /// `aten::trunc`: rounds towards 0 to an integer.
    trunc(out; x)[] in REAL | UNSIGNED => |launch| whole(launch, real_trunc);
    /// `aten::round.decimals`: rounds to a number of decimals; a negative number rounds to tens, hundreds and so on.
    round_decimals(out; x)[decimals] in FLOATING => |launch| {
        let (dtype, decimals) = (launch.compute(), round_decimals::Scalars::of(launch)?.decimals.to::<i64>());
        let power = 10f64.powi(decimals.unsigned_abs().min(400) as i32);
        match decimals {
            0 => round(launch),
            _ => dispatch!(dtype in FLOATING, T => {
                let [power, is_tens] = [power, f64::from(decimals < 0)].map(<T as Element>::Acc::from_f64);
                run::<T, T, _, 1>(launch, Decimals { power, is_tens })
            }),
        }
    };
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

/// Rounds floating point dtypes; integers are copied.
fn whole(launch: &Launch<'_>, real: Run) -> Result<(), Error> {
    if FLOATING.contains(launch.compute()) { real(launch) } else { copy::copy_(launch) }
}

maps! {
    /// Rounds to multiples of a power of 10 if `is_tens` is not 0, else of its inverse.
    Decimals { power, is_tens }, Real => T, |[x]| {
        let (tens, decimals) = (x.div(power).round().mul(power), x.mul(power).round().div(power));
        if is_tens == T::ZERO { decimals } else { tens }
    };
}
