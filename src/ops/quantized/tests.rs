//! Products with quantised weights, over operands that do not fit.

use crate::ops::check::{Strides, Tensor, longs, run};
use crate::tensor::DType;

#[test]
fn operands_of_other_sizes_are_refused() {
    let tensor = |dtype: DType, sizes: &[usize]| Tensor::new(dtype, sizes, Strides::Contiguous);
    let (out, x, scales) = (tensor(DType::Float, &[2, 32]), tensor(DType::Float, &[2, 64]), tensor(DType::Float, &[32]));
    let int8 = |weights: &Tensor| run("_weight_int8pack_mm", &[&out], &[&x, weights, &scales], &[], DType::Float);
    assert!(int8(&tensor(DType::Char, &[32, 64])).is_ok());
    assert!(int8(&tensor(DType::Char, &[32, 63])).is_err() && int8(&tensor(DType::Short, &[32, 64])).is_err());
    let int4 = |parameters: &[usize], group: i64| {
        let operands = [&x, &tensor(DType::Byte, &[32, 32]), &tensor(DType::Float, parameters)];
        run("_weight_int4pack_mm_for_cpu", &[&out], &operands, &longs(&[group]), DType::Float)
    };
    assert!(int4(&[2, 32, 2], 32).is_ok() && int4(&[1, 32, 2], 32).is_err() && int4(&[2, 32, 2], 48).is_err());
    assert!(int4(&[2, 32, 2], 0).is_err());
}
