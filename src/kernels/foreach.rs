//! The operators `_foreach_*`: one function of values over the tensors at every place of lists.
//!
//! Operands: the lists one after the other, the output first; in place, the output is the first input. After the lists there may be
//! one more operand of one element, a number that the device knows. Scalars: [tensors of a list, whether it is in place, numbers],
//! where the numbers are one for all places, or one for each. With both, the number at a place is their product.

#![forbid(unsafe_code)]

use super::pointwise::ternary::interpolate;
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::loops::lines::Values;
use crate::tensor::loops::lists::{self, Lists, Step};
use crate::tensor::number::{Number, Real};

/// What the launches have in common.
struct Call<'a> {
    launch: &'a Launch<'a>,
    lists: Lists,
    /// The number that the device knows, or 1.
    factor: f64,
    /// Whether there is a number for each place.
    is_each: bool,
}

/// The first number among the scalars.
const NUMBERS: usize = 2;

/// How a number meets 16 bit values: PyTorch's CPU rounds the operands of sums and differences to their dtype first, no others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    Whole,
    Rounded,
}

impl<'a> Call<'a> {
    /// A launch with so many inputs.
    fn of(launch: &'a Launch<'a>, inputs: usize) -> Result<Self, String> {
        let tensors = launch.scalar(0)?.to::<i64>() as usize;
        let is_in_place = launch.scalar(1)? == Scalar::Bool(true);
        let lists = Lists { tensors, first_input: !is_in_place as usize, written: 1 };
        let used = (lists.first_input + inputs) * tensors;
        let factor = if launch.num_operands() > used { Values::<f64>::new(launch.view(used))?.get(0) } else { 1.0 };
        Ok(Self { launch, lists, factor, is_each: tensors > 1 && launch.scalar(NUMBERS + 1).is_ok() })
    }

    /// The number at a place; 0 where the launch has none.
    fn number<E: Element>(&self, place: usize, precision: Precision) -> E::Acc {
        let index = NUMBERS + if self.is_each { place } else { 0 };
        let value = E::Acc::from_f64(self.launch.scalar_or(index, Scalar::Double(0.0)).to::<f64>() * self.factor);
        if precision == Precision::Rounded { E::store(value).load() } else { value }
    }
}

/// Kernels that are given by a function of values: for each, a [`Step`] generic over the computing type, and the kernel that runs
/// it.
///
/// `kernel, Step, precision, |[inputs], number| value;`
macro_rules! steps {
    ($($(#[$doc:meta])* $kernel:ident, $step:ident, $precision:ident, |[$($x:ident),+], $number:ident| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $step<T>(T);

        impl<T: Real> Step<T, { [$(stringify!($x)),+].len() }, 1> for $step<T> {
            #[inline(always)]
            fn apply(self, [$($x),+]: [T; { [$(stringify!($x)),+].len() }]) -> [T; 1] {
                let Self($number) = self;
                [$body]
            }
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// The wrong operands.
        pub fn $kernel(launch: &Launch<'_>) -> Result<(), String> {
            const INPUTS: usize = [$(stringify!($x)),+].len();
            let (dtype, call) = (launch.compute(), Call::of(launch, INPUTS)?);
            dispatch!(dtype in FLOATING, E => {
                let step = |place: usize| $step(call.number::<E>(place, Precision::$precision));
                lists::run::<E, _, INPUTS, 1>(launch, call.lists, &step)?;
                Ok(())
            })
        }
    )*};
}

steps! {
    /// `aten::_foreach_add.List`: x + alpha * other.
    add_list, AddList, Whole, |[x, other], alpha| x.add(alpha.mul(other));
    /// `aten::_foreach_add.Scalar`: x + number.
    add_scalar, AddScalar, Rounded, |[x], number| x.add(number);
    /// `aten::_foreach_addcdiv`: x + number * numerator / denominator.
    addcdiv, Addcdiv, Whole, |[x, numerator, denominator], number| x.add(number.mul(numerator).div(denominator));
    /// `aten::_foreach_addcmul`: x + number * lhs * rhs.
    addcmul, Addcmul, Whole, |[x, lhs, rhs], number| x.add(number.mul(lhs).mul(rhs));
    /// `aten::_foreach_div.List`: x / other.
    div_list, DivList, Whole, |[x, other], _number| x.div(other);
    /// `aten::_foreach_div.Scalar`: x / number.
    div_scalar, DivScalar, Whole, |[x], number| x.div(number);
    /// `aten::_foreach_lerp.List`: from x to end by weight.
    lerp_list, LerpList, Whole, |[x, end, weight], _number| interpolate(x, end, weight);
    /// `aten::_foreach_lerp.Scalar`: from x to end by the number.
    lerp_scalar, LerpScalar, Whole, |[x, end], weight| interpolate(x, end, weight);
    /// `aten::_foreach_maximum.List`: the greater one.
    maximum_list, MaximumList, Whole, |[x, other], _number| x.maximum(other);
    /// `aten::_foreach_minimum.List`: the lesser one.
    minimum_list, MinimumList, Whole, |[x, other], _number| x.minimum(other);
    /// `aten::_foreach_mul.List`: x * other.
    mul_list, MulList, Whole, |[x, other], _number| x.mul(other);
    /// `aten::_foreach_mul.Scalar`: x * number.
    mul_scalar, MulScalar, Whole, |[x], number| x.mul(number);
    /// `aten::_foreach_neg`: -x.
    neg, Neg, Whole, |[x], _number| x.neg();
    /// `aten::_foreach_reciprocal`: 1 / x.
    reciprocal, Reciprocal, Whole, |[x], _number| T::ONE.div(x);
    /// `aten::_foreach_sqrt`: the root of x.
    sqrt, Sqrt, Whole, |[x], _number| x.sqrt();
    /// `aten::_foreach_sub.List`: x - alpha * other.
    sub_list, SubList, Whole, |[x, other], alpha| x.sub(alpha.mul(other));
    /// `aten::_foreach_sub.Scalar`: x - number.
    sub_scalar, SubScalar, Rounded, |[x], number| x.sub(number);
    /// `aten::_foreach_zero_`: 0.
    zero, Zero, Whole, |[_x], _number| T::ZERO;
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor};
    use crate::simd::for_each_isa;
    use crate::tensor::dtype::{DType, FLOATING};
    use crate::tensor::launch::Scalar;

    const SIZES: [usize; 4] = [3, 0, 64, 200];

    fn list(dtype: DType, seed: usize) -> Vec<Tensor> {
        let tensor = |(place, &size): (usize, &usize)| {
            Tensor::of(dtype, &check::values(dtype, &[size], 7 * seed + place), Strides::Contiguous)
        };
        SIZES.iter().enumerate().map(tensor).collect()
    }

    /// Checks a row with `N` inputs, in place and not, over its dtypes and all instruction sets. `numbers`: none, one, or one for
    /// each place; `factor`: what the device knows.
    fn check<const N: usize>(name: &str, numbers: &[f64], factor: Option<f64>, oracle: impl Fn([f64; N], f64) -> f64) {
        for (dtype, in_place) in FLOATING.iter().flat_map(|dtype| [(dtype, false), (dtype, true)]) {
            let given: [Vec<Tensor>; N] = std::array::from_fn(|index| list(dtype, index));
            let factor = factor
                .map(|value| Tensor::of(dtype, &check::values(dtype, &[1], 0).mapv(|_| check::real(value)), Strides::Contiguous));
            let mut scalars = vec![Scalar::Long(SIZES.len() as i64), Scalar::Bool(in_place)];
            scalars.extend(numbers.iter().map(|&number| Scalar::Double(number)));
            for_each_isa(|isa| {
                let inputs = given.clone();
                let output = if in_place { inputs[0].clone() } else { list(dtype, 99) };
                let used = inputs[in_place as usize..].iter().flatten().chain(&factor);
                check::run(name, &output.iter().collect::<Vec<_>>(), &used.collect::<Vec<_>>(), &scalars, dtype).unwrap();
                for (place, output) in output.iter().enumerate() {
                    let number = numbers.get(if numbers.len() > 1 { place } else { 0 }).copied().unwrap_or(0.0);
                    let number = number * factor.as_ref().map_or(1.0, |factor| factor.values()[[0]].re);
                    let values = given.each_ref().map(|list| list[place].values());
                    for (index, found) in output.values().iter().enumerate() {
                        let before = values.each_ref().map(|values| values[[index]].re);
                        let expected = check::round_trip(dtype, check::real(oracle(before, number)));
                        let close = check::close(*found, expected, 2.0 * check::tolerance(dtype));
                        assert!(
                            close,
                            "{name} {dtype:?} {isa:?} {in_place} [{place}][{index}]: {found} != {expected} of {before:?}"
                        );
                    }
                }
            });
        }
    }

    const EACH: [f64; SIZES.len()] = [0.5, 2.0, -1.0, 4.0];

    #[test]
    fn lists_meet_lists() {
        check::<2>("_foreach_add.List", &[0.5], None, |[x, other], alpha| x + alpha * other);
        check::<2>("_foreach_sub.List", &[0.5], None, |[x, other], alpha| x - alpha * other);
        check::<2>("_foreach_mul.List", &[], None, |[x, other], _| x * other);
        check::<2>("_foreach_div.List", &[], None, |[x, other], _| x / other);
        check::<2>("_foreach_maximum.List", &[], None, |[x, other], _| x.max(other));
        check::<2>("_foreach_minimum.List", &[], None, |[x, other], _| x.min(other));
        check::<3>("_foreach_lerp.List", &[], None, |[x, end, weight], _| x + weight * (end - x));
    }

    #[test]
    fn lists_meet_numbers() {
        for numbers in [&EACH[..1], &EACH[..]] {
            check::<1>("_foreach_add.Scalar", numbers, None, |[x], number| x + number);
            check::<1>("_foreach_sub.Scalar", numbers, None, |[x], number| x - number);
            check::<1>("_foreach_mul.Scalar", numbers, None, |[x], number| x * number);
            check::<1>("_foreach_div.Scalar", numbers, None, |[x], number| x / number);
            check::<2>("_foreach_lerp.Scalar", numbers, None, |[x, end], weight| x + weight * (end - x));
            check::<3>("_foreach_addcmul.Scalar", numbers, None, |[x, lhs, rhs], number| x + number * lhs * rhs);
            check::<3>("_foreach_addcdiv.Scalar", numbers, None, |[x, lhs, rhs], number| x + number * lhs / rhs);
        }
    }

    #[test]
    fn the_device_may_know_the_number() {
        check::<1>("_foreach_mul.Scalar", &[1.0], Some(0.25), |[x], number| x * number);
        check::<1>("_foreach_add.Scalar", &[2.0], Some(0.25), |[x], number| x + number);
    }

    #[test]
    fn lists_alone() {
        check::<1>("_foreach_neg", &[], None, |[x], _| -x);
        check::<1>("_foreach_sqrt", &[], None, |[x], _| x.sqrt());
        check::<1>("_foreach_reciprocal", &[], None, |[x], _| 1.0 / x);
        check::<1>("_foreach_zero_", &[], None, |_, _| 0.0);
    }
}
