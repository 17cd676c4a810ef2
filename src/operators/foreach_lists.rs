//! Operators `_foreach_*`: one launch for lists of similar tensors, else PyTorch's composite implementation, tensor by tensor.

use std::ffi::CStr;
use std::slice;

use smallvec::{SmallVec, smallvec};

use super::bindings::{Kernel, Operator, any_device, plain};
use super::call::{Arguments, Call, Outcome, Refusal, Strides, Value};
use super::descriptor::{Format, Tensor};
use super::names::Row;
use super::tensor_lists::{self, List, Lists};
use crate::tensor::dtype::{BYTE, DType, FLOAT8, FLOATING, INTEGRAL, UNSIGNED};
use crate::tensor::launch::Scalar;

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
            return Err(Refusal::Composite);
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
    let (is_floating, is_integer) = (FLOATING.and(FLOAT8).contains(dtype), INTEGRAL.and(UNSIGNED).contains(dtype));
    match number {
        Scalar::Bool(_) | Scalar::Cell(_) => false,
        _ if dtype.is_complex() => true,
        Scalar::Long(value) if is_floating => value.unsigned_abs() <= if dtype.size() == 1 { 127 } else { 32767 },
        Scalar::Long(value) => is_integer && is_within(dtype, value),
        // The greatest finite Half.
        Scalar::Double(value) => is_floating && (value.is_nan() || value.abs() <= 65504.0),
        Scalar::Complex(..) => false,
    }
}

/// True if an integer dtype can represent a value.
fn is_within(dtype: DType, value: i64) -> bool {
    let unused = 64 - 8 * dtype.size() as u32;
    if UNSIGNED.and(BYTE).contains(dtype) {
        return value >= 0 && value as u64 <= u64::MAX >> unused;
    }
    (i64::MIN >> unused..=i64::MAX >> unused).contains(&value)
}

/// True if a tensor is a valid factor for all tensors of a list: it may not be one of the results, which would change it
/// between tensors.
fn is_factor_of(list: List<'_>, factor: Tensor<'_>) -> bool {
    let is_like = |tensor: Tensor<'_>| (factor.device(), factor.dtype()) == (tensor.device(), tensor.dtype());
    let is_plain = factor.ndim() == 0 && factor.flags().0 == 0;
    is_plain && is_like(list[0]) && !list.iter().any(|tensor| tensor.may_share_memory(factor))
}

/// An elementwise operator.
pub fn elementwise(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    Operands::new(arguments, call).run(call)
}

/// An elementwise operator; a CPU tensor holds the numbers, one for each tensor of a list.
pub fn packed(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, lhs, rhs, numbers] = arguments.all()?;
    let lists = [input.tensors()?, lhs.tensors()?, rhs.tensors()?];
    let numbers = call.numbers(numbers.tensor()?, lists[0].len())?;
    Operands { numbers, is_each: true, ..Operands::of_lists(&lists) }.run(call)
}

/// `_foreach_pow.ScalarAndTensor`. The results are contiguous, whatever the strides of the exponents.
pub fn powers(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [base, exponents] = arguments.all()?;
    let (base, exponents) = ([base.number()?], exponents.tensors()?);
    if exponents.iter().any(|exponent| exponent.device() < 0) {
        return Err(Refusal::Composite);
    }
    let dense = call.arena().try_keep_all(exponents.len(), |place| call.dense(exponents[place], Format::Contiguous))?;
    Operands { numbers: &base, ..Operands::of_lists(&[dense]) }.run(call)
}

/// `_foreach_copy_`. The dtypes of the two lists may differ.
pub fn copy(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [target, source, _non_blocking] = arguments.all()?;
    let lists = [target.tensors()?, source.tensors()?];
    let [target, source] = lists;
    let fit = target.len() == source.len() && tensor_lists::are_alike(&lists) && !tensor_lists::overlap_in_part(&lists, 1);
    if !fit {
        return Err(Refusal::Composite);
    }
    call.bump_versions(target)?;
    Operands::of_lists(&[source]).launch(call, Some(target))
}

/// Reduces every tensor of a list to one element, by a reduction with an optional number.
fn reduce(call: &Call<'_>, input: List<'_>, dtype: DType, number: Option<Scalar>) -> Outcome {
    let is_empty = |tensor: &Tensor<'_>| tensor.numel() == 0;
    if !Operands::of_lists(&[input]).fit(call, false) || input.iter().any(is_empty) {
        return Err(Refusal::Composite);
    }
    let out = call.arena().try_keep_all(input.len(), |place| call.contiguous(place, &[], dtype, Strides::Any))?;
    for part in tensor_lists::parts(input.len()) {
        let scalars: SmallVec<[Scalar; 2]> = [Scalar::Long(part.len() as i64)].into_iter().chain(number).collect();
        call.launch_lists(input[0].dtype(), 1, &[&out[part.clone()], &input[part]], &scalars)?;
    }
    Ok(())
}

/// `_foreach_max`.
pub fn max(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input] = arguments.all()?;
    let input = input.tensors()?;
    let first = input.first().ok_or(Refusal::Composite)?;
    reduce(call, input, first.dtype(), None)
}

/// `_foreach_norm`. PyTorch's composite implementation serves calls that it refuses or that need several passes.
pub fn norm(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, order, dtype] = arguments.all()?;
    let (input, order) = (input.tensors()?, order.number()?);
    let own = input.first().ok_or(Refusal::Composite)?.dtype();
    let is_own = matches!(dtype, Value::None) || dtype.integer()? == own as i64;
    if !is_own || matches!(order, Scalar::Complex(..)) {
        return Err(Refusal::Composite);
    }
    reduce(call, input, own.real(), Some(Scalar::Double(order.to())))
}

/// The ATen name of an operator.
macro_rules! name {
    ($($part:literal)+) => {
        match CStr::from_bytes_with_nul(concat!("_foreach_", $($part,)+ "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name has no null"),
        }
    };
}

macro_rules! operators {
    ($($run:ident $name:literal $overload:literal => $kernel:literal;)*) => {
        /// Operators with a functional variant and an in-place one.
        pub static OPERATORS: [Operator; [$($name),*].len()] = [$(
            Operator {
                names: &[name!($name $overload), name!($name "_" $overload)],
                kernel: Kernel::Row(Row::new(name!($kernel))),
                prepare: any_device(plain($run)),
            },
        )*];
    };
}

// A kernel does not distinguish whether numbers come as a number, as a list or as a tensor.
operators! {
    elementwise "abs" "" => "abs";
    elementwise "acos" "" => "acos";
    elementwise "add" ".List" => "add.List";
    elementwise "add" ".Scalar" => "add.Scalar";
    elementwise "add" ".ScalarList" => "add.Scalar";
    elementwise "add" ".Tensor" => "add.Scalar";
    elementwise "addcdiv" ".Scalar" => "addcdiv.Scalar";
    elementwise "addcdiv" ".ScalarList" => "addcdiv.Scalar";
    packed "addcdiv" ".Tensor" => "addcdiv.Scalar";
    elementwise "addcmul" ".Scalar" => "addcmul.Scalar";
    elementwise "addcmul" ".ScalarList" => "addcmul.Scalar";
    packed "addcmul" ".Tensor" => "addcmul.Scalar";
    elementwise "asin" "" => "asin";
    elementwise "atan" "" => "atan";
    elementwise "ceil" "" => "ceil";
    elementwise "clamp_max" ".List" => "minimum.List";
    elementwise "clamp_max" ".Scalar" => "clamp_max.Scalar";
    elementwise "clamp_max" ".ScalarList" => "clamp_max.Scalar";
    elementwise "clamp_min" ".List" => "maximum.List";
    elementwise "clamp_min" ".Scalar" => "clamp_min.Scalar";
    elementwise "clamp_min" ".ScalarList" => "clamp_min.Scalar";
    elementwise "cos" "" => "cos";
    elementwise "cosh" "" => "cosh";
    elementwise "div" ".List" => "div.List";
    elementwise "div" ".Scalar" => "div.Scalar";
    elementwise "div" ".ScalarList" => "div.Scalar";
    elementwise "div" ".Tensor" => "div.Scalar";
    elementwise "erf" "" => "erf";
    elementwise "erfc" "" => "erfc";
    elementwise "exp" "" => "exp";
    elementwise "expm1" "" => "expm1";
    elementwise "floor" "" => "floor";
    elementwise "frac" "" => "frac";
    elementwise "lerp" ".List" => "lerp.List";
    elementwise "lerp" ".Scalar" => "lerp.Scalar";
    elementwise "lerp" ".ScalarList" => "lerp.Scalar";
    elementwise "lgamma" "" => "lgamma";
    elementwise "log" "" => "log";
    elementwise "log10" "" => "log10";
    elementwise "log1p" "" => "log1p";
    elementwise "log2" "" => "log2";
    elementwise "maximum" ".List" => "maximum.List";
    elementwise "maximum" ".Scalar" => "clamp_min.Scalar";
    elementwise "maximum" ".ScalarList" => "clamp_min.Scalar";
    elementwise "minimum" ".List" => "minimum.List";
    elementwise "minimum" ".Scalar" => "clamp_max.Scalar";
    elementwise "minimum" ".ScalarList" => "clamp_max.Scalar";
    elementwise "mul" ".List" => "mul.List";
    elementwise "mul" ".Scalar" => "mul.Scalar";
    elementwise "mul" ".ScalarList" => "mul.Scalar";
    elementwise "mul" ".Tensor" => "mul.Scalar";
    elementwise "neg" "" => "neg";
    elementwise "pow" ".List" => "pow.List";
    elementwise "pow" ".Scalar" => "pow.Scalar";
    elementwise "pow" ".ScalarList" => "pow.Scalar";
    elementwise "reciprocal" "" => "reciprocal";
    elementwise "round" "" => "round";
    elementwise "rsqrt" "" => "rsqrt";
    elementwise "sigmoid" "" => "sigmoid";
    elementwise "sign" "" => "sign";
    elementwise "sin" "" => "sin";
    elementwise "sinh" "" => "sinh";
    elementwise "sqrt" "" => "sqrt";
    elementwise "sub" ".List" => "sub.List";
    elementwise "sub" ".Scalar" => "sub.Scalar";
    elementwise "sub" ".ScalarList" => "sub.Scalar";
    elementwise "tan" "" => "tan";
    elementwise "tanh" "" => "tanh";
    elementwise "trunc" "" => "trunc";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_results_hold_are_taken() {
        let (one, half, complex) = (Scalar::Long(1), Scalar::Double(0.5), Scalar::Complex(1.0, 2.0));
        let taken = |dtype| [one, half, complex].map(|number| is_number_of(dtype, number));
        assert_eq!((taken(DType::Float), taken(DType::Int)), ([true, true, false], [true, false, false]));
        assert_eq!((taken(DType::ComplexFloat), taken(DType::Bool)), ([true; 3], [false; 3]));
        assert!(!is_number_of(DType::Float, true.into()) && !is_number_of(DType::ComplexFloat, true.into()));
        assert!(is_number_of(DType::Half, Scalar::Double(f64::NAN)) && !is_number_of(DType::Half, Scalar::Double(65505.0)));
        assert!(is_number_of(DType::Half, Scalar::Long(-32767)) && !is_number_of(DType::Double, Scalar::Long(32768)));
    }

    #[test]
    fn integers_have_limits() {
        assert!(is_within(DType::Char, -128) && !is_within(DType::Char, 128) && !is_within(DType::Byte, -1));
        assert!(is_within(DType::Byte, 255) && !is_within(DType::Byte, 256) && is_within(DType::UInt16, 65535));
        assert!(is_within(DType::Long, i64::MIN) && is_within(DType::UInt64, i64::MAX) && !is_within(DType::Int, 1 << 31));
    }

    #[test]
    fn a_factor_is_none_of_the_results() {
        let list = [Tensor::leaked(1, DType::Float, 0, &[3], &[1])];
        let beside = list[0].section(0, 2, 1);
        let number = |device| Tensor::leaked(1, DType::Float, device, &[], &[]);
        assert!(!is_factor_of(&list, beside) && !is_factor_of(&list, number(0)) && !is_factor_of(&list, number(-1)));
    }
}
