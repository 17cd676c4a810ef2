//! The table of pointwise operators: their names, and the functions that serve calls.

use crate::call::operator::{self, DenseCalls, Implementation, Kernel, Operator, any_device, c, plain};
use crate::call::pointwise::{
    self, BINARY, BINARY_FLOATING, COMPARISON, DEVICE_TENSORS, NUMBER_COMPARISON, PREDICATE, Pointwise, Scalars, UNARY,
    UNARY_FLOATING,
};
use crate::call::tensor_iterator::{self, Types};
use crate::call::{Arguments, Call, Outcome, typed};
use crate::ops::loss::operator as loss;
use crate::ops::masked::operator as masked;
use crate::ops::pointwise::operator as functions;
use crate::tensor::Op;

/// The overloads of an operator: `all` three (functional, in place, `out`), `pure` (not in place), `functional` alone,
/// `inplace` (no `out`), `gradient` (`grad_input`), `tensor` (overloads `Tensor`), `tensor_out` (with the plain `out`),
/// `number` (overloads `Scalar`).
macro_rules! overloads {
    (all $name:ident) => { overloads!($name "", "_", ".out") };
    (pure $name:ident) => { overloads!($name "", ".out") };
    (functional $name:ident) => { overloads!($name "") };
    (inplace $name:ident) => { overloads!($name "", "_") };
    (gradient $name:ident) => { overloads!($name "", ".grad_input") };
    (tensor $name:ident) => { overloads!($name ".Tensor", "_.Tensor", ".Tensor_out") };
    (tensor_out $name:ident) => { overloads!($name ".Tensor", "_.Tensor", ".out") };
    (number $name:ident) => { overloads!($name ".Scalar", "_.Scalar", ".Scalar_out") };
    ($name:ident $($overload:literal),+) => { &[$(c(concat!(stringify!($name), $overload, "\0"))),+] };
}

/// Lines of operators whose kernels have the operator's name: overloads, function of a call, names.
macro_rules! pointwise {
    ($($form:ident $prepare:expr => $($name:ident)+;)*) => {
        /// Operators whose kernels have the operator's name.
        pub static POINTWISE: [Operator; [$($(stringify!($name)),+),*].len()] = [$($(Operator {
            names: overloads!($form $name),
            kernel: Kernel::Row(Op::named(c(concat!(stringify!($name), "\0")))),
            prepare: $prepare,
        }),+),*];
    };
}

/// Lines of operators whose kernels have another name: kernel, function of a call, overloads.
macro_rules! named {
    ($($kernel:literal: $prepare:expr => $($name:literal),+;)*) => {
        /// Operators whose kernels have another name.
        pub static NAMED: [Operator; [$($kernel),*].len()] = [$(
            Operator { names: &[$($name),+], kernel: Kernel::Row(Op::named($kernel)), prepare: $prepare },
        )*];
    };
}

/// A pointwise operator without a fast path.
const fn of(operator: Pointwise) -> Implementation {
    operator::pointwise(operator)
}

/// A pointwise operator with a fast path for dense operands.
const fn fast(dense: DenseCalls, operator: Pointwise) -> Implementation {
    Implementation { dense: Some(dense), ..of(operator) }
}

/// A function that serves a call, with a fast path for dense operands.
macro_rules! function {
    ($dense:ident, $run:expr) => {
        Implementation { dense: Some(DenseCalls::$dense), ..any_device(plain($run)) }
    };
}

/// A function that serves a call and whose kernel gets other scalars than the schema has.
const fn call(run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Implementation {
    any_device(plain(run))
}

/// Dense floating-point operands are never refused, so they take the fast path.
const fn floating(operator: Pointwise) -> Implementation {
    fast(DenseCalls::Floating, operator)
}

/// Dense floating-point and integer operands take the fast path.
const fn numeric(operator: Pointwise) -> Implementation {
    fast(DenseCalls::Numeric, operator)
}

/// The output may share memory with the input.
const THRESHOLD_BACKWARD: Pointwise =
    Pointwise::new(tensor_iterator::Rule { may_overlap: true, ..tensor_iterator::Rule::with_host_number(Types::Common) }).swapped();

pointwise! {
    // one tensor, computed in floating point
    all floating(UNARY_FLOATING) => acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 i0 lgamma log log10
        log1p log2 reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh;
    pure of(UNARY_FLOATING) => special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr special_ndtri
        special_spherical_bessel_j0;
    // one tensor, in its own dtype
    all of(UNARY) => bitwise_not;
    all floating(UNARY) => frac round sgn elu gelu hardsigmoid hardswish leaky_relu mish silu;
    inplace floating(UNARY) => relu;
    pure function!(Floating, functions::abs) => abs;
    pure call(functions::angle) => angle;
    all call(typed!(pointwise::logit)) => logit;
    pure call(pointwise::nan_to_num) => nan_to_num;
    all floating(UNARY.checked(pointwise::real)) => ceil floor sign trunc;
    all numeric(UNARY.checked(pointwise::no_bool)) => neg;
    all function!(Never, pointwise::threshold) => threshold;
    pure floating(UNARY) => hardshrink softplus;
    pure of(UNARY.checked(pointwise::softshrink).scalars(Scalars::Any)) => softshrink;
    pure call(typed!(functions::glu)) => glu;
    all function!(Numeric, functions::clamp) => clamp;
    all function!(Numeric, functions::clamp_one_side::<false>) => clamp_max;
    all function!(Numeric, functions::clamp_one_side::<true>) => clamp_min;
    // Bool results
    pure of(PREDICATE.checked(pointwise::real_to_bool)) => isneginf isposinf signbit;
    pure fast(DenseCalls::Boolean, PREDICATE) => logical_not;
    functional fast(DenseCalls::Boolean, PREDICATE) => isnan;
    pure fast(DenseCalls::Boolean, COMPARISON) => logical_and logical_or logical_xor;
    tensor fast(DenseCalls::Boolean, COMPARISON) => eq ge gt le lt ne;
    number fast(DenseCalls::Number, NUMBER_COMPARISON) => eq ge gt le lt ne;
    // two tensors
    all of(BINARY) => gcd lcm nextafter;
    all of(BINARY.checked(pointwise::heaviside)) => heaviside;
    all floating(BINARY) => hypot;
    all floating(BINARY_FLOATING) => atan2;
    tensor_out numeric(BINARY.scalars(Scalars::Alpha)) => add;
    tensor_out numeric(pointwise::SUB) => sub;
    tensor_out numeric(BINARY) => mul;
    tensor_out floating(BINARY_FLOATING) => copysign;
    tensor_out fast(DenseCalls::Quotient, BINARY_FLOATING.scalars(Scalars::Zero)) => div;
    tensor numeric(BINARY) => bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor;
    tensor floating(BINARY) => fmod remainder;
    tensor function!(Floating, pointwise::lerp) => lerp;
    pure floating(BINARY) => logaddexp logaddexp2;
    pure numeric(BINARY.checked(pointwise::real)) => fmax fmin maximum minimum;
    pure of(BINARY_FLOATING) => special_hermite_polynomial_h special_hermite_polynomial_he special_xlog1py;
    pure call(typed!(functions::joined)) => complex polar;
    functional call(typed!(pointwise::prelu)) => _prelu_kernel;
    // three tensors
    pure call(typed!(functions::addr)) => addr;
    all floating(BINARY) => addcmul;
    all floating(DEVICE_TENSORS.checked(pointwise::addcdiv)) => addcdiv;
    // gradients
    gradient floating(BINARY) => gelu_backward hardshrink_backward hardsigmoid_backward sigmoid_backward silu_backward softplus_backward
        softshrink_backward tanh_backward;
    gradient of(BINARY.checked(pointwise::slope)) => elu_backward;
    gradient of(BINARY.checked(pointwise::slope).swapped()) => leaky_relu_backward;
    gradient of(BINARY.scalars(Scalars::Any)) => hardtanh_backward;
    gradient of(BINARY.scalars(Scalars::Optional)) => logit_backward;
    functional floating(BINARY) => hardswish_backward;
    functional function!(Floating, pointwise::mish_backward) => mish_backward;
    gradient call(typed!(functions::glu_backward)) => glu_backward;
    gradient floating(THRESHOLD_BACKWARD) => threshold_backward;
    // losses
    pure call(loss::elementwise) => huber_loss mse_loss smooth_l1_loss;
    gradient call(loss::gradient) => mse_loss_backward smooth_l1_loss_backward;
    pure call(loss::gradient) => huber_loss_backward;
}

named! {
    c"bitwise_left_shift": of(BINARY) => c"__lshift__.Tensor", c"__ilshift__.Tensor";
    c"bitwise_left_shift": call(pointwise::with_number) => c"__lshift__.Scalar", c"__ilshift__.Scalar";
    c"bitwise_right_shift": of(BINARY) => c"__rshift__.Tensor", c"__irshift__.Tensor";
    c"bitwise_right_shift": call(pointwise::with_number) => c"__rshift__.Scalar", c"__irshift__.Scalar";
    c"clamp": call(functions::hardtanh) => c"hardtanh", c"hardtanh_", c"hardtanh.out";
    c"clamp_max_tensor": of(BINARY) => c"clamp_max.Tensor", c"clamp_max_.Tensor", c"clamp_max.Tensor_out";
    c"clamp_min_tensor": of(BINARY) => c"clamp_min.Tensor", c"clamp_min_.Tensor", c"clamp_min.Tensor_out";
    c"clamp_tensor": of(DEVICE_TENSORS.checked(functions::clamp_tensor).scalars(Scalars::Operands)) =>
        c"clamp.Tensor", c"clamp_.Tensor", c"clamp.Tensor_out";
    c"div": function!(Never, pointwise::div_rounded) => c"div.Tensor_mode", c"div_.Tensor_mode", c"div.out_mode";
    c"div": call(pointwise::floor_divide) => c"floor_divide", c"floor_divide_.Tensor", c"floor_divide.out";
    c"ldexp": call(typed!(functions::ldexp)) => c"ldexp.Tensor", c"ldexp_", c"ldexp.out";
    c"lerp_scalar": floating(BINARY.checked(pointwise::same_dtype)) => c"lerp.Scalar", c"lerp_.Scalar", c"lerp.Scalar_out";
    c"pow": call(functions::pow_of_number) => c"pow.Scalar", c"pow.Scalar_out";
    c"pow": floating(BINARY) => c"pow.Tensor_Tensor", c"pow_.Tensor", c"pow.Tensor_Tensor_out";
    c"pow_scalar": function!(Floating, functions::pow_number) => c"pow.Tensor_Scalar", c"pow_.Scalar", c"pow.Tensor_Scalar_out";
    c"remainder": call(pointwise::with_number) => c"remainder.Scalar_Tensor";
    c"round_decimals": floating(UNARY.scalars(Scalars::Any)) => c"round.decimals", c"round_.decimals", c"round.decimals_out";
    c"sub": call(typed!(pointwise::rsub)) => c"rsub.Tensor";
    c"where": function!(Choice, typed!(masked::choose)) => c"where.self", c"where.self_out";
    c"xlogy": floating(BINARY_FLOATING) => c"xlogy.Tensor", c"xlogy_.Tensor", c"xlogy.OutTensor";
}
