//! `var`, `std`, `var_mean` and `std_mean`. Operands: [out, input] or [out, mean, input]; scalars [correction].

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::dispatch;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduction::variance::{self, Variance};

signature! {
    var(out, mean?, input)[correction] in FLOATING;
    std(out, mean?, input)[correction] in FLOATING;
}

/// `aten::var` and `aten::var_mean`.
pub fn var(launch: &Launch<'_>) -> Result<(), Error> {
    run(launch, false)
}

/// `aten::std` and `aten::std_mean`.
pub fn std(launch: &Launch<'_>) -> Result<(), Error> {
    run(launch, true)
}

fn run(launch: &Launch<'_>, root: bool) -> Result<(), Error> {
    let (dtype, correction) = (launch.compute(), var::Scalars::of(launch)?.correction.to());
    dispatch!(dtype in FLOATING, T => variance::run::<T>(launch, Variance { correction, root }))
}
