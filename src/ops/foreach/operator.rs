//! Operators `_foreach_*`: one launch for lists of similar tensors, else PyTorch's composite implementation, tensor by tensor.

use std::slice;

use smallvec::{SmallVec, smallvec};

use crate::call::dtypes::{is_floating, is_integer, limits};
use crate::call::operator::{Kernel, Operator, any_device, c, operators, plain};
use crate::call::tensor_lists::{self, List, Lists};
use crate::call::{Arguments, Call, CallError, Format, Outcome, Strides, Tensor, Value, typed};
use crate::tensor::{DType, Op, Scalar};

operators! {
    c"_foreach_copy_": any_device(plain(typed!(copy))) => c"_foreach_copy_";
    c"_foreach_max": any_device(plain(typed!(max))) => c"_foreach_max";
    c"_foreach_norm.Scalar": any_device(plain(typed!(norm))) => c"_foreach_norm.Scalar";
    c"_foreach_pow.ScalarAndTensor": any_device(plain(typed!(powers))) => c"_foreach_pow.ScalarAndTensor";
    c"_foreach_zero_": any_device(plain(elementwise)) => c"_foreach_zero_";
}

/// The arguments of a call: lists, numbers, and a one-element tensor that serves as a number.
#[derive(Default)]
struct Operands<'a> {
    lists: Lists<'a>,
    numbers: &'a [Scalar],
    /// True if there is a number for each tensor of a list.
    is_each: bool,
    factor: Option<Tensor<'a>>,
}

impl<'a> Operands<'a> {
    fn of_lists(lists: &[List<'a>]) -> Self {
        Self { lists: lists.into(), ..Self::default() }
    }

    fn new(arguments: &Arguments<'a>, call: &Call<'a>) -> Self {
        let mut operands = Self::default();
        for argument in arguments.iter() {
            match *argument {
                Value::Tensors(list) => operands.lists.push(list),
                Value::Scalars(numbers) => (operands.numbers, operands.is_each) = (numbers, true),
                Value::Tensor(factor) => operands.factor = Some(factor),
                _ => {}
            }
            if let Some(number) = argument.as_number() {
                operands.numbers = slice::from_ref(call.arena().keep(number));
            }
        }
        operands
    }

    /// True if one launch can serve the call; `in_place`: it writes to the first list.
    fn fit(&self, call: &Call<'_>, in_place: bool) -> bool {
        let count = self.lists[0].len();
        let Some(dtype) = self.lists[0].first().map(|first| first.dtype()) else { return false };
        let have_one_length = self.lists.iter().all(|list| list.len() == count) && (!self.is_each || self.numbers.len() == count);
        call.takes(dtype)
            && have_one_length
            && self.numbers.iter().all(|&number| is_number_of(dtype, number))
            && tensor_lists::have_one_dtype(&self.lists)
            && tensor_lists::are_alike(&self.lists)
            && self.factor.is_none_or(|factor| is_factor_of(self.lists[0], factor))
            && !(in_place && tensor_lists::overlap_in_part(&self.lists, 1))
    }

    /// Launches over the lists. The results are written to `out` or, without it, to the first list.
    fn launch(&self, call: &Call<'_>, out: Option<List<'_>>) -> Outcome {
        for part in tensor_lists::parts(self.lists[0].len()) {
            let mut lists: Lists<'_> = out.into_iter().chain(self.lists.iter().copied()).map(|list| &list[part.clone()]).collect();
            lists.extend(self.factor.as_ref().map(slice::from_ref));
            let mut scalars: SmallVec<[Scalar; 8]> = smallvec![(part.len() as i64).into(), out.is_none().into()];
            match self.numbers {
                [] if self.factor.is_some() => scalars.push(Scalar::Double(1.0)),
                numbers => scalars.extend_from_slice(if self.is_each { &numbers[part] } else { numbers }),
            }
            call.launch_lists(self.lists[0][0].dtype(), 1, &lists, &scalars)?;
        }
        Ok(())
    }

    fn run(&self, call: &Call<'_>) -> Outcome {
        let (first, in_place) = (self.lists[0], call.is_void());
        if !self.fit(call, in_place) {
            return Err(CallError::Composite);
        }
        if in_place {
            call.bump_versions(first)?;
            return self.launch(call, None);
        }
        let out = call.arena().try_keep_all(first.len(), |place| call.output_like(place, first[place]))?;
        self.launch(call, Some(out))
    }
}

/// True if results with this number keep their dtype and can represent it; for floating-point dtypes the limits are those of
/// Half. Of numbers beyond, some PyTorch operators cast and others refuse.
fn is_number_of(dtype: DType, number: Scalar) -> bool {
    let is_floating = is_floating(dtype);
    match number {
        Scalar::Bool(_) | Scalar::Cell(_) => false,
        _ if dtype.is_complex() => true,
        Scalar::Long(value) if is_floating => value.unsigned_abs() <= if dtype.size() == 1 { 127 } else { 32767 },
        Scalar::Long(value) => {
            is_integer(dtype) && limits(dtype).is_some_and(|[least, greatest]| (least..=greatest).contains(&value))
        }
        // The greatest finite Half.
        Scalar::Double(value) => is_floating && (value.is_nan() || value.abs() <= 65504.0),
        Scalar::Complex(..) => false,
    }
}

/// True if a tensor is a valid factor for all tensors of a list: it may not be one of the results, which would change it
/// between tensors.
fn is_factor_of(list: List<'_>, factor: Tensor<'_>) -> bool {
    let is_like = |tensor: Tensor<'_>| (factor.device(), factor.dtype()) == (tensor.device(), tensor.dtype());
    let is_plain = factor.ndim() == 0 && factor.flags().0 == 0;
    is_plain && is_like(list[0]) && !list.iter().any(|tensor| tensor.may_share_memory(factor))
}

pub fn elementwise(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    Operands::new(arguments, call).run(call)
}

/// An elementwise operator; a CPU tensor holds the numbers, one for each tensor of a list.
pub fn packed(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (input, lhs, rhs, numbers): (List<'_>, _, _, _) = arguments.typed()?;
    let lists = [input, lhs, rhs];
    let numbers = call.numbers(numbers, input.len())?;
    Operands { numbers, is_each: true, ..Operands::of_lists(&lists) }.run(call)
}

/// `_foreach_pow.ScalarAndTensor`. The results are contiguous, whatever the strides of the exponents.
pub fn powers(call: &Call<'_>, base: Scalar, exponents: &[Tensor<'_>]) -> Outcome {
    let base = [base];
    if exponents.iter().any(|exponent| exponent.device() < 0) {
        return Err(CallError::Composite);
    }
    let dense = call.arena().try_keep_all(exponents.len(), |place| call.dense(exponents[place], Format::Contiguous))?;
    Operands { numbers: &base, ..Operands::of_lists(&[dense]) }.run(call)
}

/// `_foreach_copy_`. The dtypes of the two lists may differ.
pub fn copy(call: &Call<'_>, target: &[Tensor<'_>], source: &[Tensor<'_>], _non_blocking: Value<'_>) -> Outcome {
    let lists = [target, source];
    let [target, source] = lists;
    let fit = target.len() == source.len() && tensor_lists::are_alike(&lists) && !tensor_lists::overlap_in_part(&lists, 1);
    if !fit {
        return Err(CallError::Composite);
    }
    call.bump_versions(target)?;
    Operands::of_lists(&[source]).launch(call, Some(target))
}

/// Reduces every tensor of a list to one element, by a reduction with an optional number.
fn reduce(call: &Call<'_>, input: List<'_>, dtype: DType, number: Option<Scalar>) -> Outcome {
    let is_empty = |tensor: &Tensor<'_>| tensor.numel() == 0;
    if !Operands::of_lists(&[input]).fit(call, false) || input.iter().any(is_empty) {
        return Err(CallError::Composite);
    }
    let out = call.arena().try_keep_all(input.len(), |place| call.contiguous(place, &[], dtype, Strides::Any))?;
    for part in tensor_lists::parts(input.len()) {
        let scalars: SmallVec<[Scalar; 2]> = [Scalar::Long(part.len() as i64)].into_iter().chain(number).collect();
        call.launch_lists(input[0].dtype(), 1, &[&out[part.clone()], &input[part]], &scalars)?;
    }
    Ok(())
}

pub fn max(call: &Call<'_>, input: &[Tensor<'_>]) -> Outcome {
    let first = input.first().ok_or(CallError::Composite)?;
    reduce(call, input, first.dtype(), None)
}

/// `_foreach_norm`. PyTorch's composite implementation serves calls that it refuses or that need several passes.
pub fn norm(call: &Call<'_>, input: &[Tensor<'_>], order: Scalar, dtype: Option<i64>) -> Outcome {
    let own = input.first().ok_or(CallError::Composite)?.dtype();
    if dtype.is_some_and(|dtype| dtype != own as i64) || matches!(order, Scalar::Complex(..)) {
        return Err(CallError::Composite);
    }
    reduce(call, input, own.real(), Some(Scalar::Double(order.to())))
}

/// The ATen name of an operator.
macro_rules! name {
    ($($part:expr),+) => {
        c(concat!("_foreach_", $($part,)+ "\0"))
    };
}

macro_rules! first {
    ($first:ident $($other:ident)?) => {
        stringify!($first)
    };
}

/// Lines of operators: function, overload, overload of the kernel, names. An operator's name may be followed by that of its kernel.
macro_rules! elementwise {
    ($($run:ident $overload:literal $kernel_overload:literal => $($name:ident $(= $kernel:ident)?)+;)*) => {
        /// Operators with a functional variant and an in-place one.
        pub static ELEMENTWISE: [Operator; [$($(stringify!($name)),+),*].len()] = [$($(
            Operator {
                names: &[name!(stringify!($name), $overload), name!(stringify!($name), "_", $overload)],
                kernel: Kernel::Row(Op::named(name!(first!($($kernel)? $name), $kernel_overload))),
                prepare: any_device(plain($run)),
            },
        )+)*];
    };
}

// A kernel does not distinguish whether numbers come as a number, as a list or as a tensor.
elementwise! {
    elementwise "" "" => abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round
        rsqrt sigmoid sign sin sinh sqrt tan tanh trunc;
    elementwise ".List" ".List" => add clamp_max = minimum clamp_min = maximum div lerp maximum minimum mul pow sub;
    elementwise ".Scalar" ".Scalar" => add addcdiv addcmul clamp_max clamp_min div lerp maximum = clamp_min minimum = clamp_max mul pow
        sub;
    elementwise ".ScalarList" ".Scalar" => add addcdiv addcmul clamp_max clamp_min div lerp maximum = clamp_min minimum = clamp_max mul
        pow sub;
    elementwise ".Tensor" ".Scalar" => add div mul;
    packed ".Tensor" ".Scalar" => addcdiv addcmul;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_none_of_the_results() {
        let list = [Tensor::leaked(1, DType::Float, 0, &[3], &[1])];
        let beside = list[0].section(0, 2, 1);
        let number = |device| Tensor::leaked(1, DType::Float, device, &[], &[]);
        assert!(!is_factor_of(&list, beside) && !is_factor_of(&list, number(0)) && !is_factor_of(&list, number(-1)));
    }
}
