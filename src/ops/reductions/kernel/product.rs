//! `prod`. Operands: [out, input].

#![forbid(unsafe_code)]

use half::{bf16, f16};

use crate::tensor::loops::reduction::fold::{self, fold};
use crate::tensor::{DType, Hub, Number, dispatch, signature};

signature! {
    /// `aten::prod`. Integers wrap; Bool: whether all are true.
    prod(out; input)[] in REAL | BOOL | FIELD => |launch| {
        match launch.compute() {
            DType::Half => fold::run::<f16, f16, _>(launch, WideProd),
            DType::BFloat16 => fold::run::<bf16, bf16, _>(launch, WideProd),
            dtype => dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => fold::run::<T, T, _>(launch, Prod)),
        }
    };
}

fold! {
    /// The product.
    Prod: [V: Number] V => V => V,
    V::ONE, |value| value, |left, right| left.mul(right), |product, _| product;

    /// The product of `f32` and 16 bit floats in double precision, whose range holds intermediate products.
    WideProd: [] f32 => f64 => f32,
    1.0, |value| value.into(), |left, right| left * right, |product, _| product.to();
}
