//! Comparisons. The result is Bool; operands are compared in the compute dtype. NaN is unequal to everything.

#![forbid(unsafe_code)]

use crate::kernels::signature::signature;
use crate::tensor::dtype::{Bool, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::elementwise::{Map, run_with_number};
use crate::tensor::number::{Number, Ordered};

signature! {
    eq(out, lhs, rhs)[] in EVERY;
    ne(out, lhs, rhs)[] in EVERY;
    lt(out, lhs, rhs)[] in ORDERED;
    le(out, lhs, rhs)[] in ORDERED;
    gt(out, lhs, rhs)[] in ORDERED;
    ge(out, lhs, rhs)[] in ORDERED;
}

/// lhs == rhs, or lhs != rhs if `NOT`.
#[derive(Clone, Copy)]
struct Equal<const NOT: bool>;

impl<T: Number, const NOT: bool> Map<T, 2> for Equal<NOT> {
    type Output = Bool;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> Bool {
        Bool::from((lhs == rhs) != NOT)
    }
}

/// lhs < rhs, or lhs <= rhs if `OR_EQUAL`; `SWAP` exchanges the operands.
#[derive(Clone, Copy)]
struct Less<const SWAP: bool, const OR_EQUAL: bool>;

impl<T: Ordered, const SWAP: bool, const OR_EQUAL: bool> Map<T, 2> for Less<SWAP, OR_EQUAL> {
    type Output = Bool;

    #[inline(always)]
    fn apply(self, [lhs, rhs]: [T; 2]) -> Bool {
        let (lhs, rhs) = if SWAP { (rhs, lhs) } else { (lhs, rhs) };
        Bool::from(if OR_EQUAL { lhs <= rhs } else { lhs < rhs })
    }
}

/// `aten::eq`: lhs == rhs.
pub fn eq(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in EVERY, T => run_with_number::<T, Bool, _>(launch, Equal::<false>))
}

/// `aten::ne`: lhs != rhs.
pub fn ne(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in EVERY, T => run_with_number::<T, Bool, _>(launch, Equal::<true>))
}

/// `aten::lt`: lhs < rhs.
pub fn lt(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<false, false>))
}

/// `aten::le`: lhs <= rhs.
pub fn le(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<false, true>))
}

/// `aten::gt`: lhs > rhs.
pub fn gt(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<true, false>))
}

/// `aten::ge`: lhs >= rhs.
pub fn ge(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in ORDERED, T => run_with_number::<T, Bool, _>(launch, Less::<true, true>))
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor, real};
    use crate::tensor::dtype::DType;

    fn truth(value: bool) -> num_complex::Complex<f64> {
        real(f64::from(u8::from(value)))
    }

    #[test]
    fn comparisons_give_bool() {
        check::pointwise::<2>("eq", &[], |_| DType::Bool, |[lhs, rhs]| truth(lhs == rhs));
        check::pointwise::<2>("ne", &[], |_| DType::Bool, |[lhs, rhs]| truth(lhs != rhs));
        check::pointwise::<2>("lt", &[], |_| DType::Bool, |[lhs, rhs]| truth(lhs.re < rhs.re));
        check::pointwise::<2>("le", &[], |_| DType::Bool, |[lhs, rhs]| truth(lhs.re <= rhs.re));
        check::pointwise::<2>("gt", &[], |_| DType::Bool, |[lhs, rhs]| truth(lhs.re > rhs.re));
        check::pointwise::<2>("ge", &[], |_| DType::Bool, |[lhs, rhs]| truth(lhs.re >= rhs.re));
    }

    fn compare(name: &str, dtype: DType, value: f64, number: f64) -> bool {
        let tensor = Tensor::of(dtype, &ndarray::arr1(&[real(value); 2]).into_dyn(), Strides::Contiguous);
        let output = Tensor::new(DType::Bool, &[2], Strides::Contiguous);
        check::run(name, &[&output], &[&tensor, &Tensor::immediate(DType::Double, real(number))], &[], dtype).unwrap();
        output.values()[[1]].re != 0.0
    }

    #[test]
    fn python_numbers_are_rounded_to_what_they_are_compared_with() {
        assert!(compare("eq", DType::Half, 0.1, 0.1) && compare("eq", DType::BFloat16, 0.1, 0.1));
        assert!(compare("eq", DType::Float, 0.1, 0.1));
    }

    #[test]
    fn nan_is_unequal_and_unordered() {
        for name in ["eq", "lt", "le", "gt", "ge"] {
            assert!(!compare(name, DType::Float, f64::NAN, 1.0) && !compare(name, DType::Half, f64::NAN, f64::NAN), "{name}");
        }
        assert!(compare("ne", DType::Double, f64::NAN, f64::NAN));
    }
}
