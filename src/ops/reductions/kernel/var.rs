//! `var`, `std`, `var_mean` and `std_mean`. Operands: [out, input] or [out, mean, input]; scalars [correction].

use crate::tensor::loops::reduction::variance::{self, Variance};
use crate::tensor::{Error, Launch, dispatch, signature};

signature! {
    /// `aten::var` and `aten::var_mean`.
    var(out, mean?; input)[correction] in FLOATING => |launch| run(launch, false);
    /// `aten::std` and `aten::std_mean`.
    std(out, mean?; input)[correction] in FLOATING => |launch| run(launch, true);
}

fn run(launch: &Launch<'_>, root: bool) -> Result<(), Error> {
    let (dtype, correction) = (launch.compute(), var::Scalars::of(launch)?.correction.to());
    dispatch!(dtype in FLOATING, T => variance::run::<T>(launch, Variance { correction, root }))
}
