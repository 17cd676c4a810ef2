//! `prod`. Operands: [out, input].

#![forbid(unsafe_code)]

use half::{bf16, f16};

use crate::kernels::signature::signature;
use crate::tensor::dtype::{DType, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduction::fold::{self, Fold};
use crate::tensor::number::{Hub, Number};

signature! {
    prod(out, input)[] in REAL | BOOL | FIELD;
}

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

/// The product of numbers with few digits in double precision, which has room for what leaves their range on the way.
#[derive(Clone, Copy)]
struct WideProd;

impl Fold<f32> for WideProd {
    type State = f64;
    type Output = f32;

    #[inline(always)]
    fn start(self, _: f32) -> f64 {
        1.0
    }

    #[inline(always)]
    fn lift(self, value: f32) -> f64 {
        value.into()
    }

    #[inline(always)]
    fn merge(self, left: f64, right: f64) -> f64 {
        left * right
    }

    #[inline(always)]
    fn finish(self, product: f64, _: usize) -> f32 {
        product.to()
    }
}

/// `aten::prod`. Integers wrap; Bool: whether all are true.
///
/// # Errors
/// A dtype outside the table's.
pub fn prod(launch: &Launch<'_>) -> Result<(), Error> {
    match launch.compute() {
        DType::Half => fold::run::<f16, f16, _>(launch, WideProd),
        DType::BFloat16 => fold::run::<bf16, bf16, _>(launch, WideProd),
        dtype => dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => fold::run::<T, T, _>(launch, Prod)),
    }
}
