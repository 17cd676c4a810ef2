//! The operator table: groups of operators whose kernels are in one module.
//!
//! A group begins with how the operands relate and with the module, `pointwise::sign` for `pointwise::kernel::sign`. A limit of all
//! its rows may follow: `only(..)` some dtypes, or another cost `in_complex(..)`. Then come the operators: the name without its
//! namespace (ATen's, except in the last group and for helpers), the kernel behind `=` if it has another name, and the cost of an
//! element (nanoseconds of one thread) or, for `costed`, the module's function that computes a launch's. The cost decides where the
//! operator runs and with how many threads. The kernel's operands, scalars and dtypes are declared beside the kernel
//! ([`Signature`]). Rows of the kinds `each` and `reduced` run a kernel over every tensor of a list; their names begin with
//! `_foreach_`.

#![forbid(unsafe_code)]

use std::ffi::CStr;

use super::{
    attention, convolution, copy, embedding, factories, foreach, histogram, indexing, loss, masked, matmul, movement,
    normalization, optimizer, pointwise, pooling, quantized, random, reductions, rnn, scan, softmax, sorting,
};
use crate::tensor::dtype::{ALL, FIELD, FLOATING, ORDERED};
use crate::tensor::op::{Kernel, Op, Run, c, costed, elementwise_list, function, list, op, shaped};
#[cfg(doc)]
use crate::tensor::signature::Signature;

/// Nanoseconds of a function of complex numbers.
const COMPLEX_FUNCTION: f64 = 60.0;

/// A string literal that ends with NUL, as a C string.
macro_rules! name {
    ($($text:tt)+) => { c(concat!($($text)+, "\0")) };
}

/// Makes a row: `row!(kind [family::path, limit(value)] name [kernel] cost)`. Without a kernel, the kernel has the name.
macro_rules! row {
    ($kind:ident [$family:ident$(::$path:ident)*, $limit:ident($value:expr)] $($row:tt)+) => {
        row!($kind [$family$(::$path)*] $($row)+).$limit($value)
    };
    ($kind:ident $module:tt $kernel:ident [] $($cost:tt)?) => { row!(@$kind $module [stringify!($kernel)] $kernel $($cost)?) };
    ($kind:ident $module:tt $name:ident [$kernel:ident] $($cost:tt)?) => {
        row!(@$kind $module [stringify!($name)] $kernel $($cost)?)
    };
    ($kind:ident $module:tt $name:literal [$kernel:ident] $($cost:tt)?) => { row!(@$kind $module [$name] $kernel $($cost)?) };
    (@each [$family:ident$(::$path:ident)*] [$($name:tt)+] $kernel:ident $cost:expr) => {{
        let signature = $family::kernel$(::$path)*::$kernel::SIGNATURE.of_lists();
        let run: Run = |launch| foreach::kernel::each::<1>(launch, $family::kernel$(::$path)*::$kernel);
        elementwise_list(name!("_foreach_", $($name)+), Kernel { run, signature }, $cost)
    }};
    (@reduced [$family:ident$(::$path:ident)*] [$($name:tt)+] $kernel:ident) => {{
        let signature = $family::kernel$(::$path)*::$kernel::SIGNATURE.of_lists();
        let run: Run = |launch| foreach::kernel::reduce(launch, $family::kernel$(::$path)*::$kernel);
        costed(name!("_foreach_", $($name)+), Kernel { run, signature }, foreach::kernel::reduction_cost)
    }};
    (@costed [$family:ident$(::$path:ident)*] [$($name:tt)+] $kernel:ident $cost:ident) => {
        row!(@costed [$family$(::$path)*] [$($name)+] $kernel $family::kernel$(::$path)*::$cost)
    };
    (@$kind:ident [$family:ident$(::$path:ident)*] [$($name:tt)+] $kernel:ident $cost:expr) => {{
        let (run, signature) = ($family::kernel$(::$path)*::$kernel, $family::kernel$(::$path)*::$kernel::SIGNATURE);
        $kind(name!($($name)+), Kernel { run, signature }, $cost)
    }};
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
    ($($kind:ident $module:tt $($name:tt $(= $kernel:ident)? $($cost:literal)? $($function:ident)?),+;)*) => {
        /// Every operator.
        pub static TABLE: [Op; [$($(stringify!($name)),+),*].len()] =
            [$($(row!($kind $module $name [$($kernel)?] $($cost)? $($function)?)),+),*];
    };
}

table! {
    // copies and fills
    op [copy] copy_ 0.15, fill_ 0.1, zero_ 0.1;
    // arithmetic
    op [pointwise::sign] abs 0.1, complex_abs 1.0, copysign 0.15, neg 0.1, sgn 0.3, sign 0.1;
    op [pointwise::arithmetic] add 0.15, div 0.3, fmod 1.0, mul 0.15, remainder 1.0, sub 0.15;
    op [pointwise::ternary] addcdiv 0.3, addcmul 0.2, addr 0.2, lerp 0.2, lerp_scalar 0.2;
    op [pointwise::rounding] ceil 0.1, floor 0.1, frac 0.1, round 0.1, round_decimals 0.3, trunc 0.1;
    op [pointwise::compare] fmax 0.15, fmin 0.15, maximum 0.15, minimum 0.15;
    op [pointwise::binary] gcd 20.0, heaviside 0.2, lcm 25.0, ldexp 0.3, nextafter 0.3;
    // bits
    op [pointwise::bitwise] bitwise_and 0.15, bitwise_left_shift 0.15, bitwise_not 0.1, bitwise_or 0.15, bitwise_right_shift 0.15,
        bitwise_xor 0.15;
    // selection and limits
    op [pointwise::clamp] clamp 0.1, clamp_max 0.1, clamp_max_tensor 0.15, clamp_min 0.1, clamp_min_tensor 0.15, clamp_tensor 0.2;
    op [pointwise::complex_parts] nan_to_num 0.15;
    op [pointwise::ternary] "where" = where_self 0.3;
    // comparisons
    op [pointwise::compare] eq 0.15, ge 0.15, gt 0.15, le 0.15, lt 0.15, ne 0.15;
    // logic
    op [pointwise::predicate] isnan 0.1, isneginf 0.1, isposinf 0.1, logical_and 0.15, logical_not 0.1, logical_or 0.15,
        logical_xor 0.15;
    op [pointwise::sign] signbit 0.1;
    // trigonometric and hyperbolic functions, complex numbers
    op [pointwise::trigonometric, in_complex(COMPLEX_FUNCTION)] acos 0.4, asin 0.4, atan 0.4;
    function [pointwise::trigonometric, in_complex(COMPLEX_FUNCTION)] acosh 2.0, asinh 2.0, atanh 0.7, cos 0.6, cosh 0.5, sin 0.6,
        sinc 0.8, sinh 0.6, tan 0.7;
    op [pointwise::complex_parts] angle 0.5, complex 0.3, polar 20.0;
    op [pointwise::trigonometric] atan2 0.6;
    // elementary functions
    op [pointwise::elementary] erf 0.6, hypot 0.4, logaddexp2 0.9, reciprocal 0.2;
    function [pointwise::elementary] erfc 1.0, logit 0.5;
    op [pointwise::elementary, in_complex(COMPLEX_FUNCTION)] exp 0.3, exp2 0.3, expm1 0.35, logaddexp 0.9, pow 2.0, rsqrt 0.3,
        sigmoid 0.4, sqrt 0.2, tanh 0.4;
    function [pointwise::elementary, in_complex(COMPLEX_FUNCTION)] log 0.35, log10 0.4, log1p 0.4, log2 0.4, pow_scalar 1.0;
    // statistics and physics
    function [pointwise::special] digamma 6.0, erfinv 1.2, i0 4.0, lgamma 4.5, special_entr 0.5, special_erfcx 3.0, special_i0e 4.0,
        special_i1 4.0, special_i1e 4.0, special_log_ndtr 6.0, special_ndtri 5.0;
    op [pointwise::special] kaiser_window 10.0, special_hermite_polynomial_h 10.0, special_hermite_polynomial_he 10.0,
        special_spherical_bessel_j0 1.5, special_xlog1py 0.7, xlogy 0.5;
    // activations and losses
    op [pointwise::activation] _prelu_kernel = prelu 0.15, elu 0.4, gelu 0.6, glu 0.5, hardshrink 0.1, hardsigmoid 0.15,
        hardswish 0.15, leaky_relu 0.1, relu 0.1, softshrink 0.1, threshold 0.1;
    op [loss::elementwise] binary_cross_entropy 1.0, binary_cross_entropy_backward 0.3, huber_loss 0.2, huber_loss_backward 0.25,
        mse_loss_backward 0.2, mse_loss 0.15, smooth_l1_loss 0.2, smooth_l1_loss_backward 0.25;
    op [pointwise::gradient] elu_backward 0.4, gelu_backward 0.8, glu_backward 0.25, hardshrink_backward 0.15,
        hardsigmoid_backward 0.15, hardswish_backward 0.2, hardtanh_backward 0.15, leaky_relu_backward 0.15,
        log_sigmoid_backward 0.4, logit_backward 0.3, mish_backward 0.5, sigmoid_backward 0.15, softplus_backward 0.5,
        softshrink_backward 0.15, tanh_backward 0.15, threshold_backward 0.15;
    function [pointwise::activation] log_sigmoid_forward = log_sigmoid 0.6, mish 0.4, softplus 2.0;
    op [pointwise::activation, in_complex(COMPLEX_FUNCTION)] silu 0.4;
    op [pointwise::gradient, in_complex(COMPLEX_FUNCTION)] silu_backward 0.5;
    // reductions
    op [reductions::count] all 0.05, any 0.05, count_nonzero 0.1;
    op [reductions::amax] amax 0.12, amin 0.12, aminmax 0.15, argmax 0.08, argmin 0.08, "max.dim" = max_dim 0.08,
        "min.dim" = min_dim 0.08;
    op [reductions::norm] linalg_vector_norm 0.1;
    op [reductions::sum] mean 0.08, nansum 0.08, prod 0.05, sum 0.08;
    op [reductions::var] std 0.1, var 0.1;
    // lines along a dimension
    shaped [scan] _cummax_helper = cummax 1.0, _cummin_helper = cummin 1.0, cumprod 0.6, cumsum 0.6;
    shaped [softmax] _log_softmax = log_softmax 0.6, _log_softmax_backward_data = log_softmax_backward 0.5, _softmax = softmax 0.6,
        _softmax_backward_data = softmax_backward 0.3;
    shaped [scan, in_complex(COMPLEX_FUNCTION)] _logcumsumexp = logcumsumexp 4.0;
    costed [attention] _scaled_dot_product_flash_attention_for_cpu = attention cost,
        _scaled_dot_product_flash_attention_for_cpu_backward = attention_backward cost;
    shaped [rnn] _thnn_fused_lstm_cell = lstm_cell 4.0, _thnn_fused_lstm_cell_backward_impl = lstm_cell_backward 3.0;
    costed [rnn] elman_layer cost, elman_layer_backward cost, gru_layer cost, gru_layer_backward cost, lstm_layer cost,
        lstm_layer_backward cost;
    shaped [normalization::layer_norm] native_layer_norm 0.3, native_layer_norm_backward 0.6;
    // images and classes
    costed [convolution] convolution cost;
    costed [convolution::depthwise] depthwise cost, depthwise_weight cost;
    shaped [pooling] max_pool2d_with_indices = max_pool2d 5.0, max_pool2d_with_indices_backward = max_pool2d_backward 1.0;
    shaped [normalization::channel_norm] native_batch_norm 0.5, native_batch_norm_backward 0.6, native_group_norm 0.5,
        native_group_norm_backward 0.6;
    shaped [loss] nll_loss_backward 0.1, nll_loss_forward 5.0;
    // movement
    shaped [factories] arange 0.5, linspace 0.5, logspace 20.0, repeat_interleave 1.0;
    shaped [movement::cat_flip_roll] cat 0.15, flip 0.2, roll 0.15;
    shaped [movement::unfold] col2im 2.0, im2col 0.3, unfold_backward 4.0;
    shaped [movement::triangle] eye 0.15, tril 0.15, tril_indices 1.0, triu 0.15, triu_indices 1.0;
    shaped [movement::pad] reflection_pad 0.2, reflection_pad_backward 1.5, replication_pad 0.2, replication_pad_backward 1.5;
    // sorting and searching
    costed [histogram] histogram cost;
    shaped [sorting::searchsorted] isin 10.0, mode 2.0, searchsorted 6.0;
    shaped [sorting::topk] kthvalue 2.0, median 2.0, nanmedian 2.0, topk 2.0;
    shaped [sorting::sort] "sort.stable" = sort 10.0;
    shaped [sorting::unique] unique_collect = collect 3.0, unique_groups = groups 1.0, unique_line 15.0,
        unique_order = order_rows 100.0, unique_rows = take_rows 1.0;
    // random numbers
    op [random] bernoulli_ = bernoulli 0.6, "bernoulli_.float" = bernoulli_scalar 0.5, cauchy_ = cauchy 3.0,
        exponential_ = exponential 0.8, geometric_ = geometric 2.0, log_normal_ = log_normal 4.0, native_dropout 0.6,
        native_dropout_backward 0.2, normal_ = normal 1.0, random_ = random 1.0, randperm 10.0, uniform_ = uniform 0.5;
    op [random::discrete] binomial 100.0, poisson 60.0;
    shaped [random::discrete] multinomial 5.0;
    // indexing
    op [indexing] gather 1.0, index = gather_wrapped 1.0, index_select = gather 0.5, take = gather_wrapped 1.0;
    op [indexing::scatter] index_copy = scatter 1.0, index_fill = scatter_wrapped 1.0, index_put = scatter_wrapped 1.5,
        put = scatter_wrapped 1.5, scatter 1.5;
    op [indexing::scatter, only(ALL)] embedding_dense_backward = scatter 0.3, index_add = scatter 1.0, scatter_add = scatter 1.5,
        scatter_reduce = scatter 1.5;
    op [indexing::scatter, only(ORDERED)] index_reduce = scatter 1.0;
    shaped [embedding] _embedding_bag = embedding_bag 0.3, embedding_renorm_ = embedding_renorm 1.0;
    shaped [masked] masked_scatter 1.0, masked_select 1.0, nonzero 1.0, nonzero_count 0.2;
    // matrix products
    shaped [quantized] _convert_weight_to_int4pack_for_cpu = convert_weight_to_int4pack 2.0;
    costed [quantized] _int_mm = int_mm int_mm_cost, _weight_int4pack_mm_for_cpu = weight_int4pack_mm cost,
        _weight_int8pack_mm = weight_int8pack_mm cost;
    costed [matmul] mm cost, addmm cost, bmm cost, baddbmm cost, addmv cost;
    // lists of tensors
    each [pointwise::sign] abs 0.1, sign 0.1;
    each [pointwise::trigonometric] acos 0.4, asin 0.4, atan 0.4, cos 0.6, cosh 0.5, sin 0.6, sinh 0.6, tan 0.7;
    elementwise_list [foreach] "_foreach_add.List" = add_list 0.15, "_foreach_add.Scalar" = add_scalar 0.1,
        "_foreach_addcdiv.Scalar" = addcdiv 0.3, "_foreach_addcmul.Scalar" = addcmul 0.2, "_foreach_div.List" = div_list 0.2,
        "_foreach_div.Scalar" = div_scalar 0.15, "_foreach_lerp.List" = lerp_list 0.2, "_foreach_lerp.Scalar" = lerp_scalar 0.2,
        "_foreach_maximum.List" = maximum_list 0.15, "_foreach_minimum.List" = minimum_list 0.15,
        "_foreach_mul.List" = mul_list 0.15, "_foreach_mul.Scalar" = mul_scalar 0.1, _foreach_neg = neg 0.1,
        "_foreach_pow.List" = pow_list 1.5, "_foreach_pow.ScalarAndTensor" = pow_base 1.5, _foreach_reciprocal = reciprocal 0.2,
        _foreach_sqrt = sqrt 0.2, "_foreach_sub.List" = sub_list 0.15, "_foreach_sub.Scalar" = sub_scalar 0.1,
        _foreach_zero_ = zero 0.1;
    each [pointwise::rounding] ceil 0.1, floor 0.1, frac 0.1, round 0.1, trunc 0.1;
    each [pointwise::clamp, only(FLOATING)] "clamp_max.Scalar" = clamp_max 0.1, "clamp_min.Scalar" = clamp_min 0.1;
    each [copy] copy_ 0.15;
    each [pointwise::elementary] erf 0.6, erfc 1.0, exp 0.3, expm1 0.35, log 0.35, log10 0.4, log1p 0.4, log2 0.4, rsqrt 0.3,
        sigmoid 0.4, tanh 0.4;
    each [pointwise::special] lgamma 6.0;
    reduced [reductions::amax] max = amax;
    reduced [reductions::norm, only(FIELD)] "norm.Scalar" = linalg_vector_norm;
    each [pointwise::elementary, only(FIELD)] "pow.Scalar" = pow_scalar 1.0;
    // optimizers
    list [optimizer::amp] _amp_foreach_non_finite_check_and_unscale_ = unscale 0.15;
    shaped [optimizer::amp] _amp_update_scale_ = update_scale 10.0;
    list [optimizer::adagrad] _fused_adagrad_ = fused_adagrad 0.6;
    list [optimizer::adam] _fused_adam_ = fused_adam 0.8, _fused_adamw_ = fused_adamw 0.8;
    list [optimizer::sgd] _fused_sgd_ = fused_sgd 0.4;
    // the namespace rustdev
    op [pointwise::custom] residual_add 0.2, rotary 0.25, swiglu 0.5, swiglu_backward 0.6;
}

impl Op {
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
