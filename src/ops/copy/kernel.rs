//! Copies, casts and fills.

use crate::tensor::loops::copy_fill;
use crate::tensor::{Error, Launch, signature};

signature! {
    /// `aten::copy_`: out = input, cast to out's dtype. Operands [out, input], of any two dtypes; the conjugate and negative flags
    /// of both are honoured, immediate and host operands allowed.
    copy_(out; input)[] in ANY => |launch| check(launch, 2).and_then(|()| copy_fill::copy(launch));
    /// `aten::fill_`: out = value everywhere, cast to out's dtype. Operands [out, value]; the value is an immediate or a 0-dim
    /// tensor broadcast to out's sizes.
    fill_(out; value)[] in EVERY => |launch| check(launch, 2).and_then(|()| copy_fill::fill(launch));
    /// `aten::zero_`: out = 0 everywhere.
    zero_(out)[] in ANY => |launch| check(launch, 1).map(|()| copy_fill::zero(launch));
}

fn check(launch: &Launch<'_>, operands: usize) -> Result<(), Error> {
    match launch.num_operands() {
        found if found == operands => Ok(()),
        found => Err(Error::new(format!("{found} operands where {operands} are needed"))),
    }
}
