//! The operator table: one line per operator.
//!
//! A line names the operator without its namespace (ATen's, except in the last group), its kernel, the dtypes that it computes in, how its
//! operands relate, and the cost of an element (nanoseconds of one thread). From the cost the runtime decides where the operator runs and
//! with how many threads.

#![forbid(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pointwise::{
    activation, arithmetic, binary, bitwise, clamp, compare, complex_parts, fused, gradient, loss, minmax, predicate, special,
    trigonometric,
};
use super::pointwise::{elementary, rounding, sign, ternary};
use super::{
    attention, channel_norm, copy, foreach, histogram, indexing, layer_norm, lookup_table, matmul, max_pool, movement, nll_loss,
    optimizer, random, reduce, rnn, scan, softmax, sorting,
};
use crate::tensor::dtype::{
    ALL, ANY, BOOL, COMPLEX, DType, DTypeSet, EVERY, FIELD, FLOAT8, FLOATING, INTEGRAL, ORDERED, REAL, SIGNED, UNSIGNED, WIDE,
};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Launch, Layout, Scalar};

/// Nanoseconds of a function of complex numbers.
const COMPLEX_FUNCTION: f64 = 60.0;
/// Byte alone.
const BYTE: DTypeSet = DTypeSet::of(&[DType::Byte]);

/// A kernel: runs one launch. The text of a failure is for the user.
pub type Kernel = fn(&Launch<'_>) -> Result<(), Error>;

/// How long a launch takes on one thread.
#[derive(Clone, Copy)]
pub enum Cost {
    /// Nanoseconds per element of the index space.
    Element(f64),
    /// Nanoseconds per element of a list of tensors; how many there are is the launch's first scalar.
    List(f64),
    /// Nanoseconds of the launch.
    Launch(fn(&Launch<'_>) -> u64),
}

/// An operator.
pub struct Op {
    name: &'static CStr,
    text: &'static str,
    kernel: Kernel,
    dtypes: DTypeSet,
    layout: Layout,
    cost: Cost,
    /// Nanoseconds per element in complex numbers, where they are not the [`Cost::Element`] of real ones.
    complex_cost: Option<f64>,
    /// Whether 16 bit floats may be looked up in a table of all results.
    has_lookup_table: bool,
    /// Whether it is elementwise over lists of tensors: any piece of them can be done for itself.
    is_piecewise: bool,
    calls: AtomicU64,
}

const fn text(name: &'static CStr) -> &'static str {
    match name.to_str() {
        Ok(text) => text,
        Err(_) => panic!("names are ASCII"),
    }
}

/// An elementwise operator (reductions among them: their outputs have stride 0 where they are reduced).
const fn op(name: &'static CStr, kernel: Kernel, dtypes: DTypeSet, cost: f64) -> Op {
    let (layout, cost) = (Layout::Elementwise, Cost::Element(cost));
    let (text, calls) = (text(name), AtomicU64::new(0));
    Op { name, text, kernel, dtypes, layout, cost, complex_cost: None, has_lookup_table: false, is_piecewise: false, calls }
}

/// An elementwise operator of one input that depends on its element and scalars alone, and for 16 bit floats takes longer than to look
/// the result up ([`lookup_table`]).
const fn function(name: &'static CStr, kernel: Kernel, dtypes: DTypeSet, cost: f64) -> Op {
    Op { has_lookup_table: true, ..op(name, kernel, dtypes, cost) }
}

/// An operator whose operands have different sizes, or keep their dimensions.
const fn shaped(name: &'static CStr, kernel: Kernel, dtypes: DTypeSet, cost: f64) -> Op {
    Op { layout: Layout::Shaped, ..op(name, kernel, dtypes, cost) }
}

/// An operator over lists of tensors: its operands are the tensors of one list after the other, its first scalar says how many a list has.
const fn list(name: &'static CStr, kernel: Kernel, dtypes: DTypeSet, cost: f64) -> Op {
    Op { cost: Cost::List(cost), ..shaped(name, kernel, dtypes, 0.0) }
}

/// A list operator that is elementwise: what it does with the lists, the first ones of them written, and at most one more operand.
const fn elementwise_list(name: &'static CStr, kernel: Kernel, dtypes: DTypeSet, cost: f64) -> Op {
    Op { is_piecewise: true, ..list(name, kernel, dtypes, cost) }
}

/// A list operator that runs an elementwise kernel over every place of its lists.
macro_rules! each {
    ($name:expr, $kernel:expr, $dtypes:expr, $cost:expr) => {
        elementwise_list($name, |launch| foreach::each::<1>(launch, $kernel), $dtypes, $cost)
    };
}

/// A list operator that reduces every tensor of its list.
macro_rules! reduced {
    ($name:expr, $kernel:expr, $dtypes:expr) => {
        Op { cost: Cost::Launch(foreach::reduction_cost), ..list($name, |launch| foreach::reduce(launch, $kernel), $dtypes, 0.0) }
    };
}

/// A matrix product: its operands have different sizes.
const fn product(name: &'static CStr, kernel: Kernel) -> Op {
    costed(name, kernel, matmul::DTYPES, matmul::cost)
}

/// A kernel of operands of any sizes that says its cost itself.
const fn costed(name: &'static CStr, kernel: Kernel, dtypes: DTypeSet, cost: fn(&Launch<'_>) -> u64) -> Op {
    Op { cost: Cost::Launch(cost), ..shaped(name, kernel, dtypes, 0.0) }
}

/// The static array of its rows.
macro_rules! table {
    ($($row:expr,)*) => {
        /// Every operator.
        pub static TABLE: [Op; [$(stringify!($row)),*].len()] = [$($row),*];
    };
}

table![
    // copies and fills
    op(c"copy_", copy::copy_, ANY, 0.15),
    op(c"fill_", copy::fill_, EVERY, 0.1),
    op(c"zero_", copy::zero_, ANY, 0.1),
    // arithmetic
    op(c"abs", sign::abs, REAL.and(FLOAT8), 0.1),
    op(c"add", arithmetic::add, ALL, 0.15),
    op(c"addcdiv", ternary::addcdiv, FIELD, 0.3),
    op(c"addcmul", ternary::addcmul, FIELD.and(INTEGRAL).and(COMPLEX), 0.2),
    op(c"addr", ternary::addr, FIELD.and(INTEGRAL).and(BOOL), 0.2),
    op(c"ceil", rounding::ceil, REAL.and(UNSIGNED), 0.1),
    op(c"complex_abs", sign::complex_abs, COMPLEX, 1.0),
    op(c"copysign", sign::copysign, FLOATING, 0.15),
    op(c"div", arithmetic::div, FIELD.and(INTEGRAL), 0.3),
    op(c"floor", rounding::floor, REAL.and(UNSIGNED), 0.1),
    op(c"fmax", minmax::fmax, ORDERED, 0.15),
    op(c"fmin", minmax::fmin, ORDERED, 0.15),
    op(c"fmod", arithmetic::fmod, REAL, 1.0),
    op(c"frac", rounding::frac, FLOATING, 0.1),
    op(c"gcd", binary::gcd, INTEGRAL, 20.0),
    op(c"heaviside", binary::heaviside, REAL.and(BOOL), 0.2),
    op(c"lcm", binary::lcm, INTEGRAL, 25.0),
    op(c"ldexp", binary::ldexp, FLOATING, 0.3),
    op(c"lerp", ternary::lerp, FIELD, 0.2),
    op(c"lerp_scalar", ternary::lerp_scalar, FIELD, 0.2),
    op(c"maximum", minmax::maximum, ORDERED, 0.15),
    op(c"minimum", minmax::minimum, ORDERED, 0.15),
    op(c"mul", arithmetic::mul, EVERY, 0.15),
    op(c"neg", sign::neg, SIGNED, 0.1),
    op(c"nextafter", binary::nextafter, FLOATING, 0.3),
    op(c"remainder", arithmetic::remainder, REAL, 1.0),
    op(c"round", rounding::round, REAL.and(UNSIGNED), 0.1),
    op(c"round_decimals", rounding::round_decimals, FLOATING, 0.3),
    op(c"sgn", sign::sgn, SIGNED.and(BOOL), 0.3),
    op(c"sign", sign::sign, REAL.and(BOOL), 0.1),
    op(c"sub", arithmetic::sub, ALL, 0.15),
    op(c"trunc", rounding::trunc, REAL.and(UNSIGNED), 0.1),
    // bits
    op(c"bitwise_and", bitwise::bitwise_and, INTEGRAL.and(UNSIGNED).and(BOOL), 0.15),
    op(c"bitwise_left_shift", bitwise::bitwise_left_shift, INTEGRAL, 0.15),
    op(c"bitwise_not", bitwise::bitwise_not, INTEGRAL.and(BOOL), 0.1),
    op(c"bitwise_or", bitwise::bitwise_or, INTEGRAL.and(UNSIGNED).and(BOOL), 0.15),
    op(c"bitwise_right_shift", bitwise::bitwise_right_shift, INTEGRAL, 0.15),
    op(c"bitwise_xor", bitwise::bitwise_xor, INTEGRAL.and(UNSIGNED).and(BOOL), 0.15),
    // choices and limits
    op(c"clamp", clamp::clamp, REAL, 0.1),
    op(c"clamp_max", clamp::clamp_max, REAL, 0.1),
    op(c"clamp_max_tensor", clamp::clamp_max_tensor, ORDERED, 0.15),
    op(c"clamp_min", clamp::clamp_min, REAL, 0.1),
    op(c"clamp_min_tensor", clamp::clamp_min_tensor, ORDERED, 0.15),
    op(c"clamp_tensor", clamp::clamp_tensor, REAL.and(UNSIGNED), 0.2),
    op(c"nan_to_num", complex_parts::nan_to_num, FIELD.and(INTEGRAL), 0.15),
    op(c"where", ternary::where_self, ALL, 0.3),
    // comparisons
    op(c"eq", compare::eq, EVERY, 0.15),
    op(c"ge", compare::ge, ORDERED, 0.15),
    op(c"gt", compare::gt, ORDERED, 0.15),
    op(c"le", compare::le, ORDERED, 0.15),
    op(c"lt", compare::lt, ORDERED, 0.15),
    op(c"ne", compare::ne, EVERY, 0.15),
    // logic
    op(c"isneginf", predicate::isneginf, ORDERED, 0.1),
    op(c"isposinf", predicate::isposinf, ORDERED, 0.1),
    op(c"logical_and", predicate::logical_and, ALL, 0.15),
    op(c"logical_not", predicate::logical_not, ALL, 0.1),
    op(c"logical_or", predicate::logical_or, ALL, 0.15),
    op(c"logical_xor", predicate::logical_xor, ALL, 0.15),
    op(c"signbit", sign::signbit, ORDERED, 0.1),
    // trigonometric and hyperbolic functions, complex numbers
    op(c"acos", trigonometric::acos, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"acosh", trigonometric::acosh, FIELD, 2.0).in_complex(COMPLEX_FUNCTION),
    op(c"angle", complex_parts::angle, FIELD, 0.5),
    op(c"asin", trigonometric::asin, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"asinh", trigonometric::asinh, FIELD, 2.0).in_complex(COMPLEX_FUNCTION),
    op(c"atan", trigonometric::atan, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"atan2", trigonometric::atan2, FLOATING, 0.6),
    function(c"atanh", trigonometric::atanh, FIELD, 0.7).in_complex(COMPLEX_FUNCTION),
    op(c"complex", complex_parts::complex, DTypeSet::of(&[DType::Half, DType::Float, DType::Double]), 0.3),
    function(c"cos", trigonometric::cos, FIELD, 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"cosh", trigonometric::cosh, FIELD, 0.5).in_complex(COMPLEX_FUNCTION),
    op(c"polar", complex_parts::polar, DTypeSet::of(&[DType::Half, DType::Float, DType::Double]), 20.0),
    function(c"sin", trigonometric::sin, FIELD, 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"sinc", trigonometric::sinc, FIELD, 0.8).in_complex(COMPLEX_FUNCTION),
    function(c"sinh", trigonometric::sinh, FIELD, 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"tan", trigonometric::tan, FIELD, 0.7).in_complex(COMPLEX_FUNCTION),
    // elementary functions
    op(c"erf", elementary::erf, FLOATING, 0.6),
    function(c"erfc", elementary::erfc, FLOATING, 1.0),
    op(c"exp", elementary::exp, FIELD, 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"exp2", elementary::exp2, FIELD, 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"expm1", elementary::expm1, FIELD, 0.35).in_complex(COMPLEX_FUNCTION),
    op(c"hypot", elementary::hypot, FLOATING, 0.4),
    function(c"log", elementary::log, FIELD, 0.35).in_complex(COMPLEX_FUNCTION),
    function(c"log10", elementary::log10, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"log1p", elementary::log1p, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"log2", elementary::log2, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"logaddexp", elementary::logaddexp, FIELD, 0.9).in_complex(COMPLEX_FUNCTION),
    op(c"logaddexp2", elementary::logaddexp2, FLOATING, 0.9),
    function(c"logit", elementary::logit, FLOATING, 0.5),
    op(c"pow", elementary::pow, INTEGRAL.and(FIELD), 2.0).in_complex(COMPLEX_FUNCTION),
    function(c"pow_scalar", elementary::pow_scalar, INTEGRAL.and(FIELD), 1.0).in_complex(COMPLEX_FUNCTION),
    op(c"reciprocal", elementary::reciprocal, FIELD, 0.2),
    op(c"rsqrt", elementary::rsqrt, FIELD, 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"sigmoid", elementary::sigmoid, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"sqrt", elementary::sqrt, FIELD, 0.2).in_complex(COMPLEX_FUNCTION),
    op(c"tanh", elementary::tanh, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    // statistics and physics
    function(c"digamma", special::digamma, FLOATING, 6.0),
    function(c"erfinv", special::erfinv, FLOATING, 1.2),
    function(c"i0", special::i0, FLOATING, 4.0),
    function(c"lgamma", special::lgamma, FLOATING, 4.5),
    function(c"special_entr", special::special_entr, FLOATING, 0.5),
    function(c"special_erfcx", special::special_erfcx, FLOATING, 3.0),
    function(c"special_i0e", special::special_i0e, FLOATING, 4.0),
    function(c"special_i1", special::special_i1, FLOATING, 4.0),
    function(c"special_i1e", special::special_i1e, FLOATING, 4.0),
    function(c"special_log_ndtr", special::special_log_ndtr, FLOATING, 6.0),
    function(c"special_ndtri", special::special_ndtri, FLOATING, 5.0),
    op(c"special_xlog1py", special::special_xlog1py, FLOATING, 0.7),
    op(c"xlogy", special::xlogy, FLOATING, 0.5),
    // activations and losses
    op(c"_prelu_kernel", activation::prelu, FLOATING, 0.15),
    op(c"binary_cross_entropy", loss::binary_cross_entropy, FLOATING, 1.0),
    op(c"binary_cross_entropy_backward", loss::binary_cross_entropy_backward, FLOATING, 0.3),
    op(c"elu", activation::elu, FLOATING, 0.4),
    op(c"elu_backward", gradient::elu_backward, FLOATING, 0.4),
    op(c"gelu", activation::gelu, FLOATING, 0.6),
    op(c"gelu_backward", gradient::gelu_backward, FLOATING, 0.8),
    op(c"glu", activation::glu, FLOATING, 0.5),
    op(c"glu_backward", gradient::glu_backward, FLOATING, 0.25),
    op(c"hardshrink", activation::hardshrink, FLOATING, 0.1),
    op(c"hardshrink_backward", gradient::hardshrink_backward, FLOATING, 0.15),
    op(c"hardsigmoid", activation::hardsigmoid, FLOATING, 0.15),
    op(c"hardsigmoid_backward", gradient::hardsigmoid_backward, FLOATING, 0.15),
    op(c"hardswish", activation::hardswish, FLOATING, 0.15),
    op(c"hardswish_backward", gradient::hardswish_backward, FLOATING, 0.2),
    op(c"hardtanh_backward", gradient::hardtanh_backward, FLOATING, 0.15),
    op(c"huber_loss", loss::huber_loss, FLOATING, 0.2),
    op(c"huber_loss_backward", loss::huber_loss_backward, FLOATING, 0.25),
    op(c"leaky_relu", activation::leaky_relu, FLOATING, 0.1),
    op(c"leaky_relu_backward", gradient::leaky_relu_backward, FLOATING, 0.15),
    op(c"log_sigmoid_backward", gradient::log_sigmoid_backward, FLOATING, 0.4),
    function(c"log_sigmoid_forward", activation::log_sigmoid, FLOATING, 0.6),
    op(c"logit_backward", gradient::logit_backward, FLOATING, 0.3),
    function(c"mish", activation::mish, FLOATING, 0.4),
    op(c"mish_backward", gradient::mish_backward, FLOATING, 0.5),
    op(c"mse_loss_backward", loss::mse_loss_backward, REAL, 0.2),
    op(c"mse_loss", loss::mse_loss, FLOATING, 0.15),
    op(c"relu", activation::relu, REAL.and(UNSIGNED), 0.1),
    op(c"sigmoid_backward", gradient::sigmoid_backward, FIELD, 0.15),
    op(c"silu", activation::silu, FIELD, 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"silu_backward", gradient::silu_backward, FIELD, 0.5).in_complex(COMPLEX_FUNCTION),
    op(c"smooth_l1_loss", loss::smooth_l1_loss, FLOATING, 0.2),
    op(c"smooth_l1_loss_backward", loss::smooth_l1_loss_backward, REAL, 0.25),
    function(c"softplus", activation::softplus, FLOATING, 2.0),
    op(c"softplus_backward", gradient::softplus_backward, FLOATING, 0.5),
    op(c"softshrink", activation::softshrink, FLOATING, 0.1),
    op(c"softshrink_backward", gradient::softshrink_backward, FLOATING, 0.15),
    op(c"tanh_backward", gradient::tanh_backward, FIELD, 0.15),
    op(c"threshold", activation::threshold, REAL, 0.1),
    op(c"threshold_backward", gradient::threshold_backward, REAL, 0.15),
    // reductions
    op(c"all", reduce::count::all, BOOL.and(BYTE), 0.05),
    op(c"amax", reduce::amax::amax, REAL.and(BOOL), 0.12),
    op(c"amin", reduce::amax::amin, REAL.and(BOOL), 0.12),
    op(c"aminmax", reduce::amax::aminmax, REAL.and(BOOL), 0.15),
    op(c"any", reduce::count::any, BOOL.and(BYTE), 0.05),
    op(c"argmax", reduce::argmax::argmax, REAL, 0.08),
    op(c"argmin", reduce::argmax::argmin, REAL, 0.08),
    op(c"count_nonzero", reduce::count::count_nonzero, REAL.and(BOOL).and(COMPLEX), 0.1),
    op(c"linalg_vector_norm", reduce::norm::linalg_vector_norm, FIELD.and(COMPLEX), 0.1),
    op(c"max.dim", reduce::argmax::max_dim, REAL.and(BOOL), 0.08),
    op(c"mean", reduce::sum::mean, FIELD, 0.08),
    op(c"min.dim", reduce::argmax::min_dim, REAL.and(BOOL), 0.08),
    op(c"nansum", reduce::sum::nansum, FLOATING, 0.08),
    op(c"prod", reduce::product::prod, REAL.and(BOOL).and(FIELD), 0.05),
    op(c"std", reduce::var::std, FLOATING, 0.1),
    op(c"sum", reduce::sum::sum, REAL.and(BOOL).and(FIELD), 0.08),
    op(c"var", reduce::var::var, FLOATING, 0.1),
    // along a dimension
    shaped(c"_cummax_helper", scan::cummax, REAL.and(BOOL), 1.0),
    shaped(c"_cummin_helper", scan::cummin, REAL.and(BOOL), 1.0),
    shaped(c"_log_softmax", softmax::log_softmax, FLOATING, 0.6),
    shaped(c"_log_softmax_backward_data", softmax::log_softmax_backward, FLOATING, 0.5),
    shaped(c"_logcumsumexp", scan::logcumsumexp, FIELD, 4.0).in_complex(COMPLEX_FUNCTION),
    costed(c"_scaled_dot_product_flash_attention_for_cpu", attention::attention, FLOATING, attention::cost),
    costed(c"_scaled_dot_product_flash_attention_for_cpu_backward", attention::attention_backward, FLOATING, attention::cost),
    shaped(c"_softmax", softmax::softmax, FLOATING, 0.6),
    shaped(c"_softmax_backward_data", softmax::softmax_backward, FLOATING, 0.3),
    shaped(c"cumprod", scan::cumprod, INTEGRAL.and(FIELD), 0.6),
    shaped(c"cumsum", scan::cumsum, INTEGRAL.and(FIELD), 0.6),
    shaped(c"_thnn_fused_lstm_cell", rnn::cell::lstm_cell, FIELD, 4.0),
    shaped(c"_thnn_fused_lstm_cell_backward_impl", rnn::cell::lstm_cell_backward, FIELD, 3.0),
    costed(c"elman_layer", rnn::elman::elman_layer, FLOATING, rnn::sequence::cost),
    costed(c"elman_layer_backward", rnn::elman::elman_layer_backward, FLOATING, rnn::sequence::cost),
    costed(c"gru_layer", rnn::gru::gru_layer, FLOATING, rnn::sequence::cost),
    costed(c"gru_layer_backward", rnn::gru::gru_layer_backward, FLOATING, rnn::sequence::cost),
    costed(c"lstm_layer", rnn::lstm::lstm_layer, FLOATING, rnn::sequence::cost),
    costed(c"lstm_layer_backward", rnn::lstm::lstm_layer_backward, FLOATING, rnn::sequence::cost),
    shaped(c"native_layer_norm", layer_norm::native_layer_norm, FLOATING, 0.3),
    shaped(c"native_layer_norm_backward", layer_norm::native_layer_norm_backward, FLOATING, 0.6),
    // images and classes
    shaped(c"max_pool2d_with_indices", max_pool::max_pool2d, REAL, 5.0),
    shaped(c"max_pool2d_with_indices_backward", max_pool::max_pool2d_backward, REAL, 1.0),
    shaped(c"native_batch_norm", channel_norm::native_batch_norm, FLOATING, 0.5),
    shaped(c"native_batch_norm_backward", channel_norm::native_batch_norm_backward, FLOATING, 0.6),
    shaped(c"native_group_norm", channel_norm::native_group_norm, FLOATING, 0.5),
    shaped(c"native_group_norm_backward", channel_norm::native_group_norm_backward, FLOATING, 0.6),
    shaped(c"nll_loss_backward", nll_loss::nll_loss_backward, FLOATING, 0.1),
    shaped(c"nll_loss_forward", nll_loss::nll_loss_forward, FLOATING, 5.0),
    // movement
    shaped(c"arange", movement::range_factories::arange, REAL, 0.5),
    shaped(c"cat", movement::cat_flip_roll::cat, ANY, 0.15),
    shaped(c"col2im", movement::unfold::col2im, FIELD.and(BOOL), 2.0),
    shaped(c"flip", movement::cat_flip_roll::flip, ANY, 0.2),
    shaped(c"im2col", movement::unfold::im2col, ANY, 0.3),
    shaped(c"linspace", movement::range_factories::linspace, INTEGRAL.and(FIELD), 0.5),
    shaped(c"logspace", movement::range_factories::logspace, INTEGRAL.and(FIELD), 20.0),
    shaped(c"reflection_pad", movement::pad::reflection_pad, ANY, 0.2),
    shaped(c"reflection_pad_backward", movement::pad::reflection_pad_backward, FIELD, 1.5),
    shaped(c"repeat_interleave", movement::range_factories::repeat_interleave, INTEGRAL, 1.0),
    shaped(c"replication_pad", movement::pad::replication_pad, ANY, 0.2),
    shaped(c"replication_pad_backward", movement::pad::replication_pad_backward, FIELD, 1.5),
    shaped(c"roll", movement::cat_flip_roll::roll, ANY, 0.15),
    shaped(c"tril", movement::triangle::tril, ANY, 0.15),
    shaped(c"tril_indices", movement::triangle::tril_indices, REAL, 1.0),
    shaped(c"triu", movement::triangle::triu, ANY, 0.15),
    shaped(c"triu_indices", movement::triangle::triu_indices, REAL, 1.0),
    shaped(c"unfold_backward", movement::unfold::unfold_backward, FIELD.and(INTEGRAL).and(BOOL), 4.0),
    // order
    Op { cost: Cost::Launch(histogram::cost), ..shaped(c"histogram", histogram::histogram, FLOATING, 0.0) },
    shaped(c"isin", sorting::searchsorted::isin, ORDERED, 10.0),
    shaped(c"kthvalue", sorting::topk::kthvalue, ORDERED, 2.0),
    shaped(c"median", sorting::topk::median, ORDERED, 2.0),
    shaped(c"mode", sorting::searchsorted::mode, ORDERED, 2.0),
    shaped(c"nanmedian", sorting::topk::nanmedian, ORDERED, 2.0),
    shaped(c"searchsorted", sorting::searchsorted::searchsorted, ORDERED, 6.0),
    shaped(c"sort.stable", sorting::sort::sort, ORDERED, 10.0),
    shaped(c"topk", sorting::topk::topk, ORDERED, 2.0),
    shaped(c"unique_collect", sorting::unique::collect, DTypeSet::of(&[DType::Long]), 3.0),
    shaped(c"unique_groups", sorting::unique::groups, ORDERED, 1.0),
    shaped(c"unique_line", sorting::unique::unique_line, ORDERED, 15.0),
    shaped(c"unique_order", sorting::unique::order_rows, ORDERED, 100.0),
    shaped(c"unique_rows", sorting::unique::take_rows, ANY, 1.0),
    // random numbers
    op(c"bernoulli_", random::bernoulli, REAL.and(BOOL), 0.6),
    op(c"bernoulli_.float", random::bernoulli_scalar, REAL.and(BOOL), 0.5),
    op(c"binomial", random::discrete::binomial, WIDE, 100.0),
    op(c"cauchy_", random::cauchy, FLOATING, 3.0),
    op(c"exponential_", random::exponential, FLOATING, 0.8),
    op(c"geometric_", random::geometric, REAL, 2.0),
    op(c"log_normal_", random::log_normal, FLOATING, 4.0),
    shaped(c"multinomial", random::discrete::multinomial, FLOATING, 5.0),
    op(c"native_dropout", random::native_dropout, FLOATING, 0.6),
    op(c"native_dropout_backward", random::native_dropout_backward, FLOATING, 0.2),
    op(c"normal_", random::normal, FLOATING, 1.0),
    op(c"poisson", random::discrete::poisson, FLOATING, 60.0),
    op(c"random_", random::random, REAL.and(BOOL).and(UNSIGNED), 1.0),
    op(c"randperm", random::randperm, REAL, 10.0),
    op(c"uniform_", random::uniform, FLOATING, 0.5),
    // through indices
    op(c"gather", indexing::load, ANY, 1.0),
    shaped(c"_embedding_bag", indexing::embedding::embedding_bag, FLOATING, 0.3),
    op(c"embedding_dense_backward", indexing::update, ALL, 0.3),
    shaped(c"embedding_renorm_", indexing::embedding::embedding_renorm, FIELD.and(COMPLEX), 1.0),
    op(c"index", indexing::load_wrapped, ANY, 1.0),
    op(c"index_add", indexing::update, ALL, 1.0),
    op(c"index_copy", indexing::update, ANY, 1.0),
    op(c"index_fill", indexing::update_wrapped, ANY, 1.0),
    op(c"index_reduce", indexing::update, ORDERED, 1.0),
    op(c"index_put", indexing::update_wrapped, ANY, 1.5),
    op(c"index_select", indexing::load, ANY, 0.5),
    shaped(c"masked_scatter", indexing::masked::masked_scatter, ANY, 1.0),
    shaped(c"masked_select", indexing::masked::masked_select, ANY, 1.0),
    shaped(c"nonzero", indexing::masked::nonzero, EVERY, 1.0),
    shaped(c"nonzero_count", indexing::masked::nonzero_count, EVERY, 0.2),
    op(c"put", indexing::update_wrapped, ANY, 1.5),
    op(c"scatter", indexing::update, ANY, 1.5),
    op(c"scatter_add", indexing::update, ALL, 1.5),
    op(c"scatter_reduce", indexing::update, ALL, 1.5),
    op(c"take", indexing::load_wrapped, ANY, 1.0),
    // matrix products
    product(c"mm", matmul::mm),
    product(c"addmm", matmul::addmm),
    product(c"bmm", matmul::bmm),
    product(c"baddbmm", matmul::baddbmm),
    product(c"addmv", matmul::addmv),
    // lists of tensors
    each!(c"_foreach_abs", sign::abs, REAL.and(FLOAT8), 0.1),
    each!(c"_foreach_acos", trigonometric::acos, FIELD, 0.4),
    elementwise_list(c"_foreach_add.List", foreach::add_list, FIELD.and(INTEGRAL), 0.15),
    elementwise_list(c"_foreach_add.Scalar", foreach::add_scalar, FIELD.and(INTEGRAL), 0.1),
    elementwise_list(c"_foreach_addcdiv.Scalar", foreach::addcdiv, FIELD, 0.3),
    elementwise_list(c"_foreach_addcmul.Scalar", foreach::addcmul, FIELD.and(INTEGRAL).and(COMPLEX), 0.2),
    each!(c"_foreach_asin", trigonometric::asin, FIELD, 0.4),
    each!(c"_foreach_atan", trigonometric::atan, FIELD, 0.4),
    each!(c"_foreach_ceil", rounding::ceil, REAL.and(UNSIGNED), 0.1),
    each!(c"_foreach_clamp_max.Scalar", clamp::clamp_max, FLOATING, 0.1),
    each!(c"_foreach_clamp_min.Scalar", clamp::clamp_min, FLOATING, 0.1),
    each!(c"_foreach_copy_", copy::copy_, ANY, 0.15),
    each!(c"_foreach_cos", trigonometric::cos, FIELD, 0.6),
    each!(c"_foreach_cosh", trigonometric::cosh, FIELD, 0.5),
    elementwise_list(c"_foreach_div.List", foreach::div_list, FIELD, 0.2),
    elementwise_list(c"_foreach_div.Scalar", foreach::div_scalar, FIELD, 0.15),
    each!(c"_foreach_erf", elementary::erf, FLOATING, 0.6),
    each!(c"_foreach_erfc", elementary::erfc, FLOATING, 1.0),
    each!(c"_foreach_exp", elementary::exp, FIELD, 0.3),
    each!(c"_foreach_expm1", elementary::expm1, FIELD, 0.35),
    each!(c"_foreach_floor", rounding::floor, REAL.and(UNSIGNED), 0.1),
    each!(c"_foreach_frac", rounding::frac, FLOATING, 0.1),
    elementwise_list(c"_foreach_lerp.List", foreach::lerp_list, FIELD, 0.2),
    elementwise_list(c"_foreach_lerp.Scalar", foreach::lerp_scalar, FIELD, 0.2),
    each!(c"_foreach_lgamma", special::lgamma, FLOATING, 6.0),
    each!(c"_foreach_log", elementary::log, FIELD, 0.35),
    each!(c"_foreach_log10", elementary::log10, FIELD, 0.4),
    each!(c"_foreach_log1p", elementary::log1p, FIELD, 0.4),
    each!(c"_foreach_log2", elementary::log2, FIELD, 0.4),
    reduced!(c"_foreach_max", reduce::amax::amax, REAL.and(BOOL)),
    elementwise_list(c"_foreach_maximum.List", foreach::maximum_list, ORDERED, 0.15),
    elementwise_list(c"_foreach_minimum.List", foreach::minimum_list, ORDERED, 0.15),
    elementwise_list(c"_foreach_mul.List", foreach::mul_list, FIELD.and(INTEGRAL), 0.15),
    elementwise_list(c"_foreach_mul.Scalar", foreach::mul_scalar, FIELD.and(INTEGRAL), 0.1),
    elementwise_list(c"_foreach_neg", foreach::neg, FIELD.and(INTEGRAL), 0.1),
    reduced!(c"_foreach_norm.Scalar", reduce::norm::linalg_vector_norm, FIELD),
    elementwise_list(c"_foreach_pow.List", foreach::pow_list, FIELD, 1.5),
    each!(c"_foreach_pow.Scalar", elementary::pow_scalar, FIELD, 1.0),
    elementwise_list(c"_foreach_pow.ScalarAndTensor", foreach::pow_base, FIELD, 1.5),
    elementwise_list(c"_foreach_reciprocal", foreach::reciprocal, FIELD, 0.2),
    each!(c"_foreach_round", rounding::round, REAL.and(UNSIGNED), 0.1),
    each!(c"_foreach_rsqrt", elementary::rsqrt, FIELD, 0.3),
    each!(c"_foreach_sigmoid", elementary::sigmoid, FIELD, 0.4),
    each!(c"_foreach_sign", sign::sign, REAL.and(BOOL), 0.1),
    each!(c"_foreach_sin", trigonometric::sin, FIELD, 0.6),
    each!(c"_foreach_sinh", trigonometric::sinh, FIELD, 0.6),
    elementwise_list(c"_foreach_sqrt", foreach::sqrt, FIELD, 0.2),
    elementwise_list(c"_foreach_sub.List", foreach::sub_list, FIELD.and(INTEGRAL), 0.15),
    elementwise_list(c"_foreach_sub.Scalar", foreach::sub_scalar, FIELD.and(INTEGRAL), 0.1),
    each!(c"_foreach_tan", trigonometric::tan, FIELD, 0.7),
    each!(c"_foreach_tanh", elementary::tanh, FIELD, 0.4),
    each!(c"_foreach_trunc", rounding::trunc, REAL.and(UNSIGNED), 0.1),
    elementwise_list(c"_foreach_zero_", foreach::zero, FIELD.and(INTEGRAL), 0.1),
    // optimizers
    list(c"_amp_foreach_non_finite_check_and_unscale_", optimizer::amp::unscale, FLOATING, 0.15),
    shaped(c"_amp_update_scale_", optimizer::amp::update_scale, DTypeSet::of(&[DType::Float]), 10.0),
    list(c"_fused_adagrad_", optimizer::adagrad::fused_adagrad, FLOATING, 0.6),
    list(c"_fused_adam_", optimizer::adam::fused_adam, FLOATING, 0.8),
    list(c"_fused_adamw_", optimizer::adam::fused_adamw, FLOATING, 0.8),
    list(c"_fused_sgd_", optimizer::sgd::fused_sgd, FLOATING, 0.4),
    // the namespace rustdev
    op(c"residual_add", fused::residual_add, FLOATING, 0.2),
    op(c"rotary", fused::rotary, FLOATING, 0.25),
    op(c"swiglu", fused::swiglu, FLOATING, 0.5),
    op(c"swiglu_backward", fused::swiglu_backward, FLOATING, 0.6),
];

/// Elements of the first list of a launch of lists.
fn list_numel(launch: &Launch<'_>) -> usize {
    let tensors = launch.scalar_or(0, Scalar::Long(1)).to::<i64>() as usize;
    (0..tensors.min(launch.num_operands())).map(|index| launch.view(index).numel()).sum()
}

impl Op {
    /// The operator where an element in complex numbers takes so many nanoseconds: their functions are scalar code.
    const fn in_complex(self, cost: f64) -> Self {
        Self { complex_cost: Some(cost), ..self }
    }

    /// Nanoseconds of an element that take `cost` in real numbers.
    #[inline(always)]
    fn element_cost(&self, cost: f64, compute: DType) -> f64 {
        match self.complex_cost {
            Some(complex) if compute.is_complex() => complex,
            _ => cost,
        }
    }

    /// The operator of that name.
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        TABLE.iter().find(|op| op.name.to_bytes() == name)
    }

    /// ATen's name, without namespace.
    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// The name for messages.
    #[inline]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The dtypes that the kernel computes in.
    pub fn dtypes(&self) -> DTypeSet {
        self.dtypes
    }

    /// Whether 16 bit floats may be looked up in a table of all results.
    #[cfg(test)]
    pub fn has_lookup_table(&self) -> bool {
        self.has_lookup_table
    }

    /// How its operands relate.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Estimated nanoseconds of one thread.
    #[inline]
    pub fn cost(&self, launch: &Launch<'_>) -> u64 {
        match self.cost {
            Cost::Element(cost) => (launch.view(0).numel() as f64 * self.element_cost(cost, launch.compute())) as u64,
            Cost::List(cost) => (list_numel(launch) as f64 * cost) as u64,
            Cost::Launch(cost) => cost(launch),
        }
    }

    /// As [`Op::cost`], of a dense launch.
    #[inline]
    pub fn dense_cost(&self, numel: usize, launch: &Launch<'_>) -> u64 {
        match self.cost {
            Cost::Element(cost) => (numel as f64 * self.element_cost(cost, launch.compute())) as u64,
            Cost::List(cost) => (numel as f64 * cost) as u64,
            Cost::Launch(cost) => cost(launch),
        }
    }

    /// Whether it is elementwise over lists of tensors, so that any piece of a launch can be done for itself.
    pub fn is_piecewise(&self) -> bool {
        self.is_piecewise
    }

    /// Runs the operator.
    ///
    /// # Errors
    /// The kernel's text.
    #[inline]
    pub fn run(&self, launch: &Launch<'_>) -> Result<(), Error> {
        match self.cost {
            Cost::Element(cost) if self.has_lookup_table => {
                lookup_table::run(self.text, self.kernel, &launch.with_cost(self.element_cost(cost, launch.compute())))
            }
            Cost::Element(cost) => (self.kernel)(&launch.with_cost(self.element_cost(cost, launch.compute()))),
            Cost::List(cost) => (self.kernel)(&launch.with_cost(cost)),
            Cost::Launch(_) => (self.kernel)(launch),
        }
    }

    /// How often the operator was launched; not exact where several threads launch it at once.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a launch.
    #[inline]
    pub fn count_call(&self) {
        // No atomic addition, which costs as much as a small kernel.
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::check::{Strides, Tensor};
    use crate::tensor::launch::of_views;

    #[test]
    fn names_are_unique_and_found() {
        for op in &TABLE {
            assert!(std::ptr::eq(Op::find(op.name.to_bytes()).unwrap(), op), "{}", op.text());
        }
        assert!(Op::find(b"no such operator").is_none());
    }

    #[test]
    fn functions_of_complex_numbers_cost_more() {
        let op = Op::find(b"acos").unwrap();
        let costs = [DType::Float, DType::ComplexFloat].map(|dtype| {
            let tensors = [(); 2].map(|()| Tensor::new(dtype, &[1000], Strides::Contiguous));
            let views = tensors.each_ref().map(Tensor::view);
            of_views(op.layout(), &views, 1, &[], Some(dtype), |launch| {
                assert_eq!(op.cost(launch), op.dense_cost(1000, launch));
                Ok(op.cost(launch))
            })
            .unwrap()
        });
        assert!(costs[1] > 10 * costs[0], "{costs:?}");
    }
}
