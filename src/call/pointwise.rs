//! Calls of pointwise operators: the checks of PyTorch's meta functions, the work of a TensorIterator, and a launch.
//!
//! A [`Pointwise`] describes how an operator's operands are combined, which scalars its kernel gets, and which calls are
//! refused. Operators whose dtypes depend on more than the operands' dtypes are functions here.
//! `src/ops/pointwise/operator/table.rs` lists all operators.

use smallvec::SmallVec;

use super::dtypes::{greatest_finite, is_floating, is_whole};
use super::shim::shim;
use super::tensor_iterator::{Elementwise, Rule, SAME, Types};
use super::tensors::Tensor;
use super::{Arguments, Call, CallError, Input, Outcome, Shape, Strides, Value, ensure, take_if};
use crate::tensor::{DType, Scalar};

/// The scalars that a kernel gets from the arguments that are no tensors, in their order. A string is passed as its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalars {
    /// All of them. Numbers must be representable in the computing type (`opmath`).
    All,
    /// The factor of a sum, which must be representable in the dtype itself.
    Alpha,
    /// All of them, unchecked.
    Any,
    /// Two for each: whether it is present, and its value.
    Optional,
    /// For each argument after the first: whether it is present.
    Operands,
    /// Only the scalar 0.
    Zero,
    /// None: numbers are operands.
    None,
}

/// A check of a call before anything else.
pub type Check = fn(arguments: &Arguments<'_>, given: Option<Tensor<'_>>) -> Outcome;

#[derive(Clone, Copy)]
pub struct Pointwise {
    rule: Rule,
    scalars: Scalars,
    check: Option<Check>,
    /// True if the second operand comes first in type promotion and in the order of dimensions.
    is_swapped: bool,
}

/// One tensor; the result has its dtype.
pub const UNARY: Pointwise = Pointwise::new(Rule::new(Types::Same));
/// One tensor, computed in floating point.
pub const UNARY_FLOATING: Pointwise = Pointwise::new(Rule::new(Types::Floating));
/// One tensor; the result is Bool.
pub const PREDICATE: Pointwise = Pointwise::new(Rule::new(Types::Result(DType::Bool)));
/// Several tensors; the result has their common dtype.
pub const BINARY: Pointwise = Pointwise::new(Rule::with_host_number(Types::Common));
/// Several tensors, computed in floating point.
pub const BINARY_FLOATING: Pointwise = Pointwise::new(Rule::with_host_number(Types::Floating));
/// A comparison of two tensors.
pub const COMPARISON: Pointwise = Pointwise::new(Rule::with_host_number(Types::Compared));
/// A comparison of a tensor with a number.
pub const NUMBER_COMPARISON: Pointwise = COMPARISON.scalars(Scalars::None);
/// `sub` with its checks.
pub const SUB: Pointwise = BINARY.scalars(Scalars::Alpha).checked(no_bool);
/// Several tensors, all on the device; the result has their common dtype.
pub const DEVICE_TENSORS: Pointwise = Pointwise::new(Rule::new(Types::Common));

impl Pointwise {
    pub const fn new(rule: Rule) -> Self {
        Self { rule, scalars: Scalars::All, check: None, is_swapped: false }
    }

    pub const fn scalars(self, scalars: Scalars) -> Self {
        Self { scalars, ..self }
    }

    pub const fn checked(self, check: Check) -> Self {
        Self { check: Some(check), ..self }
    }

    pub const fn swapped(self) -> Self {
        Self { is_swapped: true, ..self }
    }

    pub fn run(&self, arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
        launch(&self.operands(arguments, call, call.given(0))?, self.scalars, arguments, call)
    }

    /// The checked operands of a call, and the caller's `out=` tensor.
    pub fn operands<'a>(
        &self,
        arguments: &Arguments<'a>,
        call: &Call<'_>,
        given: Option<Tensor<'a>>,
    ) -> Result<Elementwise<'a>, CallError> {
        if let Some(check) = self.check {
            check(arguments, given)?;
        }
        let mut inputs: SmallVec<[Input<'_>; 3]> = SmallVec::new();
        for value in arguments.iter() {
            if let Value::Tensor(tensor) = value {
                inputs.push(Input::Tensor(*tensor));
            } else if let (Scalars::None, Some(number)) = (self.scalars, value.as_number()) {
                inputs.push(Input::Number(number));
            }
        }
        if !self.is_swapped {
            return Elementwise::of(self.rule, &inputs, given, call);
        }
        inputs.swap(0, 1);
        Ok(Elementwise::of(self.rule, &inputs, given, call)?.swapped())
    }
}

/// Launches the kernel for output number 0; the fallback gets calls whose dtype the kernel lacks.
pub fn launch<'a>(operands: &Elementwise<'a>, scalars: Scalars, arguments: &Arguments<'_>, call: &Call<'a>) -> Outcome {
    let numbers = numbers_of(arguments, scalars)?;
    if let (Scalars::Alpha, Some(&alpha)) = (scalars, numbers.last()) {
        check_factor(operands.dtype(), alpha, "alpha")?;
        ensure!(operands.dtype().is_complex() || !matches!(alpha, Scalar::Complex(..)));
    }
    let dtype = operands.compute();
    ensure_computed(dtype, call)?;
    let holds = match scalars {
        Scalars::All => Some(dtype.opmath()),
        Scalars::Alpha => Some(dtype),
        _ => None,
    };
    holds.map_or(Ok(()), |holds| numbers.iter().try_for_each(|&number| call.check_number(number, holds)))?;
    operands.launch(call, operands.output(call)?, &numbers)
}

/// Like `launch`, with these scalars, which are not checked.
pub fn launch_with<'a>(operands: &Elementwise<'a>, numbers: &[Scalar], call: &Call<'a>) -> Outcome {
    ensure_computed(operands.compute(), call)?;
    operands.launch(call, operands.output(call)?, numbers)
}

/// Leaves a call to the fallback if the kernel does not compute in this dtype.
pub fn ensure_computed(dtype: DType, call: &Call<'_>) -> Outcome {
    let is_known = dtype != DType::ComplexBFloat16 || shim().is_some_and(|shim| (shim.has_complex_bfloat16)());
    take_if(is_known && call.takes(dtype))
}

/// The kernel's scalars.
fn numbers_of(arguments: &Arguments<'_>, scalars: Scalars) -> Result<SmallVec<[Scalar; 4]>, CallError> {
    let mut numbers = SmallVec::new();
    let others = arguments.iter().filter(|value| value.as_tensor().is_none());
    match scalars {
        Scalars::None => {}
        Scalars::Zero => numbers.push(Scalar::Long(0)),
        Scalars::Operands => numbers.extend(arguments.iter().skip(1).map(|value| Scalar::Bool(!value.is_none()))),
        Scalars::Optional => {
            numbers.extend(others.flat_map(|value| [Scalar::Bool(!value.is_none()), value.as_number().unwrap_or(Scalar::Long(0))]));
        }
        Scalars::All | Scalars::Alpha | Scalars::Any => {
            for value in others {
                numbers.push(match value.as_text() {
                    Some(text) => Scalar::Long(text_number(text)?),
                    None if value.is_none() => Scalar::Long(0),
                    None => value.get()?,
                });
            }
        }
    }
    Ok(numbers)
}

/// The code of the rounding mode "floor".
const FLOOR: i64 = 2;

/// The code of a rounding mode or of an approximation.
fn text_number(text: &str) -> Result<i64, CallError> {
    match text {
        "trunc" | "tanh" => Ok(1),
        "floor" => Ok(FLOOR),
        "none" => Ok(0),
        _ => Err(CallError::CpuError),
    }
}

// ---- checks of meta functions ----

fn dtype_of(arguments: &Arguments<'_>, index: usize) -> Result<DType, CallError> {
    arguments.tensor(index).map(Tensor::dtype)
}

/// For operators that take no complex numbers.
pub fn real(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    ensure!(!arguments.tensors().any(|tensor| tensor.dtype().is_complex()));
    Ok(())
}

/// For predicates that take no complex numbers, and whose output is Bool.
pub fn real_to_bool(arguments: &Arguments<'_>, given: Option<Tensor<'_>>) -> Outcome {
    ensure!(given.is_none_or(|out| out.dtype() == DType::Bool));
    real(arguments, given)
}

/// For operators that take no Bool: `neg`, `sub`.
pub fn no_bool(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    ensure!(!arguments.tensors().any(|tensor| tensor.dtype() == DType::Bool));
    Ok(())
}

pub fn heaviside(arguments: &Arguments<'_>, given: Option<Tensor<'_>>) -> Outcome {
    let first = dtype_of(arguments, 0)?;
    ensure!(!first.is_complex() && arguments.tensors().chain(given).all(|tensor| tensor.dtype() == first));
    Ok(())
}

pub fn addcdiv(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    ensure!(!(is_whole(dtype_of(arguments, 1)?) && is_whole(dtype_of(arguments, 2)?)));
    Ok(())
}

/// For gradients that are computed from the operator's result if a flag says so: their first number, the slope, may then not be
/// negative.
pub fn slope(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    let mut numbers = arguments.iter().filter_map(Value::as_number);
    let slope: f64 = numbers.next().map_or(0.0, Scalar::to);
    ensure!(slope >= 0.0 || !numbers.any(|number| matches!(number, Scalar::Bool(true))));
    Ok(())
}

pub fn softshrink(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    let [input, lambd] = arguments.all()?;
    let (greatest, lambd) = (greatest_finite(input.tensor()?.dtype()), lambd.get::<Scalar>()?.to::<f64>());
    ensure!(greatest.is_some_and(|greatest| (0.0..=greatest).contains(&lambd)));
    Ok(())
}

/// For operators whose second argument has the dtype of the first one.
pub fn same_dtype(arguments: &Arguments<'_>, _: Option<Tensor<'_>>) -> Outcome {
    ensure!(dtype_of(arguments, 0)? == dtype_of(arguments, 1)?);
    Ok(())
}

/// An error if the factor does not match the dtype: a bool with a non-Bool result, or a fraction with an integral one.
pub fn check_factor(dtype: DType, factor: Scalar, name: &str) -> Outcome {
    let is_bool = matches!(factor, Scalar::Bool(_));
    ensure!(!is_bool || dtype == DType::Bool, "Boolean {name} only supported for Boolean results.");
    let is_integer = is_bool || matches!(factor, Scalar::Long(_));
    let text = "must not be a floating point number.";
    ensure!(is_integer || is_floating(dtype) || dtype.is_complex(), "For integral input tensors, argument {name} {text}");
    Ok(())
}

// ---- operators whose dtypes depend on more than their operands' dtypes ----

/// `lerp` with a tensor of weights.
pub fn lerp(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let weight = arguments.tensor(2)?;
    let promotes = weight.ndim() == 0;
    ensure!(promotes || weight.dtype() == dtype_of(arguments, 0)?);
    same_dtype(arguments, None)?;
    Pointwise::new(Rule::with_host_number(if promotes { Types::Common } else { Types::Same })).run(arguments, call)
}

/// `div` with a rounding mode.
pub fn div_rounded(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [_self, _other, mode] = arguments.all()?;
    match mode.as_text() {
        None => BINARY_FLOATING.run(arguments, call),
        Some("trunc" | "floor") => BINARY.run(arguments, call),
        Some(_) => Err(CallError::CpuError),
    }
}

/// `threshold`, whose kernel gets the input twice.
pub fn threshold(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = Input::Tensor(arguments.tensor(0)?);
    let rule = Rule { may_overlap: true, ..Rule::new(Types::Common) };
    let operands = Elementwise::of(rule, &[input, input], call.given(0), call)?;
    launch(&operands, Scalars::All, arguments, call)
}

/// `sub` with exchanged operands.
pub fn rsub(call: &Call<'_>, first: Value<'_>, second: Value<'_>, alpha: Value<'_>) -> Outcome {
    SUB.run(&Arguments::new(&[second, first, alpha]), call)
}

/// `div` with the rounding mode "floor".
pub fn floor_divide(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    launch_with(&BINARY.operands(arguments, call, call.given(0))?, &[Scalar::Long(FLOOR)], call)
}

/// A tensor and a number, in either order; the number is an operand.
pub fn with_number(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    BINARY.scalars(Scalars::None).run(arguments, call)
}

/// `logit`; without `eps` its kernel gets -1.
pub fn logit(call: &Call<'_>, input: Tensor<'_>, eps: Value<'_>) -> Outcome {
    let eps = eps.as_number().unwrap_or(Scalar::Double(-1.0));
    launch_with(&alone(input, Types::Floating, call)?, &[eps], call)
}

pub fn nan_to_num(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let input = arguments.tensor(0)?;
    let dtype = input.dtype();
    ensure!(call.given(0).is_none_or(|out| out.dtype() == dtype));
    if is_whole(dtype) {
        return call.copy(call.output(0, &Shape::like(input, dtype), Strides::Shared)?, input);
    }
    let operands = alone(input, Types::Same, call)?;
    ensure_computed(dtype, call)?;
    let numbers = numbers_of(arguments, Scalars::Optional)?;
    operands.launch(call, operands.output_like(call, input)?, &numbers)
}

/// `mish_backward`, in the dtype of the input.
pub fn mish_backward(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let operands = BINARY.operands(arguments, call, None)?;
    launch_with(&operands.with_dtype(arguments.tensor(1)?.dtype())?, &[], call)
}

/// `_prelu_kernel`, whose weights are already broadcast.
pub fn prelu(call: &Call<'_>, input: Tensor<'_>, weight: Tensor<'_>) -> Outcome {
    let operands = Elementwise::of(SAME, &[input.into(), weight.into()], None, call)?;
    ensure_computed(operands.compute(), call)?;
    operands.launch(call, operands.output_like(call, input)?, &[])
}

/// The number of an argument for type promotion.
pub fn as_promoted(value: &Value<'_>) -> Option<Scalar> {
    if let Value::LargeInteger(_) = value { Some(Scalar::Long(i64::MAX)) } else { value.as_number() }
}

/// The result type of a tensor and numbers.
pub fn promoted(input: Tensor<'_>, numbers: impl Iterator<Item = Scalar>, call: &Call<'_>) -> Result<DType, CallError> {
    let operands: SmallVec<[Input<'_>; 3]> = std::iter::once(Input::Tensor(input)).chain(numbers.map(Input::Number)).collect();
    call.result_type(&operands)
}

/// The operands of an operator with one tensor.
pub fn alone<'a>(input: Tensor<'a>, types: Types, call: &Call<'a>) -> Result<Elementwise<'a>, CallError> {
    Elementwise::of(Rule::new(types), &[input.into()], call.given(0), call)
}
