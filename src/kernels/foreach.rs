//! Operators `_foreach_*`: one pointwise function over each entry of lists of tensors.
//!
//! Operands: the lists one after the other, the output first; in place, the output is the first input. One more operand of one
//! element may follow: a factor in device memory. Scalars: [tensors of a list, whether it is in place, numbers], with one number
//! for all entries, or one for each. The factor multiplies every number.

#![forbid(unsafe_code)]

use super::pointwise::ternary::interpolate;
use crate::tensor::dtype::{Element, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::loops::lines::Values;
use crate::tensor::loops::lists::{self, Kernel, Lists, Step};
use crate::tensor::number::{Field, Number, Ordered};
use crate::tensor::view::View;

/// The description of a launch.
struct Call<'a> {
    launch: &'a Launch<'a>,
    lists: Lists,
    /// The factor of all numbers, in device memory.
    factor: Option<View<'a>>,
    /// Whether there is a number for each entry.
    is_each: bool,
}

/// The position of the first number among the scalars.
const NUMBERS: usize = 2;

/// Whether the number is rounded to a 16 bit dtype before it is used, as PyTorch's CPU does in `add.Scalar`, `sub.Scalar` and
/// `pow.ScalarAndTensor`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    Whole,
    Rounded,
}

impl<'a> Call<'a> {
    /// Describes a launch with `inputs` input lists.
    fn of(launch: &'a Launch<'a>, inputs: usize) -> Result<Self, Error> {
        let tensors = launch.scalar(0)?.to::<i64>() as usize;
        let is_in_place = launch.scalar(1)? == Scalar::Bool(true);
        let lists = Lists { tensors, first_input: !is_in_place as usize, written: 1 };
        let used = (lists.first_input + inputs) * tensors;
        let factor = (launch.num_operands() > used).then(|| launch.view(used));
        Ok(Self { launch, lists, factor, is_each: tensors > 1 && launch.scalars().len() > NUMBERS + 1 })
    }

    /// The number of an entry among the scalars, if there are any.
    fn scalar(&self, entry: usize) -> Option<Scalar> {
        self.launch.scalars().get(NUMBERS + if self.is_each { entry } else { 0 }).copied()
    }

    /// The factor that multiplies every number; 1 if there is none.
    fn factor<E: Element>(&self) -> Result<E::Acc, Error> {
        self.factor.map_or(Ok(E::Acc::ONE), |view| Ok(Values::<E::Acc>::new(view)?.get(0)))
    }

    /// The number of an entry, times the factor; 0 if the launch has no numbers.
    fn number<E: Element>(&self, entry: usize, factor: E::Acc, precision: Precision) -> E::Acc {
        let value = self.scalar(entry).map_or(E::Acc::ZERO, |scalar| scalar.to::<E::Acc>().mul(factor));
        if precision == Precision::Rounded { E::store(value).load() } else { value }
    }
}

/// Runs an elementwise kernel of `INPUTS` inputs over every entry of the lists, with the entry's number as its scalar.
pub fn each<const INPUTS: usize>(launch: &Launch<'_>, kernel: Kernel) -> Result<(), Error> {
    let call = Call::of(launch, INPUTS)?;
    lists::each(launch, call.lists, INPUTS, &|entry| call.scalar(entry), kernel)
}

/// Reduces every tensor of a list. Operands: [results, tensors]; scalars: [tensors of a list, the kernel's].
pub fn reduce(launch: &Launch<'_>, kernel: Kernel) -> Result<(), Error> {
    let tensors = launch.scalar(0)?.to::<i64>() as usize;
    lists::reduce_each(launch, tensors, &launch.scalars()[1..], kernel)
}

/// Nanoseconds of a launch of [`reduce`].
pub fn reduction_cost(launch: &Launch<'_>) -> u64 {
    let elements: usize = (0..launch.num_operands()).map(|index| launch.view(index).numel()).sum();
    (elements as f64 * launch.cost()) as u64
}

/// Kernels that are given by a function of values. Each line makes a [`Step`] generic over the computing type, and the kernel that
/// runs it.
///
/// `kernel, Step, SET, Bound, precision, |[inputs], number| value;`
macro_rules! steps {
    ($($(#[$doc:meta])* $kernel:ident, $step:ident, $set:ident $(| $more:ident)*, $bound:ident, $precision:ident, |[$($x:ident),+], $number:ident| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $step<T>(T);

        impl<T: $bound> Step<T, { [$(stringify!($x)),+].len() }, 1> for $step<T> {
            #[inline(always)]
            fn apply(self, [$($x),+]: [T; { [$(stringify!($x)),+].len() }]) -> [T; 1] {
                let Self($number) = self;
                [$body]
            }
        }

        $crate::kernels::signature::signature! { $kernel(..lists)[tensors, is_in_place, ..numbers] in $set $(| $more)*; }

        $(#[$doc])*
        pub fn $kernel(launch: &Launch<'_>) -> Result<(), Error> {
            const INPUTS: usize = [$(stringify!($x)),+].len();
            let (dtype, call) = (launch.compute(), Call::of(launch, INPUTS)?);
            dispatch!(dtype in $set $(| $more)*, E => {
                let factor = call.factor::<E>()?;
                let step = |entry: usize| $step(call.number::<E>(entry, factor, Precision::$precision));
                lists::run::<E, _, INPUTS, 1>(launch, call.lists, &step)?;
                Ok(())
            })
        }
    )*};
}

steps! {
    /// `aten::_foreach_add.List`: x + alpha * other.
    add_list, AddList, FIELD | INTEGRAL, Number, Whole, |[x, other], alpha| x.add(alpha.mul(other));
    /// `aten::_foreach_add.Scalar`: x + number.
    add_scalar, AddScalar, FIELD | INTEGRAL, Number, Rounded, |[x], number| x.add(number);
    /// `aten::_foreach_addcdiv`: x + number * numerator / denominator.
    addcdiv, Addcdiv, FIELD, Field, Whole, |[x, numerator, denominator], number| x.add(number.mul(numerator).div(denominator));
    /// `aten::_foreach_addcmul`: x + number * lhs * rhs.
    addcmul, Addcmul, FIELD | INTEGRAL | COMPLEX_HALF, Number, Whole, |[x, lhs, rhs], number| x.add(number.mul(lhs).mul(rhs));
    /// `aten::_foreach_div.List`: x / other.
    div_list, DivList, FIELD, Field, Whole, |[x, other], _number| x.div(other);
    /// `aten::_foreach_div.Scalar`: x / number.
    div_scalar, DivScalar, FIELD, Field, Whole, |[x], number| x.div(number);
    /// `aten::_foreach_lerp.List`: from x to end by weight.
    lerp_list, LerpList, FIELD, Field, Whole, |[x, end, weight], _number| interpolate(x, end, weight);
    /// `aten::_foreach_lerp.Scalar`: from x to end by the number.
    lerp_scalar, LerpScalar, FIELD, Field, Whole, |[x, end], weight| interpolate(x, end, weight);
    /// `aten::_foreach_maximum.List`: the greater one.
    maximum_list, MaximumList, ORDERED, Ordered, Whole, |[x, other], _number| x.maximum(other);
    /// `aten::_foreach_minimum.List`: the lesser one.
    minimum_list, MinimumList, ORDERED, Ordered, Whole, |[x, other], _number| x.minimum(other);
    /// `aten::_foreach_mul.List`: x * other.
    mul_list, MulList, FIELD | INTEGRAL, Number, Whole, |[x, other], _number| x.mul(other);
    /// `aten::_foreach_mul.Scalar`: x * number.
    mul_scalar, MulScalar, FIELD | INTEGRAL, Number, Whole, |[x], number| x.mul(number);
    /// `aten::_foreach_neg`: -x.
    neg, Neg, FIELD | INTEGRAL, Number, Whole, |[x], _number| x.neg();
    /// `aten::_foreach_pow.List`: x^exponent.
    pow_list, PowList, FIELD, Field, Whole, |[x, exponent], _number| x.pow(exponent);
    /// `aten::_foreach_pow.ScalarAndTensor`: number^exponent.
    pow_base, PowBase, FIELD, Field, Rounded, |[exponent], number| number.pow(exponent);
    /// `aten::_foreach_reciprocal`: 1 / x.
    reciprocal, Reciprocal, FIELD, Field, Whole, |[x], _number| T::ONE.div(x);
    /// `aten::_foreach_sqrt`: the root of x.
    sqrt, Sqrt, FIELD, Field, Whole, |[x], _number| x.sqrt();
    /// `aten::_foreach_sub.List`: x - alpha * other.
    sub_list, SubList, FIELD | INTEGRAL, Number, Whole, |[x, other], alpha| x.sub(alpha.mul(other));
    /// `aten::_foreach_sub.Scalar`: x - number.
    sub_scalar, SubScalar, FIELD | INTEGRAL, Number, Rounded, |[x], number| x.sub(number);
    /// `aten::_foreach_zero_`: 0.
    zero, Zero, FIELD | INTEGRAL, Number, Whole, |[_x], _number| T::ZERO;
}

#[cfg(test)]
mod tests {
    use crate::kernels::check::{self, Strides, Tensor};
    use crate::simd::for_each_isa;
    use crate::tensor::dtype::{DType, FLOATING};
    use crate::tensor::launch::Scalar;

    const SIZES: [usize; 4] = [3, 0, 64, 200];

    fn list(dtype: DType, seed: usize) -> Vec<Tensor> {
        let tensor = |(entry, &size): (usize, &usize)| {
            Tensor::of(dtype, &check::values(dtype, &[size], 7 * seed + entry), Strides::Contiguous)
        };
        SIZES.iter().enumerate().map(tensor).collect()
    }

    /// Checks a row with `N` inputs, in place and out of place, over its dtypes and all instruction sets. `numbers`: none, one, or
    /// one for each entry; `factor`: the factor in device memory.
    fn check<const N: usize>(name: &str, numbers: &[f64], factor: Option<f64>, oracle: impl Fn([f64; N], f64) -> f64) {
        for (dtype, in_place) in FLOATING.iter().flat_map(|dtype| [(dtype, false), (dtype, true)]) {
            let given: [Vec<Tensor>; N] = std::array::from_fn(|index| list(dtype, index));
            let factor = factor
                .map(|value| Tensor::of(dtype, &check::values(dtype, &[1], 0).mapv(|_| check::real(value)), Strides::Contiguous));
            let mut scalars = vec![Scalar::Long(SIZES.len() as i64), Scalar::Bool(in_place)];
            scalars.extend(numbers.iter().map(|&number| Scalar::Double(number)));
            for_each_isa(|isa| {
                let inputs = given.clone();
                let output = || if in_place { inputs[0].clone() } else { list(dtype, 99) };
                let used: Vec<_> = inputs[in_place as usize..].iter().flatten().chain(&factor).collect();
                let (output, pieces) = (output(), output());
                check::run(name, &output.iter().collect::<Vec<_>>(), &used, &scalars, dtype).unwrap();
                check::run_in_pieces(name, &pieces.iter().collect::<Vec<_>>(), &used, &scalars, dtype, 37).unwrap();
                for (whole, pieces) in output.iter().zip(&pieces) {
                    assert!(whole.has_equal_bytes(pieces), "{name} {dtype:?} {isa:?} {in_place} in pieces");
                }
                for (entry, output) in output.iter().enumerate() {
                    let number = numbers.get(if numbers.len() > 1 { entry } else { 0 }).copied().unwrap_or(0.0);
                    let number = number * factor.as_ref().map_or(1.0, |factor| factor.values()[[0]].re);
                    let values = given.each_ref().map(|list| list[entry].values());
                    for (index, found) in output.values().iter().enumerate() {
                        let before = values.each_ref().map(|values| values[[index]].re);
                        let expected = check::round_trip(dtype, check::real(oracle(before, number)));
                        let close = check::close(*found, expected, 2.0 * check::tolerance(dtype));
                        assert!(
                            close,
                            "{name} {dtype:?} {isa:?} {in_place} [{entry}][{index}]: {found} != {expected} of {before:?}"
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

    #[test]
    fn elementwise_kernels_run_over_lists() {
        check::<1>("_foreach_abs", &[], None, |[x], _| x.abs());
        check::<1>("_foreach_floor", &[], None, |[x], _| x.floor());
        check::<1>("_foreach_pow.Scalar", &[2.0, 1.0, 3.0, -1.0], None, |[x], exponent| x.powf(exponent));
        check::<1>("_foreach_clamp_min.Scalar", &EACH, None, |[x], least| x.max(least));
    }

    #[test]
    fn every_tensor_is_reduced() {
        let sizes = [3, 64, 20_000, 300_000];
        for (order, power) in [(1.0, 1), (2.0, 2)] {
            let inputs =
                sizes.map(|size| Tensor::of(DType::Float, &check::values(DType::Float, &[size], size), Strides::Contiguous));
            let outputs = sizes.map(|_| Tensor::new(DType::Float, &[1], Strides::Contiguous));
            let scalars = [Scalar::Long(sizes.len() as i64), Scalar::Double(order)];
            check::run("_foreach_norm.Scalar", &outputs.each_ref(), &inputs.each_ref(), &scalars, DType::Float).unwrap();
            for (output, input) in outputs.iter().zip(&inputs) {
                let sum: f64 = input.values().iter().map(|value| value.re.abs().powi(power)).sum();
                let (expected, found) = (sum.powf(1.0 / order), output.values()[[0]].re);
                assert!((found - expected).abs() <= 1e-5 * expected, "{order}: {found} != {expected}");
            }
        }
    }
}
