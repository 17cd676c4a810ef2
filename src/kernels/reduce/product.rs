//! Products. Operands: [out, input].

#![forbid(unsafe_code)]

use crate::tensor::dtype::dispatch;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduce::fold::{self, Fold};
use crate::tensor::number::Number;

#[derive(Clone, Copy)]
struct Prod;

impl<V: Number> Fold<V> for Prod {
    type State = V;
    type Output = V;

    #[inline(always)]
    fn start(self, _: V) -> V {
        V::ONE
    }

    #[inline(always)]
    fn lift(self, value: V) -> V {
        value
    }

    #[inline(always)]
    fn merge(self, left: V, right: V) -> V {
        left.mul(right)
    }

    #[inline(always)]
    fn finish(self, product: V, _: usize) -> V {
        product
    }
}

/// `aten::prod`. Integers wrap; Bool: whether all are true.
///
/// # Errors
/// A dtype outside the table's.
pub fn prod(launch: &Launch<'_>) -> Result<(), String> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => fold::run::<T, T, _>(launch, Prod))
}
