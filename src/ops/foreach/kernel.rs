//! Operators `_foreach_*`: one pointwise function over each entry of lists of tensors.
//!
//! Operands: the lists one after the other, the output first; in place, the output is the first input. One more operand of one
//! element may follow: a factor in device memory. Scalars: [tensors of a list, whether it is in place, numbers], with one number
//! for all entries, or one for each. The factor multiplies every number.

use crate::ops::pointwise::kernel::ternary::interpolate;
use crate::tensor::loops::lines::Values;
use crate::tensor::loops::lists::{Kernel, Lists, Step};
use crate::tensor::{Element, Error, Field, Launch, Number, Operand, Ordered, Scalar, View, loops, signature};

/// The description of a launch.
struct Call<'a> {
    lists: Lists,
    /// The factor of all numbers, in device memory.
    factor: Option<View<'a>>,
    /// One number for all entries, one for each, or none.
    numbers: &'a [Scalar],
}

signature! {
    /// The signature of every list operator but a reduction.
    lists(..lists)[tensors, is_in_place, ..numbers] in EVERY;
    reduce(..lists)[tensors, ..more] in EVERY;
}

/// True if the number is rounded to a 16 bit dtype before it is used, as PyTorch's CPU does in `add.Scalar`, `sub.Scalar` and
/// `pow.ScalarAndTensor`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    Whole,
    Rounded,
}

impl<'a> Call<'a> {
    /// Describes a launch with `inputs` input lists.
    fn of(launch: &Launch<'a>, inputs: usize) -> Result<Self, Error> {
        let scalars = lists::Scalars::of(launch)?;
        let (tensors, numbers) = (scalars.tensors.to::<i64>() as usize, &launch.scalars()[scalars.list().len()..]);
        let lists = Lists { tensors, first_input: usize::from(!scalars.is_in_place.is_true()), written: 1 };
        let factor = Operand::of(launch, (lists.first_input + inputs) * tensors)?;
        Ok(Self { lists, factor, numbers })
    }

    /// The number of an entry among the scalars, if there are any.
    fn scalar(&self, entry: usize) -> Option<Scalar> {
        let is_each = self.lists.tensors > 1 && self.numbers.len() > 1;
        self.numbers.get(if is_each { entry } else { 0 }).copied()
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
    loops::lists::each(launch, call.lists, INPUTS, &|entry| call.scalar(entry), kernel)
}

/// Reduces every tensor of a list. Operands: [results, tensors]; scalars: [tensors of a list, the kernel's].
pub fn reduce(launch: &Launch<'_>, kernel: Kernel) -> Result<(), Error> {
    let tensors = reduce::Scalars::of(launch)?.tensors.to::<i64>() as usize;
    loops::lists::reduce_each(launch, tensors, &launch.scalars()[1..], kernel)
}

/// Nanoseconds of a launch of [`reduce`].
pub fn reduction_cost(launch: &Launch<'_>) -> u64 {
    let elements: usize = (0..launch.num_operands()).map(|index| launch.numel(index)).sum();
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

        signature! {
            $(#[$doc])*
            $kernel(..lists)[tensors, is_in_place, ..numbers] in $set $(| $more)* => |launch, E| {
                const INPUTS: usize = [$(stringify!($x)),+].len();
                let call = Call::of(launch, INPUTS)?;
                let factor = call.factor::<E>()?;
                let step = |entry: usize| $step(call.number::<E>(entry, factor, Precision::$precision));
                loops::lists::run::<E, _, INPUTS, 1>(launch, call.lists, &step).map(|_| ())
            };
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
