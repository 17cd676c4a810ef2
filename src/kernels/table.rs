//! The operator table: one line per operator.
//!
//! A line names the operator without its namespace (ATen's, except in the last group), its kernel, how its operands relate, and the
//! cost of an element (nanoseconds of one thread). The cost decides where the operator runs and with how many threads. The kernel's
//! operands, scalars and dtypes are declared beside the kernel ([`Signature`]).

#![forbid(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pointwise::{
    activation, arithmetic, binary, bitwise, clamp, compare, complex_parts, fused, gradient, loss, minmax, predicate, special,
    trigonometric,
};
use super::pointwise::{elementary, rounding, sign, ternary};
use super::signature::Signature;
use super::{
    attention, channel_norm, convolution, copy, depthwise, foreach, histogram, indexing, layer_norm, lookup_table, matmul,
    max_pool, movement, nll_loss, optimizer, quantized, random, reduce, rnn, scan, softmax, sorting,
};
use crate::tensor::dtype::{ALL, DType, DTypeSet, FIELD, FLOATING, ORDERED};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Launch, Layout, Scalar};

/// Nanoseconds of a function of complex numbers.
const COMPLEX_FUNCTION: f64 = 60.0;

/// A kernel's function: runs one launch. The text of an error is for the user.
pub type Run = fn(&Launch<'_>) -> Result<(), Error>;

/// A kernel: its function and its signature.
#[derive(Clone, Copy)]
struct Kernel {
    run: Run,
    signature: Signature,
}

/// The kernel at a path, with the signature that is declared beside it.
macro_rules! kernel {
    ($($path:ident)::+) => {
        Kernel { run: $($path)::+, signature: $($path)::+::SIGNATURE }
    };
}

/// The cost of a launch on one thread.
#[derive(Clone, Copy)]
pub enum Cost {
    /// Nanoseconds per element of the index space.
    Element(f64),
    /// Nanoseconds per element of a list of tensors; the launch's first scalar is the number of tensors.
    List(f64),
    /// Nanoseconds of the launch.
    Launch(fn(&Launch<'_>) -> u64),
}

/// An operator.
pub struct Op {
    name: &'static CStr,
    text: &'static str,
    kernel: Run,
    signature: Signature,
    layout: Layout,
    cost: Cost,
    /// Nanoseconds per element of complex numbers, if they differ from [`Cost::Element`].
    complex_cost: Option<f64>,
    /// True if results for 16 bit floats may come from a lookup table.
    has_lookup_table: bool,
    /// True if it is elementwise over lists of tensors, so that any piece of a launch can run separately.
    is_piecewise: bool,
    calls: AtomicU64,
}

const fn text(name: &'static CStr) -> &'static str {
    match name.to_str() {
        Ok(text) => text,
        Err(_) => panic!("names are ASCII"),
    }
}

/// An elementwise operator. Reductions count as such: their outputs have stride 0 in the reduced dimensions.
const fn op(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    let (layout, cost) = (Layout::Elementwise, Cost::Element(cost));
    let (text, calls) = (text(name), AtomicU64::new(0));
    let Kernel { run: kernel, signature } = kernel;
    Op { name, text, kernel, signature, layout, cost, complex_cost: None, has_lookup_table: false, is_piecewise: false, calls }
}

/// An elementwise operator of one input whose result depends on the element and the scalars alone, and for 16 bit floats takes
/// longer than a lookup ([`lookup_table`]).
const fn function(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { has_lookup_table: true, ..op(name, kernel, cost) }
}

/// An operator whose operands have different sizes, or whose dimensions must not be merged.
const fn shaped(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { layout: Layout::Shaped, ..op(name, kernel, cost) }
}

/// An operator over lists of tensors. Its operands are the lists one after the other; its first scalar is the number of tensors of
/// a list.
const fn list(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { cost: Cost::List(cost), ..shaped(name, kernel, 0.0) }
}

/// An elementwise operator over lists, of which the first ones are written, with at most one more operand.
const fn elementwise_list(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { is_piecewise: true, ..list(name, kernel, cost) }
}

/// A list operator that runs an elementwise kernel over every entry of its lists.
macro_rules! each {
    ($name:expr, $($path:ident)::+, $cost:expr) => {{
        let signature = $($path)::+::SIGNATURE.of_lists();
        elementwise_list($name, Kernel { run: |launch| foreach::each::<1>(launch, $($path)::+), signature }, $cost)
    }};
}

/// A list operator that reduces every tensor of its list.
macro_rules! reduced {
    ($name:expr, $($path:ident)::+) => {{
        let signature = $($path)::+::SIGNATURE.of_lists();
        let row = list($name, Kernel { run: |launch| foreach::reduce(launch, $($path)::+), signature }, 0.0);
        Op { cost: Cost::Launch(foreach::reduction_cost), ..row }
    }};
}

/// A matrix product: its operands have different sizes.
const fn product(name: &'static CStr, kernel: Kernel) -> Op {
    costed(name, kernel, matmul::cost)
}

/// An operator of operands of any sizes, with a function that computes its cost.
const fn costed(name: &'static CStr, kernel: Kernel, cost: fn(&Launch<'_>) -> u64) -> Op {
    Op { cost: Cost::Launch(cost), ..shaped(name, kernel, 0.0) }
}

const fn is_same(left: &[u8], right: &[u8]) -> bool {
    let mut index = 0;
    while index < left.len() && index < right.len() && left[index] == right[index] {
        index += 1;
    }
    index == left.len() && index == right.len()
}

/// Makes the static array of rows.
macro_rules! table {
    ($($row:expr,)*) => {
        /// Every operator.
        pub static TABLE: [Op; [$(stringify!($row)),*].len()] = [$($row),*];
    };
}

table![
    // copies and fills
    op(c"copy_", kernel!(copy::copy_), 0.15),
    op(c"fill_", kernel!(copy::fill_), 0.1),
    op(c"zero_", kernel!(copy::zero_), 0.1),
    // arithmetic
    op(c"abs", kernel!(sign::abs), 0.1),
    op(c"add", kernel!(arithmetic::add), 0.15),
    op(c"addcdiv", kernel!(ternary::addcdiv), 0.3),
    op(c"addcmul", kernel!(ternary::addcmul), 0.2),
    op(c"addr", kernel!(ternary::addr), 0.2),
    op(c"ceil", kernel!(rounding::ceil), 0.1),
    op(c"complex_abs", kernel!(sign::complex_abs), 1.0),
    op(c"copysign", kernel!(sign::copysign), 0.15),
    op(c"div", kernel!(arithmetic::div), 0.3),
    op(c"floor", kernel!(rounding::floor), 0.1),
    op(c"fmax", kernel!(minmax::fmax), 0.15),
    op(c"fmin", kernel!(minmax::fmin), 0.15),
    op(c"fmod", kernel!(arithmetic::fmod), 1.0),
    op(c"frac", kernel!(rounding::frac), 0.1),
    op(c"gcd", kernel!(binary::gcd), 20.0),
    op(c"heaviside", kernel!(binary::heaviside), 0.2),
    op(c"lcm", kernel!(binary::lcm), 25.0),
    op(c"ldexp", kernel!(binary::ldexp), 0.3),
    op(c"lerp", kernel!(ternary::lerp), 0.2),
    op(c"lerp_scalar", kernel!(ternary::lerp_scalar), 0.2),
    op(c"maximum", kernel!(minmax::maximum), 0.15),
    op(c"minimum", kernel!(minmax::minimum), 0.15),
    op(c"mul", kernel!(arithmetic::mul), 0.15),
    op(c"neg", kernel!(sign::neg), 0.1),
    op(c"nextafter", kernel!(binary::nextafter), 0.3),
    op(c"remainder", kernel!(arithmetic::remainder), 1.0),
    op(c"round", kernel!(rounding::round), 0.1),
    op(c"round_decimals", kernel!(rounding::round_decimals), 0.3),
    op(c"sgn", kernel!(sign::sgn), 0.3),
    op(c"sign", kernel!(sign::sign), 0.1),
    op(c"sub", kernel!(arithmetic::sub), 0.15),
    op(c"trunc", kernel!(rounding::trunc), 0.1),
    // bits
    op(c"bitwise_and", kernel!(bitwise::bitwise_and), 0.15),
    op(c"bitwise_left_shift", kernel!(bitwise::bitwise_left_shift), 0.15),
    op(c"bitwise_not", kernel!(bitwise::bitwise_not), 0.1),
    op(c"bitwise_or", kernel!(bitwise::bitwise_or), 0.15),
    op(c"bitwise_right_shift", kernel!(bitwise::bitwise_right_shift), 0.15),
    op(c"bitwise_xor", kernel!(bitwise::bitwise_xor), 0.15),
    // selection and limits
    op(c"clamp", kernel!(clamp::clamp), 0.1),
    op(c"clamp_max", kernel!(clamp::clamp_max), 0.1),
    op(c"clamp_max_tensor", kernel!(clamp::clamp_max_tensor), 0.15),
    op(c"clamp_min", kernel!(clamp::clamp_min), 0.1),
    op(c"clamp_min_tensor", kernel!(clamp::clamp_min_tensor), 0.15),
    op(c"clamp_tensor", kernel!(clamp::clamp_tensor), 0.2),
    op(c"nan_to_num", kernel!(complex_parts::nan_to_num), 0.15),
    op(c"where", kernel!(ternary::where_self), 0.3),
    // comparisons
    op(c"eq", kernel!(compare::eq), 0.15),
    op(c"ge", kernel!(compare::ge), 0.15),
    op(c"gt", kernel!(compare::gt), 0.15),
    op(c"le", kernel!(compare::le), 0.15),
    op(c"lt", kernel!(compare::lt), 0.15),
    op(c"ne", kernel!(compare::ne), 0.15),
    // logic
    op(c"isnan", kernel!(predicate::isnan), 0.1),
    op(c"isneginf", kernel!(predicate::isneginf), 0.1),
    op(c"isposinf", kernel!(predicate::isposinf), 0.1),
    op(c"logical_and", kernel!(predicate::logical_and), 0.15),
    op(c"logical_not", kernel!(predicate::logical_not), 0.1),
    op(c"logical_or", kernel!(predicate::logical_or), 0.15),
    op(c"logical_xor", kernel!(predicate::logical_xor), 0.15),
    op(c"signbit", kernel!(sign::signbit), 0.1),
    // trigonometric and hyperbolic functions, complex numbers
    op(c"acos", kernel!(trigonometric::acos), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"acosh", kernel!(trigonometric::acosh), 2.0).in_complex(COMPLEX_FUNCTION),
    op(c"angle", kernel!(complex_parts::angle), 0.5),
    op(c"asin", kernel!(trigonometric::asin), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"asinh", kernel!(trigonometric::asinh), 2.0).in_complex(COMPLEX_FUNCTION),
    op(c"atan", kernel!(trigonometric::atan), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"atan2", kernel!(trigonometric::atan2), 0.6),
    function(c"atanh", kernel!(trigonometric::atanh), 0.7).in_complex(COMPLEX_FUNCTION),
    op(c"complex", kernel!(complex_parts::complex), 0.3),
    function(c"cos", kernel!(trigonometric::cos), 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"cosh", kernel!(trigonometric::cosh), 0.5).in_complex(COMPLEX_FUNCTION),
    op(c"polar", kernel!(complex_parts::polar), 20.0),
    function(c"sin", kernel!(trigonometric::sin), 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"sinc", kernel!(trigonometric::sinc), 0.8).in_complex(COMPLEX_FUNCTION),
    function(c"sinh", kernel!(trigonometric::sinh), 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"tan", kernel!(trigonometric::tan), 0.7).in_complex(COMPLEX_FUNCTION),
    // elementary functions
    op(c"erf", kernel!(elementary::erf), 0.6),
    function(c"erfc", kernel!(elementary::erfc), 1.0),
    op(c"exp", kernel!(elementary::exp), 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"exp2", kernel!(elementary::exp2), 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"expm1", kernel!(elementary::expm1), 0.35).in_complex(COMPLEX_FUNCTION),
    op(c"hypot", kernel!(elementary::hypot), 0.4),
    function(c"log", kernel!(elementary::log), 0.35).in_complex(COMPLEX_FUNCTION),
    function(c"log10", kernel!(elementary::log10), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"log1p", kernel!(elementary::log1p), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"log2", kernel!(elementary::log2), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"logaddexp", kernel!(elementary::logaddexp), 0.9).in_complex(COMPLEX_FUNCTION),
    op(c"logaddexp2", kernel!(elementary::logaddexp2), 0.9),
    function(c"logit", kernel!(elementary::logit), 0.5),
    op(c"pow", kernel!(elementary::pow), 2.0).in_complex(COMPLEX_FUNCTION),
    function(c"pow_scalar", kernel!(elementary::pow_scalar), 1.0).in_complex(COMPLEX_FUNCTION),
    op(c"reciprocal", kernel!(elementary::reciprocal), 0.2),
    op(c"rsqrt", kernel!(elementary::rsqrt), 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"sigmoid", kernel!(elementary::sigmoid), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"sqrt", kernel!(elementary::sqrt), 0.2).in_complex(COMPLEX_FUNCTION),
    op(c"tanh", kernel!(elementary::tanh), 0.4).in_complex(COMPLEX_FUNCTION),
    // statistics and physics
    function(c"digamma", kernel!(special::digamma), 6.0),
    function(c"erfinv", kernel!(special::erfinv), 1.2),
    function(c"i0", kernel!(special::i0), 4.0),
    op(c"kaiser_window", kernel!(special::kaiser_window), 10.0),
    function(c"lgamma", kernel!(special::lgamma), 4.5),
    function(c"special_entr", kernel!(special::special_entr), 0.5),
    function(c"special_erfcx", kernel!(special::special_erfcx), 3.0),
    op(c"special_hermite_polynomial_h", kernel!(special::special_hermite_polynomial_h), 10.0),
    op(c"special_hermite_polynomial_he", kernel!(special::special_hermite_polynomial_he), 10.0),
    function(c"special_i0e", kernel!(special::special_i0e), 4.0),
    function(c"special_i1", kernel!(special::special_i1), 4.0),
    function(c"special_i1e", kernel!(special::special_i1e), 4.0),
    function(c"special_log_ndtr", kernel!(special::special_log_ndtr), 6.0),
    function(c"special_ndtri", kernel!(special::special_ndtri), 5.0),
    op(c"special_spherical_bessel_j0", kernel!(special::special_spherical_bessel_j0), 1.5),
    op(c"special_xlog1py", kernel!(special::special_xlog1py), 0.7),
    op(c"xlogy", kernel!(special::xlogy), 0.5),
    // activations and losses
    op(c"_prelu_kernel", kernel!(activation::prelu), 0.15),
    op(c"binary_cross_entropy", kernel!(loss::binary_cross_entropy), 1.0),
    op(c"binary_cross_entropy_backward", kernel!(loss::binary_cross_entropy_backward), 0.3),
    op(c"elu", kernel!(activation::elu), 0.4),
    op(c"elu_backward", kernel!(gradient::elu_backward), 0.4),
    op(c"gelu", kernel!(activation::gelu), 0.6),
    op(c"gelu_backward", kernel!(gradient::gelu_backward), 0.8),
    op(c"glu", kernel!(activation::glu), 0.5),
    op(c"glu_backward", kernel!(gradient::glu_backward), 0.25),
    op(c"hardshrink", kernel!(activation::hardshrink), 0.1),
    op(c"hardshrink_backward", kernel!(gradient::hardshrink_backward), 0.15),
    op(c"hardsigmoid", kernel!(activation::hardsigmoid), 0.15),
    op(c"hardsigmoid_backward", kernel!(gradient::hardsigmoid_backward), 0.15),
    op(c"hardswish", kernel!(activation::hardswish), 0.15),
    op(c"hardswish_backward", kernel!(gradient::hardswish_backward), 0.2),
    op(c"hardtanh_backward", kernel!(gradient::hardtanh_backward), 0.15),
    op(c"huber_loss", kernel!(loss::huber_loss), 0.2),
    op(c"huber_loss_backward", kernel!(loss::huber_loss_backward), 0.25),
    op(c"leaky_relu", kernel!(activation::leaky_relu), 0.1),
    op(c"leaky_relu_backward", kernel!(gradient::leaky_relu_backward), 0.15),
    op(c"log_sigmoid_backward", kernel!(gradient::log_sigmoid_backward), 0.4),
    function(c"log_sigmoid_forward", kernel!(activation::log_sigmoid), 0.6),
    op(c"logit_backward", kernel!(gradient::logit_backward), 0.3),
    function(c"mish", kernel!(activation::mish), 0.4),
    op(c"mish_backward", kernel!(gradient::mish_backward), 0.5),
    op(c"mse_loss_backward", kernel!(loss::mse_loss_backward), 0.2),
    op(c"mse_loss", kernel!(loss::mse_loss), 0.15),
    op(c"relu", kernel!(activation::relu), 0.1),
    op(c"sigmoid_backward", kernel!(gradient::sigmoid_backward), 0.15),
    op(c"silu", kernel!(activation::silu), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"silu_backward", kernel!(gradient::silu_backward), 0.5).in_complex(COMPLEX_FUNCTION),
    op(c"smooth_l1_loss", kernel!(loss::smooth_l1_loss), 0.2),
    op(c"smooth_l1_loss_backward", kernel!(loss::smooth_l1_loss_backward), 0.25),
    function(c"softplus", kernel!(activation::softplus), 2.0),
    op(c"softplus_backward", kernel!(gradient::softplus_backward), 0.5),
    op(c"softshrink", kernel!(activation::softshrink), 0.1),
    op(c"softshrink_backward", kernel!(gradient::softshrink_backward), 0.15),
    op(c"tanh_backward", kernel!(gradient::tanh_backward), 0.15),
    op(c"threshold", kernel!(activation::threshold), 0.1),
    op(c"threshold_backward", kernel!(gradient::threshold_backward), 0.15),
    // reductions
    op(c"all", kernel!(reduce::count::all), 0.05),
    op(c"amax", kernel!(reduce::amax::amax), 0.12),
    op(c"amin", kernel!(reduce::amax::amin), 0.12),
    op(c"aminmax", kernel!(reduce::amax::aminmax), 0.15),
    op(c"any", kernel!(reduce::count::any), 0.05),
    op(c"argmax", kernel!(reduce::argmax::argmax), 0.08),
    op(c"argmin", kernel!(reduce::argmax::argmin), 0.08),
    op(c"count_nonzero", kernel!(reduce::count::count_nonzero), 0.1),
    op(c"linalg_vector_norm", kernel!(reduce::norm::linalg_vector_norm), 0.1),
    op(c"max.dim", kernel!(reduce::argmax::max_dim), 0.08),
    op(c"mean", kernel!(reduce::sum::mean), 0.08),
    op(c"min.dim", kernel!(reduce::argmax::min_dim), 0.08),
    op(c"nansum", kernel!(reduce::sum::nansum), 0.08),
    op(c"prod", kernel!(reduce::product::prod), 0.05),
    op(c"std", kernel!(reduce::var::std), 0.1),
    op(c"sum", kernel!(reduce::sum::sum), 0.08),
    op(c"var", kernel!(reduce::var::var), 0.1),
    // lines along a dimension
    shaped(c"_cummax_helper", kernel!(scan::cummax), 1.0),
    shaped(c"_cummin_helper", kernel!(scan::cummin), 1.0),
    shaped(c"_log_softmax", kernel!(softmax::log_softmax), 0.6),
    shaped(c"_log_softmax_backward_data", kernel!(softmax::log_softmax_backward), 0.5),
    shaped(c"_logcumsumexp", kernel!(scan::logcumsumexp), 4.0).in_complex(COMPLEX_FUNCTION),
    costed(c"_scaled_dot_product_flash_attention_for_cpu", kernel!(attention::attention), attention::cost),
    costed(c"_scaled_dot_product_flash_attention_for_cpu_backward", kernel!(attention::attention_backward), attention::cost),
    shaped(c"_softmax", kernel!(softmax::softmax), 0.6),
    shaped(c"_softmax_backward_data", kernel!(softmax::softmax_backward), 0.3),
    shaped(c"cumprod", kernel!(scan::cumprod), 0.6),
    shaped(c"cumsum", kernel!(scan::cumsum), 0.6),
    shaped(c"_thnn_fused_lstm_cell", kernel!(rnn::lstm_cell), 4.0),
    shaped(c"_thnn_fused_lstm_cell_backward_impl", kernel!(rnn::lstm_cell_backward), 3.0),
    costed(c"elman_layer", kernel!(rnn::elman_layer), rnn::cost),
    costed(c"elman_layer_backward", kernel!(rnn::elman_layer_backward), rnn::cost),
    costed(c"gru_layer", kernel!(rnn::gru_layer), rnn::cost),
    costed(c"gru_layer_backward", kernel!(rnn::gru_layer_backward), rnn::cost),
    costed(c"lstm_layer", kernel!(rnn::lstm_layer), rnn::cost),
    costed(c"lstm_layer_backward", kernel!(rnn::lstm_layer_backward), rnn::cost),
    shaped(c"native_layer_norm", kernel!(layer_norm::native_layer_norm), 0.3),
    shaped(c"native_layer_norm_backward", kernel!(layer_norm::native_layer_norm_backward), 0.6),
    // images and classes
    costed(c"convolution", kernel!(convolution::convolution), convolution::cost),
    costed(c"depthwise", kernel!(depthwise::depthwise), depthwise::cost),
    costed(c"depthwise_weight", kernel!(depthwise::depthwise_weight), depthwise::cost),
    shaped(c"max_pool2d_with_indices", kernel!(max_pool::max_pool2d), 5.0),
    shaped(c"max_pool2d_with_indices_backward", kernel!(max_pool::max_pool2d_backward), 1.0),
    shaped(c"native_batch_norm", kernel!(channel_norm::native_batch_norm), 0.5),
    shaped(c"native_batch_norm_backward", kernel!(channel_norm::native_batch_norm_backward), 0.6),
    shaped(c"native_group_norm", kernel!(channel_norm::native_group_norm), 0.5),
    shaped(c"native_group_norm_backward", kernel!(channel_norm::native_group_norm_backward), 0.6),
    shaped(c"nll_loss_backward", kernel!(nll_loss::nll_loss_backward), 0.1),
    shaped(c"nll_loss_forward", kernel!(nll_loss::nll_loss_forward), 5.0),
    // movement
    shaped(c"arange", kernel!(movement::range_factories::arange), 0.5),
    shaped(c"cat", kernel!(movement::cat_flip_roll::cat), 0.15),
    shaped(c"col2im", kernel!(movement::unfold::col2im), 2.0),
    shaped(c"eye", kernel!(movement::triangle::eye), 0.15),
    shaped(c"flip", kernel!(movement::cat_flip_roll::flip), 0.2),
    shaped(c"im2col", kernel!(movement::unfold::im2col), 0.3),
    shaped(c"linspace", kernel!(movement::range_factories::linspace), 0.5),
    shaped(c"logspace", kernel!(movement::range_factories::logspace), 20.0),
    shaped(c"reflection_pad", kernel!(movement::pad::reflection_pad), 0.2),
    shaped(c"reflection_pad_backward", kernel!(movement::pad::reflection_pad_backward), 1.5),
    shaped(c"repeat_interleave", kernel!(movement::range_factories::repeat_interleave), 1.0),
    shaped(c"replication_pad", kernel!(movement::pad::replication_pad), 0.2),
    shaped(c"replication_pad_backward", kernel!(movement::pad::replication_pad_backward), 1.5),
    shaped(c"roll", kernel!(movement::cat_flip_roll::roll), 0.15),
    shaped(c"tril", kernel!(movement::triangle::tril), 0.15),
    shaped(c"tril_indices", kernel!(movement::triangle::tril_indices), 1.0),
    shaped(c"triu", kernel!(movement::triangle::triu), 0.15),
    shaped(c"triu_indices", kernel!(movement::triangle::triu_indices), 1.0),
    shaped(c"unfold_backward", kernel!(movement::unfold::unfold_backward), 4.0),
    // sorting and searching
    costed(c"histogram", kernel!(histogram::histogram), histogram::cost),
    shaped(c"isin", kernel!(sorting::searchsorted::isin), 10.0),
    shaped(c"kthvalue", kernel!(sorting::topk::kthvalue), 2.0),
    shaped(c"median", kernel!(sorting::topk::median), 2.0),
    shaped(c"mode", kernel!(sorting::searchsorted::mode), 2.0),
    shaped(c"nanmedian", kernel!(sorting::topk::nanmedian), 2.0),
    shaped(c"searchsorted", kernel!(sorting::searchsorted::searchsorted), 6.0),
    shaped(c"sort.stable", kernel!(sorting::sort::sort), 10.0),
    shaped(c"topk", kernel!(sorting::topk::topk), 2.0),
    shaped(c"unique_collect", kernel!(sorting::unique::collect), 3.0),
    shaped(c"unique_groups", kernel!(sorting::unique::groups), 1.0),
    shaped(c"unique_line", kernel!(sorting::unique::unique_line), 15.0),
    shaped(c"unique_order", kernel!(sorting::unique::order_rows), 100.0),
    shaped(c"unique_rows", kernel!(sorting::unique::take_rows), 1.0),
    // random numbers
    op(c"bernoulli_", kernel!(random::bernoulli), 0.6),
    op(c"bernoulli_.float", kernel!(random::bernoulli_scalar), 0.5),
    op(c"binomial", kernel!(random::discrete::binomial), 100.0),
    op(c"cauchy_", kernel!(random::cauchy), 3.0),
    op(c"exponential_", kernel!(random::exponential), 0.8),
    op(c"geometric_", kernel!(random::geometric), 2.0),
    op(c"log_normal_", kernel!(random::log_normal), 4.0),
    shaped(c"multinomial", kernel!(random::discrete::multinomial), 5.0),
    op(c"native_dropout", kernel!(random::native_dropout), 0.6),
    op(c"native_dropout_backward", kernel!(random::native_dropout_backward), 0.2),
    op(c"normal_", kernel!(random::normal), 1.0),
    op(c"poisson", kernel!(random::discrete::poisson), 60.0),
    op(c"random_", kernel!(random::random), 1.0),
    op(c"randperm", kernel!(random::randperm), 10.0),
    op(c"uniform_", kernel!(random::uniform), 0.5),
    // indexing
    op(c"gather", kernel!(indexing::load), 1.0),
    shaped(c"_embedding_bag", kernel!(indexing::embedding::embedding_bag), 0.3),
    op(c"embedding_dense_backward", kernel!(indexing::update), 0.3).only(ALL),
    shaped(c"embedding_renorm_", kernel!(indexing::embedding::embedding_renorm), 1.0),
    op(c"index", kernel!(indexing::load_wrapped), 1.0),
    op(c"index_add", kernel!(indexing::update), 1.0).only(ALL),
    op(c"index_copy", kernel!(indexing::update), 1.0),
    op(c"index_fill", kernel!(indexing::update_wrapped), 1.0),
    op(c"index_reduce", kernel!(indexing::update), 1.0).only(ORDERED),
    op(c"index_put", kernel!(indexing::update_wrapped), 1.5),
    op(c"index_select", kernel!(indexing::load), 0.5),
    shaped(c"masked_scatter", kernel!(indexing::masked::masked_scatter), 1.0),
    shaped(c"masked_select", kernel!(indexing::masked::masked_select), 1.0),
    shaped(c"nonzero", kernel!(indexing::masked::nonzero), 1.0),
    shaped(c"nonzero_count", kernel!(indexing::masked::nonzero_count), 0.2),
    op(c"put", kernel!(indexing::update_wrapped), 1.5),
    op(c"scatter", kernel!(indexing::update), 1.5),
    op(c"scatter_add", kernel!(indexing::update), 1.5).only(ALL),
    op(c"scatter_reduce", kernel!(indexing::update), 1.5).only(ALL),
    op(c"take", kernel!(indexing::load_wrapped), 1.0),
    // matrix products
    shaped(c"_convert_weight_to_int4pack_for_cpu", kernel!(quantized::convert_weight_to_int4pack), 2.0),
    costed(c"_int_mm", kernel!(quantized::int_mm), quantized::int_mm_cost),
    costed(c"_weight_int4pack_mm_for_cpu", kernel!(quantized::weight_int4pack_mm), quantized::cost),
    costed(c"_weight_int8pack_mm", kernel!(quantized::weight_int8pack_mm), quantized::cost),
    product(c"mm", kernel!(matmul::mm)),
    product(c"addmm", kernel!(matmul::addmm)),
    product(c"bmm", kernel!(matmul::bmm)),
    product(c"baddbmm", kernel!(matmul::baddbmm)),
    product(c"addmv", kernel!(matmul::addmv)),
    // lists of tensors
    each!(c"_foreach_abs", sign::abs, 0.1),
    each!(c"_foreach_acos", trigonometric::acos, 0.4),
    elementwise_list(c"_foreach_add.List", kernel!(foreach::add_list), 0.15),
    elementwise_list(c"_foreach_add.Scalar", kernel!(foreach::add_scalar), 0.1),
    elementwise_list(c"_foreach_addcdiv.Scalar", kernel!(foreach::addcdiv), 0.3),
    elementwise_list(c"_foreach_addcmul.Scalar", kernel!(foreach::addcmul), 0.2),
    each!(c"_foreach_asin", trigonometric::asin, 0.4),
    each!(c"_foreach_atan", trigonometric::atan, 0.4),
    each!(c"_foreach_ceil", rounding::ceil, 0.1),
    each!(c"_foreach_clamp_max.Scalar", clamp::clamp_max, 0.1).only(FLOATING),
    each!(c"_foreach_clamp_min.Scalar", clamp::clamp_min, 0.1).only(FLOATING),
    each!(c"_foreach_copy_", copy::copy_, 0.15),
    each!(c"_foreach_cos", trigonometric::cos, 0.6),
    each!(c"_foreach_cosh", trigonometric::cosh, 0.5),
    elementwise_list(c"_foreach_div.List", kernel!(foreach::div_list), 0.2),
    elementwise_list(c"_foreach_div.Scalar", kernel!(foreach::div_scalar), 0.15),
    each!(c"_foreach_erf", elementary::erf, 0.6),
    each!(c"_foreach_erfc", elementary::erfc, 1.0),
    each!(c"_foreach_exp", elementary::exp, 0.3),
    each!(c"_foreach_expm1", elementary::expm1, 0.35),
    each!(c"_foreach_floor", rounding::floor, 0.1),
    each!(c"_foreach_frac", rounding::frac, 0.1),
    elementwise_list(c"_foreach_lerp.List", kernel!(foreach::lerp_list), 0.2),
    elementwise_list(c"_foreach_lerp.Scalar", kernel!(foreach::lerp_scalar), 0.2),
    each!(c"_foreach_lgamma", special::lgamma, 6.0),
    each!(c"_foreach_log", elementary::log, 0.35),
    each!(c"_foreach_log10", elementary::log10, 0.4),
    each!(c"_foreach_log1p", elementary::log1p, 0.4),
    each!(c"_foreach_log2", elementary::log2, 0.4),
    reduced!(c"_foreach_max", reduce::amax::amax),
    elementwise_list(c"_foreach_maximum.List", kernel!(foreach::maximum_list), 0.15),
    elementwise_list(c"_foreach_minimum.List", kernel!(foreach::minimum_list), 0.15),
    elementwise_list(c"_foreach_mul.List", kernel!(foreach::mul_list), 0.15),
    elementwise_list(c"_foreach_mul.Scalar", kernel!(foreach::mul_scalar), 0.1),
    elementwise_list(c"_foreach_neg", kernel!(foreach::neg), 0.1),
    reduced!(c"_foreach_norm.Scalar", reduce::norm::linalg_vector_norm).only(FIELD),
    elementwise_list(c"_foreach_pow.List", kernel!(foreach::pow_list), 1.5),
    each!(c"_foreach_pow.Scalar", elementary::pow_scalar, 1.0).only(FIELD),
    elementwise_list(c"_foreach_pow.ScalarAndTensor", kernel!(foreach::pow_base), 1.5),
    elementwise_list(c"_foreach_reciprocal", kernel!(foreach::reciprocal), 0.2),
    each!(c"_foreach_round", rounding::round, 0.1),
    each!(c"_foreach_rsqrt", elementary::rsqrt, 0.3),
    each!(c"_foreach_sigmoid", elementary::sigmoid, 0.4),
    each!(c"_foreach_sign", sign::sign, 0.1),
    each!(c"_foreach_sin", trigonometric::sin, 0.6),
    each!(c"_foreach_sinh", trigonometric::sinh, 0.6),
    elementwise_list(c"_foreach_sqrt", kernel!(foreach::sqrt), 0.2),
    elementwise_list(c"_foreach_sub.List", kernel!(foreach::sub_list), 0.15),
    elementwise_list(c"_foreach_sub.Scalar", kernel!(foreach::sub_scalar), 0.1),
    each!(c"_foreach_tan", trigonometric::tan, 0.7),
    each!(c"_foreach_tanh", elementary::tanh, 0.4),
    each!(c"_foreach_trunc", rounding::trunc, 0.1),
    elementwise_list(c"_foreach_zero_", kernel!(foreach::zero), 0.1),
    // optimizers
    list(c"_amp_foreach_non_finite_check_and_unscale_", kernel!(optimizer::amp::unscale), 0.15),
    shaped(c"_amp_update_scale_", kernel!(optimizer::amp::update_scale), 10.0),
    list(c"_fused_adagrad_", kernel!(optimizer::adagrad::fused_adagrad), 0.6),
    list(c"_fused_adam_", kernel!(optimizer::adam::fused_adam), 0.8),
    list(c"_fused_adamw_", kernel!(optimizer::adam::fused_adamw), 0.8),
    list(c"_fused_sgd_", kernel!(optimizer::sgd::fused_sgd), 0.4),
    // the namespace rustdev
    op(c"residual_add", kernel!(fused::residual_add), 0.2),
    op(c"rotary", kernel!(fused::rotary), 0.25),
    op(c"swiglu", kernel!(fused::swiglu), 0.5),
    op(c"swiglu_backward", kernel!(fused::swiglu_backward), 0.6),
];

/// Elements of the first list of a list operator's launch.
fn list_numel(launch: &Launch<'_>) -> usize {
    let tensors = launch.scalar_or(0, Scalar::Long(1)).to::<i64>() as usize;
    (0..tensors.min(launch.num_operands())).map(|index| launch.numel(index)).sum()
}

impl Op {
    /// The operator with another cost of an element of complex numbers, whose functions are scalar code.
    const fn in_complex(self, cost: f64) -> Self {
        Self { complex_cost: Some(cost), ..self }
    }

    /// The operator with fewer dtypes than its kernel supports.
    const fn only(self, dtypes: DTypeSet) -> Self {
        Self { signature: self.signature.only(dtypes), ..self }
    }

    /// Nanoseconds of an element that costs `cost` in real numbers.
    #[inline(always)]
    fn element_cost(&self, cost: f64, compute: DType) -> f64 {
        match self.complex_cost {
            Some(complex) if compute.is_complex() => complex,
            _ => cost,
        }
    }

    /// The operator with this name.
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        TABLE.iter().find(|op| op.name.to_bytes() == name)
    }

    /// The operator with this name, for statics: a name that the table lacks does not compile.
    pub const fn named(name: &CStr) -> &'static Self {
        let mut index = 0;
        while !is_same(TABLE[index].name.to_bytes(), name.to_bytes()) {
            index += 1;
        }
        &TABLE[index]
    }

    /// ATen's name, without namespace.
    #[inline]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The kernel's signature.
    #[inline(always)]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The dtypes that the kernel computes in.
    #[inline(always)]
    pub fn dtypes(&self) -> DTypeSet {
        self.signature.dtypes()
    }

    /// How its operands relate.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Estimated nanoseconds of one thread.
    #[inline]
    pub fn cost(&self, launch: &Launch<'_>) -> u64 {
        match self.cost {
            Cost::Element(cost) => (launch.numel(0) as f64 * self.element_cost(cost, launch.compute())) as u64,
            Cost::List(cost) => (list_numel(launch) as f64 * cost) as u64,
            Cost::Launch(cost) => cost(launch),
        }
    }

    /// [`Op::cost`] for a dense launch.
    #[inline]
    pub fn dense_cost(&self, numel: usize, launch: &Launch<'_>) -> u64 {
        match self.cost {
            Cost::Element(cost) => (numel as f64 * self.element_cost(cost, launch.compute())) as u64,
            Cost::List(cost) => (numel as f64 * cost) as u64,
            Cost::Launch(cost) => cost(launch),
        }
    }

    /// True if it is elementwise over lists of tensors, so that any piece of a launch can run separately.
    pub fn is_piecewise(&self) -> bool {
        self.is_piecewise
    }

    /// Runs the operator.
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

    /// How often the operator was launched; approximate if several threads launch it at once.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a launch.
    #[inline]
    pub fn count_call(&self) {
        // An atomic addition would cost as much as a small kernel.
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
