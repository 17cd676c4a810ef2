//! The operator table: one line per operator.
//!
//! A line names the operator without its namespace (ATen's, except in the last group), its kernel, how its operands relate, and the
//! cost of an element (nanoseconds of one thread). The cost decides where the operator runs and with how many threads. The kernel's
//! operands, scalars and dtypes are declared beside the kernel ([`Signature`]).

#![forbid(unsafe_code)]

use std::ffi::CStr;

use super::{
    attention, convolution, copy, embedding, factories, foreach, histogram, indexing, loss, masked, matmul, movement,
    normalization, optimizer, pointwise, pooling, quantized, random, reductions, rnn, scan, softmax, sorting,
};
use crate::tensor::dtype::{ALL, FIELD, FLOATING, ORDERED};
use crate::tensor::op::{Kernel, Op, Run, costed, elementwise_list, function, list, op, shaped};
#[cfg(doc)]
use crate::tensor::signature::Signature;

/// Nanoseconds of a function of complex numbers.
const COMPLEX_FUNCTION: f64 = 60.0;

/// The kernel of a family at a path, with the signature that is declared beside it.
macro_rules! kernel {
    ($family:ident$(::$path:ident)+) => {
        Kernel { run: $family::kernel$(::$path)+, signature: $family::kernel$(::$path)+::SIGNATURE }
    };
}

/// A list operator that runs an elementwise kernel over every entry of its lists.
macro_rules! each {
    ($name:expr, $family:ident$(::$path:ident)+, $cost:expr) => {{
        let signature = $family::kernel$(::$path)+::SIGNATURE.of_lists();
        let run: Run = |launch| foreach::kernel::each::<1>(launch, $family::kernel$(::$path)+);
        elementwise_list($name, Kernel { run, signature }, $cost)
    }};
}

/// A list operator that reduces every tensor of its list.
macro_rules! reduced {
    ($name:expr, $family:ident$(::$path:ident)+) => {{
        let signature = $family::kernel$(::$path)+::SIGNATURE.of_lists();
        let run: Run = |launch| foreach::kernel::reduce(launch, $family::kernel$(::$path)+);
        costed($name, Kernel { run, signature }, foreach::kernel::reduction_cost)
    }};
}

/// A matrix product: its operands have different sizes.
const fn product(name: &'static CStr, kernel: Kernel) -> Op {
    costed(name, kernel, matmul::kernel::cost)
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
    op(c"abs", kernel!(pointwise::sign::abs), 0.1),
    op(c"add", kernel!(pointwise::arithmetic::add), 0.15),
    op(c"addcdiv", kernel!(pointwise::ternary::addcdiv), 0.3),
    op(c"addcmul", kernel!(pointwise::ternary::addcmul), 0.2),
    op(c"addr", kernel!(pointwise::ternary::addr), 0.2),
    op(c"ceil", kernel!(pointwise::rounding::ceil), 0.1),
    op(c"complex_abs", kernel!(pointwise::sign::complex_abs), 1.0),
    op(c"copysign", kernel!(pointwise::sign::copysign), 0.15),
    op(c"div", kernel!(pointwise::arithmetic::div), 0.3),
    op(c"floor", kernel!(pointwise::rounding::floor), 0.1),
    op(c"fmax", kernel!(pointwise::compare::fmax), 0.15),
    op(c"fmin", kernel!(pointwise::compare::fmin), 0.15),
    op(c"fmod", kernel!(pointwise::arithmetic::fmod), 1.0),
    op(c"frac", kernel!(pointwise::rounding::frac), 0.1),
    op(c"gcd", kernel!(pointwise::binary::gcd), 20.0),
    op(c"heaviside", kernel!(pointwise::binary::heaviside), 0.2),
    op(c"lcm", kernel!(pointwise::binary::lcm), 25.0),
    op(c"ldexp", kernel!(pointwise::binary::ldexp), 0.3),
    op(c"lerp", kernel!(pointwise::ternary::lerp), 0.2),
    op(c"lerp_scalar", kernel!(pointwise::ternary::lerp_scalar), 0.2),
    op(c"maximum", kernel!(pointwise::compare::maximum), 0.15),
    op(c"minimum", kernel!(pointwise::compare::minimum), 0.15),
    op(c"mul", kernel!(pointwise::arithmetic::mul), 0.15),
    op(c"neg", kernel!(pointwise::sign::neg), 0.1),
    op(c"nextafter", kernel!(pointwise::binary::nextafter), 0.3),
    op(c"remainder", kernel!(pointwise::arithmetic::remainder), 1.0),
    op(c"round", kernel!(pointwise::rounding::round), 0.1),
    op(c"round_decimals", kernel!(pointwise::rounding::round_decimals), 0.3),
    op(c"sgn", kernel!(pointwise::sign::sgn), 0.3),
    op(c"sign", kernel!(pointwise::sign::sign), 0.1),
    op(c"sub", kernel!(pointwise::arithmetic::sub), 0.15),
    op(c"trunc", kernel!(pointwise::rounding::trunc), 0.1),
    // bits
    op(c"bitwise_and", kernel!(pointwise::bitwise::bitwise_and), 0.15),
    op(c"bitwise_left_shift", kernel!(pointwise::bitwise::bitwise_left_shift), 0.15),
    op(c"bitwise_not", kernel!(pointwise::bitwise::bitwise_not), 0.1),
    op(c"bitwise_or", kernel!(pointwise::bitwise::bitwise_or), 0.15),
    op(c"bitwise_right_shift", kernel!(pointwise::bitwise::bitwise_right_shift), 0.15),
    op(c"bitwise_xor", kernel!(pointwise::bitwise::bitwise_xor), 0.15),
    // selection and limits
    op(c"clamp", kernel!(pointwise::clamp::clamp), 0.1),
    op(c"clamp_max", kernel!(pointwise::clamp::clamp_max), 0.1),
    op(c"clamp_max_tensor", kernel!(pointwise::clamp::clamp_max_tensor), 0.15),
    op(c"clamp_min", kernel!(pointwise::clamp::clamp_min), 0.1),
    op(c"clamp_min_tensor", kernel!(pointwise::clamp::clamp_min_tensor), 0.15),
    op(c"clamp_tensor", kernel!(pointwise::clamp::clamp_tensor), 0.2),
    op(c"nan_to_num", kernel!(pointwise::complex_parts::nan_to_num), 0.15),
    op(c"where", kernel!(pointwise::ternary::where_self), 0.3),
    // comparisons
    op(c"eq", kernel!(pointwise::compare::eq), 0.15),
    op(c"ge", kernel!(pointwise::compare::ge), 0.15),
    op(c"gt", kernel!(pointwise::compare::gt), 0.15),
    op(c"le", kernel!(pointwise::compare::le), 0.15),
    op(c"lt", kernel!(pointwise::compare::lt), 0.15),
    op(c"ne", kernel!(pointwise::compare::ne), 0.15),
    // logic
    op(c"isnan", kernel!(pointwise::predicate::isnan), 0.1),
    op(c"isneginf", kernel!(pointwise::predicate::isneginf), 0.1),
    op(c"isposinf", kernel!(pointwise::predicate::isposinf), 0.1),
    op(c"logical_and", kernel!(pointwise::predicate::logical_and), 0.15),
    op(c"logical_not", kernel!(pointwise::predicate::logical_not), 0.1),
    op(c"logical_or", kernel!(pointwise::predicate::logical_or), 0.15),
    op(c"logical_xor", kernel!(pointwise::predicate::logical_xor), 0.15),
    op(c"signbit", kernel!(pointwise::sign::signbit), 0.1),
    // trigonometric and hyperbolic functions, complex numbers
    op(c"acos", kernel!(pointwise::trigonometric::acos), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"acosh", kernel!(pointwise::trigonometric::acosh), 2.0).in_complex(COMPLEX_FUNCTION),
    op(c"angle", kernel!(pointwise::complex_parts::angle), 0.5),
    op(c"asin", kernel!(pointwise::trigonometric::asin), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"asinh", kernel!(pointwise::trigonometric::asinh), 2.0).in_complex(COMPLEX_FUNCTION),
    op(c"atan", kernel!(pointwise::trigonometric::atan), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"atan2", kernel!(pointwise::trigonometric::atan2), 0.6),
    function(c"atanh", kernel!(pointwise::trigonometric::atanh), 0.7).in_complex(COMPLEX_FUNCTION),
    op(c"complex", kernel!(pointwise::complex_parts::complex), 0.3),
    function(c"cos", kernel!(pointwise::trigonometric::cos), 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"cosh", kernel!(pointwise::trigonometric::cosh), 0.5).in_complex(COMPLEX_FUNCTION),
    op(c"polar", kernel!(pointwise::complex_parts::polar), 20.0),
    function(c"sin", kernel!(pointwise::trigonometric::sin), 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"sinc", kernel!(pointwise::trigonometric::sinc), 0.8).in_complex(COMPLEX_FUNCTION),
    function(c"sinh", kernel!(pointwise::trigonometric::sinh), 0.6).in_complex(COMPLEX_FUNCTION),
    function(c"tan", kernel!(pointwise::trigonometric::tan), 0.7).in_complex(COMPLEX_FUNCTION),
    // elementary functions
    op(c"erf", kernel!(pointwise::elementary::erf), 0.6),
    function(c"erfc", kernel!(pointwise::elementary::erfc), 1.0),
    op(c"exp", kernel!(pointwise::elementary::exp), 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"exp2", kernel!(pointwise::elementary::exp2), 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"expm1", kernel!(pointwise::elementary::expm1), 0.35).in_complex(COMPLEX_FUNCTION),
    op(c"hypot", kernel!(pointwise::elementary::hypot), 0.4),
    function(c"log", kernel!(pointwise::elementary::log), 0.35).in_complex(COMPLEX_FUNCTION),
    function(c"log10", kernel!(pointwise::elementary::log10), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"log1p", kernel!(pointwise::elementary::log1p), 0.4).in_complex(COMPLEX_FUNCTION),
    function(c"log2", kernel!(pointwise::elementary::log2), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"logaddexp", kernel!(pointwise::elementary::logaddexp), 0.9).in_complex(COMPLEX_FUNCTION),
    op(c"logaddexp2", kernel!(pointwise::elementary::logaddexp2), 0.9),
    function(c"logit", kernel!(pointwise::elementary::logit), 0.5),
    op(c"pow", kernel!(pointwise::elementary::pow), 2.0).in_complex(COMPLEX_FUNCTION),
    function(c"pow_scalar", kernel!(pointwise::elementary::pow_scalar), 1.0).in_complex(COMPLEX_FUNCTION),
    op(c"reciprocal", kernel!(pointwise::elementary::reciprocal), 0.2),
    op(c"rsqrt", kernel!(pointwise::elementary::rsqrt), 0.3).in_complex(COMPLEX_FUNCTION),
    op(c"sigmoid", kernel!(pointwise::elementary::sigmoid), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"sqrt", kernel!(pointwise::elementary::sqrt), 0.2).in_complex(COMPLEX_FUNCTION),
    op(c"tanh", kernel!(pointwise::elementary::tanh), 0.4).in_complex(COMPLEX_FUNCTION),
    // statistics and physics
    function(c"digamma", kernel!(pointwise::special::digamma), 6.0),
    function(c"erfinv", kernel!(pointwise::special::erfinv), 1.2),
    function(c"i0", kernel!(pointwise::special::i0), 4.0),
    op(c"kaiser_window", kernel!(pointwise::special::kaiser_window), 10.0),
    function(c"lgamma", kernel!(pointwise::special::lgamma), 4.5),
    function(c"special_entr", kernel!(pointwise::special::special_entr), 0.5),
    function(c"special_erfcx", kernel!(pointwise::special::special_erfcx), 3.0),
    op(c"special_hermite_polynomial_h", kernel!(pointwise::special::special_hermite_polynomial_h), 10.0),
    op(c"special_hermite_polynomial_he", kernel!(pointwise::special::special_hermite_polynomial_he), 10.0),
    function(c"special_i0e", kernel!(pointwise::special::special_i0e), 4.0),
    function(c"special_i1", kernel!(pointwise::special::special_i1), 4.0),
    function(c"special_i1e", kernel!(pointwise::special::special_i1e), 4.0),
    function(c"special_log_ndtr", kernel!(pointwise::special::special_log_ndtr), 6.0),
    function(c"special_ndtri", kernel!(pointwise::special::special_ndtri), 5.0),
    op(c"special_spherical_bessel_j0", kernel!(pointwise::special::special_spherical_bessel_j0), 1.5),
    op(c"special_xlog1py", kernel!(pointwise::special::special_xlog1py), 0.7),
    op(c"xlogy", kernel!(pointwise::special::xlogy), 0.5),
    // activations and losses
    op(c"_prelu_kernel", kernel!(pointwise::activation::prelu), 0.15),
    op(c"binary_cross_entropy", kernel!(loss::elementwise::binary_cross_entropy), 1.0),
    op(c"binary_cross_entropy_backward", kernel!(loss::elementwise::binary_cross_entropy_backward), 0.3),
    op(c"elu", kernel!(pointwise::activation::elu), 0.4),
    op(c"elu_backward", kernel!(pointwise::gradient::elu_backward), 0.4),
    op(c"gelu", kernel!(pointwise::activation::gelu), 0.6),
    op(c"gelu_backward", kernel!(pointwise::gradient::gelu_backward), 0.8),
    op(c"glu", kernel!(pointwise::activation::glu), 0.5),
    op(c"glu_backward", kernel!(pointwise::gradient::glu_backward), 0.25),
    op(c"hardshrink", kernel!(pointwise::activation::hardshrink), 0.1),
    op(c"hardshrink_backward", kernel!(pointwise::gradient::hardshrink_backward), 0.15),
    op(c"hardsigmoid", kernel!(pointwise::activation::hardsigmoid), 0.15),
    op(c"hardsigmoid_backward", kernel!(pointwise::gradient::hardsigmoid_backward), 0.15),
    op(c"hardswish", kernel!(pointwise::activation::hardswish), 0.15),
    op(c"hardswish_backward", kernel!(pointwise::gradient::hardswish_backward), 0.2),
    op(c"hardtanh_backward", kernel!(pointwise::gradient::hardtanh_backward), 0.15),
    op(c"huber_loss", kernel!(loss::elementwise::huber_loss), 0.2),
    op(c"huber_loss_backward", kernel!(loss::elementwise::huber_loss_backward), 0.25),
    op(c"leaky_relu", kernel!(pointwise::activation::leaky_relu), 0.1),
    op(c"leaky_relu_backward", kernel!(pointwise::gradient::leaky_relu_backward), 0.15),
    op(c"log_sigmoid_backward", kernel!(pointwise::gradient::log_sigmoid_backward), 0.4),
    function(c"log_sigmoid_forward", kernel!(pointwise::activation::log_sigmoid), 0.6),
    op(c"logit_backward", kernel!(pointwise::gradient::logit_backward), 0.3),
    function(c"mish", kernel!(pointwise::activation::mish), 0.4),
    op(c"mish_backward", kernel!(pointwise::gradient::mish_backward), 0.5),
    op(c"mse_loss_backward", kernel!(loss::elementwise::mse_loss_backward), 0.2),
    op(c"mse_loss", kernel!(loss::elementwise::mse_loss), 0.15),
    op(c"relu", kernel!(pointwise::activation::relu), 0.1),
    op(c"sigmoid_backward", kernel!(pointwise::gradient::sigmoid_backward), 0.15),
    op(c"silu", kernel!(pointwise::activation::silu), 0.4).in_complex(COMPLEX_FUNCTION),
    op(c"silu_backward", kernel!(pointwise::gradient::silu_backward), 0.5).in_complex(COMPLEX_FUNCTION),
    op(c"smooth_l1_loss", kernel!(loss::elementwise::smooth_l1_loss), 0.2),
    op(c"smooth_l1_loss_backward", kernel!(loss::elementwise::smooth_l1_loss_backward), 0.25),
    function(c"softplus", kernel!(pointwise::activation::softplus), 2.0),
    op(c"softplus_backward", kernel!(pointwise::gradient::softplus_backward), 0.5),
    op(c"softshrink", kernel!(pointwise::activation::softshrink), 0.1),
    op(c"softshrink_backward", kernel!(pointwise::gradient::softshrink_backward), 0.15),
    op(c"tanh_backward", kernel!(pointwise::gradient::tanh_backward), 0.15),
    op(c"threshold", kernel!(pointwise::activation::threshold), 0.1),
    op(c"threshold_backward", kernel!(pointwise::gradient::threshold_backward), 0.15),
    // reductions
    op(c"all", kernel!(reductions::count::all), 0.05),
    op(c"amax", kernel!(reductions::amax::amax), 0.12),
    op(c"amin", kernel!(reductions::amax::amin), 0.12),
    op(c"aminmax", kernel!(reductions::amax::aminmax), 0.15),
    op(c"any", kernel!(reductions::count::any), 0.05),
    op(c"argmax", kernel!(reductions::amax::argmax), 0.08),
    op(c"argmin", kernel!(reductions::amax::argmin), 0.08),
    op(c"count_nonzero", kernel!(reductions::count::count_nonzero), 0.1),
    op(c"linalg_vector_norm", kernel!(reductions::norm::linalg_vector_norm), 0.1),
    op(c"max.dim", kernel!(reductions::amax::max_dim), 0.08),
    op(c"mean", kernel!(reductions::sum::mean), 0.08),
    op(c"min.dim", kernel!(reductions::amax::min_dim), 0.08),
    op(c"nansum", kernel!(reductions::sum::nansum), 0.08),
    op(c"prod", kernel!(reductions::sum::prod), 0.05),
    op(c"std", kernel!(reductions::var::std), 0.1),
    op(c"sum", kernel!(reductions::sum::sum), 0.08),
    op(c"var", kernel!(reductions::var::var), 0.1),
    // lines along a dimension
    shaped(c"_cummax_helper", kernel!(scan::cummax), 1.0),
    shaped(c"_cummin_helper", kernel!(scan::cummin), 1.0),
    shaped(c"_log_softmax", kernel!(softmax::log_softmax), 0.6),
    shaped(c"_log_softmax_backward_data", kernel!(softmax::log_softmax_backward), 0.5),
    shaped(c"_logcumsumexp", kernel!(scan::logcumsumexp), 4.0).in_complex(COMPLEX_FUNCTION),
    costed(c"_scaled_dot_product_flash_attention_for_cpu", kernel!(attention::attention), attention::kernel::cost),
    costed(
        c"_scaled_dot_product_flash_attention_for_cpu_backward",
        kernel!(attention::attention_backward),
        attention::kernel::cost
    ),
    shaped(c"_softmax", kernel!(softmax::softmax), 0.6),
    shaped(c"_softmax_backward_data", kernel!(softmax::softmax_backward), 0.3),
    shaped(c"cumprod", kernel!(scan::cumprod), 0.6),
    shaped(c"cumsum", kernel!(scan::cumsum), 0.6),
    shaped(c"_thnn_fused_lstm_cell", kernel!(rnn::lstm_cell), 4.0),
    shaped(c"_thnn_fused_lstm_cell_backward_impl", kernel!(rnn::lstm_cell_backward), 3.0),
    costed(c"elman_layer", kernel!(rnn::elman_layer), rnn::kernel::cost),
    costed(c"elman_layer_backward", kernel!(rnn::elman_layer_backward), rnn::kernel::cost),
    costed(c"gru_layer", kernel!(rnn::gru_layer), rnn::kernel::cost),
    costed(c"gru_layer_backward", kernel!(rnn::gru_layer_backward), rnn::kernel::cost),
    costed(c"lstm_layer", kernel!(rnn::lstm_layer), rnn::kernel::cost),
    costed(c"lstm_layer_backward", kernel!(rnn::lstm_layer_backward), rnn::kernel::cost),
    shaped(c"native_layer_norm", kernel!(normalization::layer_norm::native_layer_norm), 0.3),
    shaped(c"native_layer_norm_backward", kernel!(normalization::layer_norm::native_layer_norm_backward), 0.6),
    // images and classes
    costed(c"convolution", kernel!(convolution::convolution), convolution::kernel::cost),
    costed(c"depthwise", kernel!(convolution::depthwise::depthwise), convolution::kernel::depthwise::cost),
    costed(c"depthwise_weight", kernel!(convolution::depthwise::depthwise_weight), convolution::kernel::depthwise::cost),
    shaped(c"max_pool2d_with_indices", kernel!(pooling::max_pool2d), 5.0),
    shaped(c"max_pool2d_with_indices_backward", kernel!(pooling::max_pool2d_backward), 1.0),
    shaped(c"native_batch_norm", kernel!(normalization::channel_norm::native_batch_norm), 0.5),
    shaped(c"native_batch_norm_backward", kernel!(normalization::channel_norm::native_batch_norm_backward), 0.6),
    shaped(c"native_group_norm", kernel!(normalization::channel_norm::native_group_norm), 0.5),
    shaped(c"native_group_norm_backward", kernel!(normalization::channel_norm::native_group_norm_backward), 0.6),
    shaped(c"nll_loss_backward", kernel!(loss::nll_loss_backward), 0.1),
    shaped(c"nll_loss_forward", kernel!(loss::nll_loss_forward), 5.0),
    // movement
    shaped(c"arange", kernel!(factories::arange), 0.5),
    shaped(c"cat", kernel!(movement::cat_flip_roll::cat), 0.15),
    shaped(c"col2im", kernel!(movement::unfold::col2im), 2.0),
    shaped(c"eye", kernel!(movement::triangle::eye), 0.15),
    shaped(c"flip", kernel!(movement::cat_flip_roll::flip), 0.2),
    shaped(c"im2col", kernel!(movement::unfold::im2col), 0.3),
    shaped(c"linspace", kernel!(factories::linspace), 0.5),
    shaped(c"logspace", kernel!(factories::logspace), 20.0),
    shaped(c"reflection_pad", kernel!(movement::pad::reflection_pad), 0.2),
    shaped(c"reflection_pad_backward", kernel!(movement::pad::reflection_pad_backward), 1.5),
    shaped(c"repeat_interleave", kernel!(factories::repeat_interleave), 1.0),
    shaped(c"replication_pad", kernel!(movement::pad::replication_pad), 0.2),
    shaped(c"replication_pad_backward", kernel!(movement::pad::replication_pad_backward), 1.5),
    shaped(c"roll", kernel!(movement::cat_flip_roll::roll), 0.15),
    shaped(c"tril", kernel!(movement::triangle::tril), 0.15),
    shaped(c"tril_indices", kernel!(movement::triangle::tril_indices), 1.0),
    shaped(c"triu", kernel!(movement::triangle::triu), 0.15),
    shaped(c"triu_indices", kernel!(movement::triangle::triu_indices), 1.0),
    shaped(c"unfold_backward", kernel!(movement::unfold::unfold_backward), 4.0),
    // sorting and searching
    costed(c"histogram", kernel!(histogram::histogram), histogram::kernel::cost),
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
    shaped(c"_embedding_bag", kernel!(embedding::embedding_bag), 0.3),
    op(c"embedding_dense_backward", kernel!(indexing::update), 0.3).only(ALL),
    shaped(c"embedding_renorm_", kernel!(embedding::embedding_renorm), 1.0),
    op(c"index", kernel!(indexing::load_wrapped), 1.0),
    op(c"index_add", kernel!(indexing::update), 1.0).only(ALL),
    op(c"index_copy", kernel!(indexing::update), 1.0),
    op(c"index_fill", kernel!(indexing::update_wrapped), 1.0),
    op(c"index_reduce", kernel!(indexing::update), 1.0).only(ORDERED),
    op(c"index_put", kernel!(indexing::update_wrapped), 1.5),
    op(c"index_select", kernel!(indexing::load), 0.5),
    shaped(c"masked_scatter", kernel!(masked::masked_scatter), 1.0),
    shaped(c"masked_select", kernel!(masked::masked_select), 1.0),
    shaped(c"nonzero", kernel!(masked::nonzero), 1.0),
    shaped(c"nonzero_count", kernel!(masked::nonzero_count), 0.2),
    op(c"put", kernel!(indexing::update_wrapped), 1.5),
    op(c"scatter", kernel!(indexing::update), 1.5),
    op(c"scatter_add", kernel!(indexing::update), 1.5).only(ALL),
    op(c"scatter_reduce", kernel!(indexing::update), 1.5).only(ALL),
    op(c"take", kernel!(indexing::load_wrapped), 1.0),
    // matrix products
    shaped(c"_convert_weight_to_int4pack_for_cpu", kernel!(quantized::convert_weight_to_int4pack), 2.0),
    costed(c"_int_mm", kernel!(quantized::int_mm), quantized::kernel::int_mm_cost),
    costed(c"_weight_int4pack_mm_for_cpu", kernel!(quantized::weight_int4pack_mm), quantized::kernel::cost),
    costed(c"_weight_int8pack_mm", kernel!(quantized::weight_int8pack_mm), quantized::kernel::cost),
    product(c"mm", kernel!(matmul::mm)),
    product(c"addmm", kernel!(matmul::addmm)),
    product(c"bmm", kernel!(matmul::bmm)),
    product(c"baddbmm", kernel!(matmul::baddbmm)),
    product(c"addmv", kernel!(matmul::addmv)),
    // lists of tensors
    each!(c"_foreach_abs", pointwise::sign::abs, 0.1),
    each!(c"_foreach_acos", pointwise::trigonometric::acos, 0.4),
    elementwise_list(c"_foreach_add.List", kernel!(foreach::add_list), 0.15),
    elementwise_list(c"_foreach_add.Scalar", kernel!(foreach::add_scalar), 0.1),
    elementwise_list(c"_foreach_addcdiv.Scalar", kernel!(foreach::addcdiv), 0.3),
    elementwise_list(c"_foreach_addcmul.Scalar", kernel!(foreach::addcmul), 0.2),
    each!(c"_foreach_asin", pointwise::trigonometric::asin, 0.4),
    each!(c"_foreach_atan", pointwise::trigonometric::atan, 0.4),
    each!(c"_foreach_ceil", pointwise::rounding::ceil, 0.1),
    each!(c"_foreach_clamp_max.Scalar", pointwise::clamp::clamp_max, 0.1).only(FLOATING),
    each!(c"_foreach_clamp_min.Scalar", pointwise::clamp::clamp_min, 0.1).only(FLOATING),
    each!(c"_foreach_copy_", copy::copy_, 0.15),
    each!(c"_foreach_cos", pointwise::trigonometric::cos, 0.6),
    each!(c"_foreach_cosh", pointwise::trigonometric::cosh, 0.5),
    elementwise_list(c"_foreach_div.List", kernel!(foreach::div_list), 0.2),
    elementwise_list(c"_foreach_div.Scalar", kernel!(foreach::div_scalar), 0.15),
    each!(c"_foreach_erf", pointwise::elementary::erf, 0.6),
    each!(c"_foreach_erfc", pointwise::elementary::erfc, 1.0),
    each!(c"_foreach_exp", pointwise::elementary::exp, 0.3),
    each!(c"_foreach_expm1", pointwise::elementary::expm1, 0.35),
    each!(c"_foreach_floor", pointwise::rounding::floor, 0.1),
    each!(c"_foreach_frac", pointwise::rounding::frac, 0.1),
    elementwise_list(c"_foreach_lerp.List", kernel!(foreach::lerp_list), 0.2),
    elementwise_list(c"_foreach_lerp.Scalar", kernel!(foreach::lerp_scalar), 0.2),
    each!(c"_foreach_lgamma", pointwise::special::lgamma, 6.0),
    each!(c"_foreach_log", pointwise::elementary::log, 0.35),
    each!(c"_foreach_log10", pointwise::elementary::log10, 0.4),
    each!(c"_foreach_log1p", pointwise::elementary::log1p, 0.4),
    each!(c"_foreach_log2", pointwise::elementary::log2, 0.4),
    reduced!(c"_foreach_max", reductions::amax::amax),
    elementwise_list(c"_foreach_maximum.List", kernel!(foreach::maximum_list), 0.15),
    elementwise_list(c"_foreach_minimum.List", kernel!(foreach::minimum_list), 0.15),
    elementwise_list(c"_foreach_mul.List", kernel!(foreach::mul_list), 0.15),
    elementwise_list(c"_foreach_mul.Scalar", kernel!(foreach::mul_scalar), 0.1),
    elementwise_list(c"_foreach_neg", kernel!(foreach::neg), 0.1),
    reduced!(c"_foreach_norm.Scalar", reductions::norm::linalg_vector_norm).only(FIELD),
    elementwise_list(c"_foreach_pow.List", kernel!(foreach::pow_list), 1.5),
    each!(c"_foreach_pow.Scalar", pointwise::elementary::pow_scalar, 1.0).only(FIELD),
    elementwise_list(c"_foreach_pow.ScalarAndTensor", kernel!(foreach::pow_base), 1.5),
    elementwise_list(c"_foreach_reciprocal", kernel!(foreach::reciprocal), 0.2),
    each!(c"_foreach_round", pointwise::rounding::round, 0.1),
    each!(c"_foreach_rsqrt", pointwise::elementary::rsqrt, 0.3),
    each!(c"_foreach_sigmoid", pointwise::elementary::sigmoid, 0.4),
    each!(c"_foreach_sign", pointwise::sign::sign, 0.1),
    each!(c"_foreach_sin", pointwise::trigonometric::sin, 0.6),
    each!(c"_foreach_sinh", pointwise::trigonometric::sinh, 0.6),
    elementwise_list(c"_foreach_sqrt", kernel!(foreach::sqrt), 0.2),
    elementwise_list(c"_foreach_sub.List", kernel!(foreach::sub_list), 0.15),
    elementwise_list(c"_foreach_sub.Scalar", kernel!(foreach::sub_scalar), 0.1),
    each!(c"_foreach_tan", pointwise::trigonometric::tan, 0.7),
    each!(c"_foreach_tanh", pointwise::elementary::tanh, 0.4),
    each!(c"_foreach_trunc", pointwise::rounding::trunc, 0.1),
    elementwise_list(c"_foreach_zero_", kernel!(foreach::zero), 0.1),
    // optimizers
    list(c"_amp_foreach_non_finite_check_and_unscale_", kernel!(optimizer::amp::unscale), 0.15),
    shaped(c"_amp_update_scale_", kernel!(optimizer::amp::update_scale), 10.0),
    list(c"_fused_adagrad_", kernel!(optimizer::adagrad::fused_adagrad), 0.6),
    list(c"_fused_adam_", kernel!(optimizer::adam::fused_adam), 0.8),
    list(c"_fused_adamw_", kernel!(optimizer::adam::fused_adamw), 0.8),
    list(c"_fused_sgd_", kernel!(optimizer::sgd::fused_sgd), 0.4),
    // the namespace rustdev
    op(c"residual_add", kernel!(pointwise::fused::residual_add), 0.2),
    op(c"rotary", kernel!(pointwise::fused::rotary), 0.25),
    op(c"swiglu", kernel!(pointwise::fused::swiglu), 0.5),
    op(c"swiglu_backward", kernel!(pointwise::fused::swiglu_backward), 0.6),
];

impl Op {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{Strides, Tensor};
    use crate::tensor::dtype::DType;
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
