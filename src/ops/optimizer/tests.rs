//! A list that holds a tensor twice.

use crate::ops::check::{Make, doubles, longs, run};
use crate::tensor::{DType, Scalar};

#[test]
fn a_parameter_that_comes_twice_is_stepped_twice() {
    let parameter = Make::plain(DType::Float).input(&[100_000], 5);
    let grad = Make::plain(DType::Float).number(&[100_000], 1.0);
    let flags = || vec![Scalar::Bool(false); 3];
    let scalars = [longs(&[2]), flags(), doubles(&[0.0, 0.0, 0.5, 0.0]), flags()].concat();
    let before = parameter.values();
    run("_fused_sgd_", &[&parameter, &parameter, &grad, &grad], &[], &scalars, DType::Float).unwrap();
    assert_eq!(parameter.values(), before.mapv(|value| value - 1.0));
}
