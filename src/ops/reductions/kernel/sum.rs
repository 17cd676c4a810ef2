//! `sum`, `nansum`, `mean` and `prod`. Operands: [out, input].

use half::{bf16, f16};

use crate::tensor::loops::reduction::fold::{self, fold};
use crate::tensor::{DType, Field, Hub, Number, Ordered, dispatch, signature};

signature! {
    /// `aten::sum`. Integers wrap; Bool: whether any is true.
    sum(out; input)[] in REAL | BOOL | FIELD => |launch| {
        let (dtype, source) = (launch.compute(), launch.dtype(1));
        if dtype == DType::Long && matches!(source, DType::Bool | DType::Byte | DType::Char | DType::Short | DType::Int) {
            return dispatch!(source in INTEGRAL | BOOL, T => fold::run::<T, i64, _>(launch, LongSum));
        }
        dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX, T => fold::run::<T, T, _>(launch, Sum))
    };
    /// `aten::nansum`: the sum of values that are not NaN.
    nansum(out; input)[] in FLOATING => |launch, T| fold::run::<T, T, _>(launch, NanSum);
    mean(out; input)[] in FIELD => |launch, T| fold::run::<T, T, _>(launch, Mean);
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
    Sum: [V: Number] V => V => V,
    V::ZERO, |value| value, |left, right| left.add(right), |sum, _| sum;

    /// The sum of integers as `i64`.
    LongSum: [V: Number] V => i64 => i64,
    0, |value| value.hub().to(), |left, right| left.wrapping_add(right), |sum, _| sum;

    /// The sum of values that are not NaN.
    NanSum: [V: Ordered] V => V => V,
    V::ZERO, |value| if value.is_nan() { V::ZERO } else { value }, |left, right| left.add(right), |sum, _| sum;

    /// The sum, divided by the number of values.
    Mean: [V: Field] V => V => V,
    V::ZERO, |value| value, |left, right| left.add(right), |sum, count| sum.div(V::from_i64(count as i64));

    Prod: [V: Number] V => V => V,
    V::ONE, |value| value, |left, right| left.mul(right), |product, _| product;

    /// The product of `f32` and 16 bit floats in double precision, whose range holds intermediate products.
    WideProd: [] f32 => f64 => f32,
    1.0, |value| value.into(), |left, right| left * right, |product, _| product.to();
}
