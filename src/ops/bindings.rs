//! The lists of all operators that are bound in Rust: their kernels, the functions that prepare calls, and ATen's names.
//! [`pointwise`] has the pointwise ones, [`tasks`] those that PyTorch's CPU kernels compute.

mod pointwise;
mod tasks;

use std::ffi::CStr;

use super::attention::operator::{self as attention, transformer};
use super::convolution::operator as convolution;
use super::embedding::operator as embedding;
use super::factories::operator as factories;
use super::foreach::operator as foreach;
use super::histogram::operator as histogram;
use super::indexing::operator::{self as indexing, gather_scatter};
use super::launch_by_name;
use super::loss::operator as loss;
use super::masked::operator as masked;
use super::matmul::operator as matmul;
use super::movement::operator::{self as movement, unfold};
use super::normalization::operator::{channel_norm, layer_norm};
use super::optimizer::operator as optimizer;
use super::pooling::operator as pooling;
use super::quantized::operator as quantized;
use super::random::operator as random;
use super::reductions::operator as reductions;
use super::rnn::operator::layer::{GRU, LSTM, RNN_RELU, RNN_TANH};
use super::rnn::operator::{cell, layer};
use super::scan::operator as scan;
use super::softmax::operator as softmax;
use super::sorting::operator::{self as sorting, unique};
use crate::call::operator::{Implementation, Kernel, Operator, any_device, any_dtype, plain, structured, structured_as};
use crate::call::{CallError, typed};
use crate::tensor::Op;
use pointwise::{NAMED, POINTWISE};
use tasks::TASKS;

pub fn operators() -> impl Iterator<Item = &'static Operator> {
    let others = attention::OPERATORS.iter().chain(&foreach::OPERATORS).chain(&convolution::OPERATORS).chain(&quantized::OPERATORS);
    OPERATORS.iter().chain(&COMPOSED).chain(&POINTWISE).chain(&NAMED).chain(others).chain(&TASKS)
}

/// The operators of rustdev's own library: their names and the rest of their schemas.
pub fn definitions() -> impl Iterator<Item = (&'static CStr, &'static CStr)> {
    layer::DEFINITIONS.into_iter().chain([launch_by_name::DEFINITION])
}

/// Leaves every call to PyTorch's composite implementation, although there is a CPU kernel, too.
const COMPOSITION: Implementation = any_device(plain(|_, _| Err(CallError::Composite)));

/// Lines of operators: kernel, function of a call, overloads.
macro_rules! operators {
    ($($kernel:literal: $prepare:expr => $($($name:literal),+)|+;)*) => {
        /// Operators that a Rust kernel computes.
        static OPERATORS: [Operator; [$($(stringify!($($name)+)),+),*].len()] = [$($(
            Operator { names: &[$($name),+], kernel: Kernel::Row(Op::named($kernel)), prepare: $prepare },
        )+)*];
    };
}

operators! {
    // padding
    c"reflection_pad": structured(typed!(movement::pad::<false>)) =>
        c"reflection_pad1d", c"reflection_pad1d.out" | c"reflection_pad3d", c"reflection_pad3d.out";
    c"reflection_pad": structured_as(c"replication_pad2d", typed!(movement::pad::<true>)) =>
        c"reflection_pad2d", c"reflection_pad2d.out";
    c"replication_pad": structured(typed!(movement::pad::<false>)) =>
        c"replication_pad1d", c"replication_pad1d.out" | c"replication_pad2d", c"replication_pad2d.out" | c"replication_pad3d",
        c"replication_pad3d.out";
    c"reflection_pad_backward": structured(typed!(movement::reflect_lines_backward)) =>
        c"reflection_pad1d_backward", c"reflection_pad1d_backward.grad_input";
    c"reflection_pad_backward": structured(typed!(movement::pad_backward_of_meta)) =>
        c"reflection_pad3d_backward", c"reflection_pad3d_backward.grad_input";
    c"reflection_pad_backward": plain(typed!(movement::pad_backward::<2>)) =>
        c"reflection_pad2d_backward", c"reflection_pad2d_backward.grad_input";
    c"replication_pad_backward": structured(typed!(movement::pad_backward_of_meta)) =>
        c"replication_pad1d_backward", c"replication_pad1d_backward.grad_input";
    c"replication_pad_backward": plain(typed!(movement::pad_backward::<2>)) =>
        c"replication_pad2d_backward", c"replication_pad2d_backward.grad_input";
    c"replication_pad_backward": plain(typed!(movement::pad_backward::<3>)) =>
        c"replication_pad3d_backward", c"replication_pad3d_backward.grad_input";
    // windows
    c"im2col": plain(unfold::im2col) => c"im2col", c"im2col.out";
    c"col2im": plain(unfold::col2im) => c"col2im", c"col2im.out";
    c"unfold_backward": plain(typed!(unfold::unfold_backward)) => c"unfold_backward";
    c"max_pool2d_with_indices": structured(pooling::max_pool2d) => c"max_pool2d_with_indices", c"max_pool2d_with_indices.out";
    c"max_pool2d_with_indices_backward": structured(pooling::max_pool2d_backward) =>
        c"max_pool2d_with_indices_backward", c"max_pool2d_with_indices_backward.grad_input";
    // reductions
    c"sum": any_dtype(plain(typed!(reductions::sum_of_all))) => c"sum";
    c"mean": any_dtype(plain(typed!(reductions::mean_of_all))) => c"mean";
    c"sum": any_dtype(structured(typed!(reductions::sum))) => c"sum.dim_IntList", c"sum.IntList_out";
    c"mean": any_dtype(structured(typed!(reductions::mean))) => c"mean.dim", c"mean.out";
    c"prod": any_dtype(structured(typed!(reductions::sum))) => c"prod.dim_int", c"prod.int_out";
    c"prod": any_dtype(plain(typed!(reductions::sum_of_all))) => c"prod";
    c"amax": structured(typed!(reductions::amax)) => c"amax", c"amax.out";
    c"amin": structured(typed!(reductions::amax)) => c"amin", c"amin.out";
    c"all": any_dtype(structured(typed!(reductions::logical_of_all))) => c"all", c"all.all_out";
    c"all": any_dtype(structured(typed!(reductions::logical))) => c"all.dim", c"all.out" | c"all.dims", c"all.dims_out";
    c"any": any_dtype(structured(typed!(reductions::logical_of_all))) => c"any", c"any.all_out";
    c"any": any_dtype(structured(typed!(reductions::logical))) => c"any.dim", c"any.out" | c"any.dims", c"any.dims_out";
    c"linalg_vector_norm": any_dtype(structured(reductions::vector_norm)) => c"linalg_vector_norm", c"linalg_vector_norm.out";
    c"nansum": any_dtype(plain(typed!(reductions::nansum))) => c"nansum", c"nansum.out";
    c"count_nonzero": plain(typed!(reductions::count_nonzero)) => c"count_nonzero.dim_IntList" | c"count_nonzero";
    c"max.dim": structured(typed!(reductions::pair)) => c"max.dim", c"max.dim_max";
    c"min.dim": structured(typed!(reductions::pair)) => c"min.dim", c"min.dim_min";
    c"aminmax": structured(typed!(reductions::pair)) => c"aminmax", c"aminmax.out";
    c"amax": plain(typed!(reductions::max)) => c"max", c"max.unary_out";
    c"amin": plain(typed!(reductions::max)) => c"min", c"min.unary_out";
    c"argmax": structured(typed!(reductions::argmax)) => c"argmax", c"argmax.out";
    c"argmin": structured(typed!(reductions::argmax)) => c"argmin", c"argmin.out";
    c"var": any_dtype(plain(reductions::variance::<false>)) => c"var.correction", c"var.correction_out";
    c"std": any_dtype(plain(reductions::variance::<false>)) => c"std.correction", c"std.correction_out";
    c"var": any_dtype(plain(reductions::variance::<true>)) => c"var_mean.correction";
    c"std": any_dtype(plain(reductions::variance::<true>)) => c"std_mean.correction";
    // matrix products
    c"mm": any_dtype(structured(typed!(matmul::multiply::<2>))) => c"mm", c"mm.out";
    c"bmm": any_dtype(structured(typed!(matmul::multiply::<3>))) => c"bmm", c"bmm.out";
    c"addmm": any_dtype(structured(matmul::multiply_and_add::<2, 2>)) => c"addmm", c"addmm_", c"addmm.out";
    c"baddbmm": any_dtype(structured(matmul::multiply_and_add::<3, 3>)) => c"baddbmm", c"baddbmm_", c"baddbmm.out";
    c"addmv": any_dtype(structured(matmul::multiply_and_add::<2, 1>)) => c"addmv", c"addmv_", c"addmv.out";
    c"_weight_int8pack_mm": any_dtype(plain(typed!(quantized::weight_int8pack_mm))) => c"_weight_int8pack_mm";
    c"_weight_int4pack_mm_for_cpu": any_dtype(plain(typed!(quantized::weight_int4pack_mm))) => c"_weight_int4pack_mm_for_cpu";
    c"_convert_weight_to_int4pack_for_cpu": any_dtype(plain(typed!(quantized::convert_weight_to_int4pack))) =>
        c"_convert_weight_to_int4pack_for_cpu";
    // along a dimension
    c"_softmax": any_dtype(structured(typed!(softmax::softmax))) => c"_softmax", c"_softmax.out";
    c"_log_softmax": any_dtype(structured(typed!(softmax::softmax))) => c"_log_softmax", c"_log_softmax.out";
    c"_softmax_backward_data": any_dtype(structured(typed!(softmax::softmax_backward))) =>
        c"_softmax_backward_data", c"_softmax_backward_data.out";
    c"_log_softmax_backward_data": any_dtype(structured(typed!(softmax::softmax_backward))) =>
        c"_log_softmax_backward_data", c"_log_softmax_backward_data.out";
    c"cumsum": any_dtype(structured(typed!(scan::scan))) => c"cumsum", c"cumsum_", c"cumsum.out";
    c"cumprod": any_dtype(structured(typed!(scan::scan))) => c"cumprod", c"cumprod_", c"cumprod.out";
    c"_logcumsumexp": plain(typed!(scan::logcumsumexp)) => c"_logcumsumexp", c"_logcumsumexp.out";
    c"_cummax_helper": plain(typed!(scan::cummax)) => c"_cummax_helper";
    c"_cummin_helper": plain(typed!(scan::cummax)) => c"_cummin_helper";
    // movement
    c"cat": structured(typed!(movement::cat)) => c"cat", c"cat.out";
    c"flip": plain(typed!(movement::flip)) => c"flip";
    c"roll": plain(typed!(movement::roll)) => c"roll";
    c"tril": structured(typed!(movement::triangle)) => c"tril", c"tril_", c"tril.out";
    c"triu": structured(typed!(movement::triangle)) => c"triu", c"triu_", c"triu.out";
    c"copy_": any_dtype(plain(typed!(movement::shuffle))) => c"channel_shuffle" | c"native_channel_shuffle";
    // gather, scatter and other operators with indices
    c"scatter": structured(gather_scatter::scatter) =>
        c"scatter.src", c"scatter_.src", c"scatter.src_out" | c"scatter.value", c"scatter_.value", c"scatter.value_out";
    c"scatter_reduce": structured(gather_scatter::scatter) =>
        c"scatter.reduce", c"scatter_.reduce", c"scatter.reduce_out" | c"scatter.value_reduce", c"scatter_.value_reduce",
        c"scatter.value_reduce_out" | c"scatter_reduce.two", c"scatter_reduce_.two", c"scatter_reduce.two_out";
    c"scatter_add": structured(gather_scatter::scatter) => c"scatter_add", c"scatter_add_", c"scatter_add.out";
    c"index_add": structured(gather_scatter::scatter) => c"index_add", c"index_add_", c"index_add.out";
    c"index_copy": structured(gather_scatter::scatter) => c"index_copy", c"index_copy_", c"index_copy.out";
    c"index_reduce": structured(gather_scatter::scatter) => c"index_reduce", c"index_reduce_", c"index_reduce.out";
    c"index_fill": plain(typed!(gather_scatter::index_fill)) => c"index_fill_.int_Scalar";
    c"index_fill": plain(typed!(gather_scatter::index_fill_tensor)) => c"index_fill_.int_Tensor";
    c"index": plain(typed!(indexing::index)) => c"index.Tensor", c"index.Tensor_out";
    c"index_put": plain(indexing::put) => c"index_put_" | c"_index_put_impl_";
    c"gather": structured(typed!(gather_scatter::gather)) => c"gather", c"gather.out";
    c"index_select": plain(typed!(gather_scatter::select)) => c"index_select", c"index_select.out";
    c"take": plain(typed!(gather_scatter::take)) => c"take", c"take.out";
    c"put": plain(typed!(gather_scatter::put)) => c"put_";
    c"embedding_dense_backward": plain(embedding::backward) => c"embedding_dense_backward";
    c"_embedding_bag": plain(embedding::bag) => c"_embedding_bag" | c"_embedding_bag_forward_only";
    c"embedding_renorm_": plain(typed!(embedding::renorm)) => c"embedding_renorm_";
    // masks
    c"masked_select": plain(typed!(masked::select)) => c"masked_select", c"masked_select.out";
    c"where": plain(typed!(masked::fill)) => c"masked_fill_.Scalar";
    c"where": plain(typed!(masked::fill_with_tensor)) => c"masked_fill_.Tensor";
    c"masked_scatter": plain(typed!(masked::scatter)) => c"masked_scatter_";
    c"nonzero": plain(typed!(masked::nonzero)) => c"nonzero", c"nonzero.out";
    c"nonzero": plain(typed!(masked::nonzero_static)) => c"nonzero_static", c"nonzero_static.out";
    // selection
    c"kthvalue": plain(typed!(sorting::kthvalue)) => c"kthvalue.values";
    c"median": plain(typed!(sorting::median)) => c"median";
    c"median": plain(typed!(sorting::median_along)) => c"median.dim_values";
    c"nanmedian": plain(typed!(sorting::median)) => c"nanmedian";
    c"nanmedian": plain(typed!(sorting::median_along)) => c"nanmedian.dim_values";
    c"mode": plain(typed!(sorting::mode)) => c"mode", c"mode.values";
    c"sort.stable": plain(typed!(sorting::sort)) => c"sort.stable", c"sort.values_stable";
    c"topk": plain(typed!(sorting::topk)) => c"topk", c"topk.values";
    // search
    c"searchsorted": any_dtype(plain(sorting::searchsorted)) =>
        c"searchsorted.Tensor", c"searchsorted.Tensor_out" | c"searchsorted.Scalar", c"searchsorted.Scalar_out";
    c"searchsorted": any_dtype(plain(typed!(sorting::bucketize))) =>
        c"bucketize.Tensor", c"bucketize.Tensor_out" | c"bucketize.Scalar";
    c"isin": any_dtype(structured(typed!(sorting::isin))) =>
        c"isin.Tensor_Tensor", c"isin.Tensor_Tensor_out" | c"isin.Scalar_Tensor";
    // unique elements
    c"unique_groups": plain(unique::unique) => c"_unique" | c"_unique2";
    c"unique_groups": plain(unique::unique_dim::<false>) => c"unique_dim";
    c"unique_groups": plain(unique::unique_dim::<true>) => c"unique_dim_consecutive";
    c"unique_groups": plain(typed!(unique::unique_consecutive)) => c"unique_consecutive";
    // histograms
    c"histogram": any_dtype(plain(histogram::histc)) => c"histc", c"histc.out";
    c"histogram": any_dtype(plain(histogram::in_bins)) => c"histogram.bin_ct", c"histogram.bin_ct_out";
    c"histogram": any_dtype(plain(histogram::between_edges)) => c"histogram.bins_tensor", c"histogram.bins_tensor_out";
    // ranges
    c"arange": plain(typed!(factories::arange)) => c"arange.start_out";
    c"arange": plain(typed!(factories::range)) => c"range.out";
    c"eye": plain(factories::eye) => c"eye.out" | c"eye.m_out";
    c"linspace": plain(typed!(factories::linspace)) => c"linspace.out";
    c"logspace": plain(typed!(factories::logspace)) => c"logspace.out";
    c"tril_indices": plain(factories::triangle_indices) => c"tril_indices";
    c"triu_indices": plain(factories::triangle_indices) => c"triu_indices";
    c"repeat_interleave": any_dtype(plain(typed!(factories::repeated))) => c"repeat_interleave.Tensor";
    // random numbers, which check dtypes first: a refused call must not reserve random numbers
    c"log_normal_": any_dtype(plain(random::log_normal)) => c"log_normal_";
    c"geometric_": any_dtype(plain(random::geometric)) => c"geometric_";
    c"cauchy_": any_dtype(plain(random::cauchy)) => c"cauchy_";
    c"random_": any_dtype(plain(typed!(random::random))) => c"random_";
    c"bernoulli_": any_dtype(plain(typed!(random::bernoulli))) => c"bernoulli_.Tensor";
    c"bernoulli_": any_dtype(plain(typed!(random::bernoulli_out))) => c"bernoulli.out";
    c"poisson": any_dtype(plain(typed!(random::poisson))) => c"poisson";
    c"randperm": any_dtype(plain(typed!(random::permutation))) => c"randperm.generator_out";
    c"binomial": any_dtype(plain(typed!(random::binomial))) => c"binomial";
    c"multinomial": any_device(plain(typed!(random::multinomial))) => c"multinomial", c"multinomial.out";
    c"uniform_": any_dtype(plain(typed!(random::uniform))) => c"uniform_";
    c"normal_": any_dtype(plain(typed!(random::normal))) => c"normal_";
    c"exponential_": any_dtype(plain(random::exponential)) => c"exponential_";
    c"bernoulli_.float": any_dtype(plain(random::bernoulli_scalar)) => c"bernoulli_.float";
    c"random_": any_dtype(plain(typed!(random::random_from))) => c"random_.from";
    c"random_": any_dtype(plain(typed!(random::random_to))) => c"random_.to";
    c"native_dropout": any_dtype(plain(typed!(random::dropout))) => c"native_dropout";
    c"native_dropout_backward": any_dtype(plain(typed!(random::dropout_backward))) => c"native_dropout_backward";
    // cells of recurrent layers, which check dtypes themselves: the CPU has no such operator, so there is no fallback
    c"_thnn_fused_lstm_cell": any_dtype(plain(cell::lstm_cell)) => c"_thnn_fused_lstm_cell";
    c"_thnn_fused_lstm_cell_backward_impl": any_dtype(plain(cell::lstm_cell_backward)) =>
        c"_thnn_fused_lstm_cell_backward_impl";
    // recurrent layers over whole sequences, operators of rustdev's own library
    c"lstm_layer": plain(layer::forward::<LSTM>) => c"rustdev::lstm_layer";
    c"lstm_layer_backward": plain(layer::backward::<LSTM>) => c"rustdev::lstm_layer_backward";
    c"gru_layer": plain(layer::forward::<GRU>) => c"rustdev::gru_layer";
    c"gru_layer_backward": plain(layer::backward::<GRU>) => c"rustdev::gru_layer_backward";
    c"elman_layer": plain(layer::forward::<RNN_TANH>) => c"rustdev::rnn_tanh_layer";
    c"elman_layer_backward": plain(layer::backward::<RNN_TANH>) => c"rustdev::rnn_tanh_layer_backward";
    c"elman_layer": plain(layer::forward::<RNN_RELU>) => c"rustdev::rnn_relu_layer";
    c"elman_layer_backward": plain(layer::backward::<RNN_RELU>) => c"rustdev::rnn_relu_layer_backward";
    // normalisation, whose functions check dtypes after PyTorch's own checks
    c"native_batch_norm": any_dtype(plain(channel_norm::batch_norm)) => c"native_batch_norm" | c"_native_batch_norm_legit";
    c"native_batch_norm": any_dtype(plain(channel_norm::batch_norm_without_statistics)) => c"_native_batch_norm_legit.no_stats";
    c"native_batch_norm": any_dtype(plain(channel_norm::batch_norm_with_reserve::<true>)) => c"_batch_norm_with_update";
    c"native_batch_norm": any_dtype(plain(channel_norm::batch_norm_with_reserve::<false>)) => c"_batch_norm_no_update";
    c"native_batch_norm_backward": any_dtype(plain(channel_norm::batch_norm_backward)) => c"native_batch_norm_backward" | c"batch_norm_backward";
    c"native_group_norm": any_dtype(plain(channel_norm::group_norm)) => c"native_group_norm";
    c"native_group_norm_backward": any_dtype(plain(channel_norm::group_norm_backward)) => c"native_group_norm_backward";
    c"native_layer_norm": any_dtype(plain(layer_norm::forward)) => c"native_layer_norm";
    c"native_layer_norm_backward": any_dtype(plain(layer_norm::backward)) => c"native_layer_norm_backward";
    // lists of tensors; src/ops/foreach/operator.rs has the elementwise ones
    c"_foreach_copy_": any_device(plain(typed!(foreach::copy))) => c"_foreach_copy_";
    c"_foreach_max": any_device(plain(typed!(foreach::max))) => c"_foreach_max";
    c"_foreach_norm.Scalar": any_device(plain(typed!(foreach::norm))) => c"_foreach_norm.Scalar";
    c"_foreach_pow.ScalarAndTensor": any_device(plain(typed!(foreach::powers))) => c"_foreach_pow.ScalarAndTensor";
    c"_foreach_zero_": any_device(plain(foreach::elementwise)) => c"_foreach_zero_";
    // optimizer steps
    c"_fused_adagrad_": any_device(plain(optimizer::adagrad)) => c"_fused_adagrad_", c"_fused_adagrad_.tensor_lr";
    c"_fused_adam_": any_device(plain(optimizer::adam)) => c"_fused_adam_", c"_fused_adam_.tensor_lr";
    c"_fused_adamw_": any_device(plain(optimizer::adam)) => c"_fused_adamw_", c"_fused_adamw_.tensor_lr";
    c"_fused_sgd_": any_device(plain(optimizer::sgd)) => c"_fused_sgd_", c"_fused_sgd_.tensor_lr";
    // scaling of gradients
    c"_amp_foreach_non_finite_check_and_unscale_": any_device(plain(typed!(optimizer::unscale))) =>
        c"_amp_foreach_non_finite_check_and_unscale_";
    c"_amp_update_scale_": any_device(plain(optimizer::update_scale)) => c"_amp_update_scale_";
    // losses
    c"nll_loss_forward": structured(loss::nll) => c"nll_loss_forward", c"nll_loss_forward.output";
    c"nll_loss_forward": plain(loss::nll_of_images) => c"nll_loss2d_forward", c"nll_loss2d_forward.output";
    c"nll_loss_backward": structured(loss::nll_backward) => c"nll_loss_backward", c"nll_loss_backward.grad_input";
    c"binary_cross_entropy": any_dtype(plain(loss::entropy)) => c"binary_cross_entropy", c"binary_cross_entropy.out";
    c"binary_cross_entropy_backward": any_dtype(plain(loss::entropy_backward)) =>
        c"binary_cross_entropy_backward", c"binary_cross_entropy_backward.grad_input";
    c"log_sigmoid_forward": any_dtype(plain(typed!(loss::log_sigmoid))) => c"log_sigmoid_forward", c"log_sigmoid_forward.output";
    c"log_sigmoid_backward": any_dtype(plain(typed!(loss::log_sigmoid_backward))) =>
        c"log_sigmoid_backward", c"log_sigmoid_backward.grad_input";
    c"nll_loss_backward": plain(loss::nll_of_images_backward) => c"nll_loss2d_backward", c"nll_loss2d_backward.grad_input";
}

macro_rules! composed {
    ($($prepare:expr => $($($name:literal),+)|+;)*) => {
        /// Operators that call other operators.
        static COMPOSED: [Operator; [$($(stringify!($($name)+)),+),*].len()] = [$($(
            Operator { names: &[$($name),+], kernel: Kernel::Others, prepare: $prepare },
        )+)*];
    };
}

composed! {
    plain(typed!(sorting::is_number)) => c"isin.Tensor_Scalar";
    plain(random::normal_of_tensors) =>
        c"normal.Tensor_float", c"normal.Tensor_float_out" | c"normal.float_Tensor", c"normal.float_Tensor_out" |
        c"normal.Tensor_Tensor", c"normal.Tensor_Tensor_out";
    plain(cell::gru_cell) => c"_thnn_fused_gru_cell";
    plain(typed!(cell::gru_cell_backward)) => c"_thnn_fused_gru_cell_backward";
    // recurrent networks over whole sequences
    any_device(plain(layer::network::<LSTM>)) => c"lstm.input";
    any_device(plain(layer::network::<GRU>)) => c"gru.input";
    any_device(plain(layer::network::<RNN_TANH>)) => c"rnn_tanh.input";
    any_device(plain(layer::network::<RNN_RELU>)) => c"rnn_relu.input";
    // fast paths of PyTorch's modules
    plain(transformer::multi_head_attention) => c"_native_multi_head_attention";
    plain(transformer::encoder_layer) => c"_transformer_encoder_layer_fwd";
    any_device(plain(typed!(launch_by_name::launch))) => c"rustdev::_launch";
    // matrices
    plain(typed!(factories::trace)) => c"trace";
    plain(typed!(reductions::norm)) => c"norm.ScalarOpt_dim";
    // operators for which PyTorch's composite implementation is used, though the CPU has kernels
    COMPOSITION => c"_stack" | c"_stack.out" | c"narrow_copy" | c"pixel_shuffle" | c"pixel_unshuffle";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names under a heading of the file from which the shim's lists are generated.
    fn compiled(heading: &str) -> Vec<&'static str> {
        let sections = include_str!("../../shim/compiled_names.txt").split('[');
        let section = sections.skip(1).find_map(|section| section.strip_prefix(heading)?.strip_prefix("]\n"));
        let lines = section.expect("the file has it").lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(str::split_whitespace).collect()
    }

    #[test]
    fn each_meta_that_is_asked_for_is_compiled_and_no_other() {
        let asked: BTreeSet<_> = operators().filter_map(Operator::meta).map(CStr::to_bytes).collect();
        assert_eq!(compiled("metas").into_iter().map(str::as_bytes).collect::<BTreeSet<_>>(), asked);
    }

    #[test]
    fn kernels_for_the_types_of_schemas_are_of_operators_that_are_bound() {
        let bound: BTreeSet<_> = operators().flat_map(|operator| operator.names).map(|name| name.to_bytes()).collect();
        let typed = compiled("typed").into_iter().map(str::to_owned);
        let foreach = compiled("foreach").into_iter().flat_map(|name| {
            let (name, overload) = name.split_at(name.find('.').unwrap_or(name.len()));
            ["", "_"].map(|in_place| format!("_foreach_{name}{in_place}{overload}"))
        });
        let others: Vec<_> = typed.chain(foreach).filter(|name| !bound.contains(name.as_bytes())).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    #[test]
    fn lists_of_compiled_names_have_each_once() {
        for heading in ["metas", "typed", "foreach", "sparse"] {
            let list = compiled(heading);
            assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "{list:?}");
        }
    }
}
