//! The table of operators: their ATen names, their kernels, and the functions that prepare calls.

use std::ffi::CStr;

use super::call::{Arguments, Call, CallError, Outcome, take_if, typed};
use super::guards::Guard;
use super::pointwise_calls::Pointwise;
use super::pointwise_table::{NAMED, POINTWISE};
use super::rnn_layer::{GRU, LSTM, RNN_RELU, RNN_TANH};
use super::task_table::TASKS;
use super::{
    advanced_indexing, attention, channel_norm, convolution, embedding, factories, foreach, gather_and_scatter, histogram,
    launch_by_name, layer_norm, loss, masked, matmul, movement, optimizer, quantized, random, reduce, rnn_cell, rnn_layer,
    softmax_and_scan, sort, tasks, transformer, unique, windows,
};
use crate::kernels::table::Op;
use crate::tensor::dtype::{ANY, DTypeSet};

/// The items along the first dimension of a task's tensors: a task may be cut into parts along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    None,
    Images,
    Matrices,
}

/// PyTorch's CPU kernel as a task of the stream.
#[derive(Clone, Copy)]
pub struct Task {
    /// The overload that the task runs; if there is none, the functional one, whose results are copied.
    pub out: Option<&'static CStr>,
    /// The dtypes of the first operand that PyTorch's kernel takes.
    pub dtypes: DTypeSet,
    pub batch: Batch,
    /// True if 16 bit floats are computed in `Float` and rounded, as on other accelerators, where the CPU kernel lacks the
    /// dtype.
    pub widens: bool,
    /// True if the guard also checks values, inside the task.
    pub guarded: bool,
}

/// The function that serves a call.
pub enum Run {
    Plain(fn(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome),
    /// Uses a PyTorch meta function, which is looked up when the operator is bound: its own or, if given, that of an operator
    /// with the same arguments.
    Structured(Option<&'static CStr>, fn(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome),
    /// Elementwise over broadcast operands.
    Pointwise(Pointwise),
}

/// For which calls with dense operands of one shape and dtype, or Python numbers, the shim may launch the kernel of a pointwise
/// operator itself. No such call is refused. The numbers are those of the C ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenseCalls {
    Never = 0,
    /// Floating-point tensors; the result has their dtype.
    Floating = 1,
    /// Floating-point or integer tensors; the result has their dtype.
    Numeric = 2,
    /// Like `Numeric`, with a Bool result.
    Boolean = 3,
    /// Like `Numeric`, with a Bool result, if the other operand is a number.
    Number = 4,
    /// Like `Floating`, with the scalar 0.
    Quotient = 5,
    /// A Bool tensor and two floating-point or integer tensors; the result has the dtype of the two.
    Choice = 6,
}

/// How a call is prepared, and which calls are accepted.
pub struct Implementation {
    pub run: Run,
    /// True if the first tensor may have any dtype; the function checks itself what the kernel can compute in.
    pub any_dtype: bool,
    /// True if tensors may be on any device; the function checks devices itself.
    pub any_device: bool,
    /// For pointwise operators whose kernel gets all arguments that are no tensors; else `None`.
    pub dense: Option<DenseCalls>,
}

/// What computes an operator.
pub enum Kernel {
    Row(&'static Op),
    Task(Task),
    /// A row or a task; the function decides for each call, by default for the row.
    Either(&'static Op, Task),
    /// Other operators, for any dtype.
    Others,
    /// A function of the shim that runs as a task, which the call divides: `shim/ops/convolution.cpp`.
    Divided,
}

pub struct Operator {
    /// The overloads, without `aten::` for PyTorch's own library: the functional variant first, then those that write to
    /// arguments.
    pub names: &'static [&'static CStr],
    /// If this does not take the dtype of a call's first tensor, the fallback serves the call.
    pub kernel: Kernel,
    pub prepare: Implementation,
}

impl Operator {
    /// The row of the operator table, if a kernel of the table computes the operator.
    pub fn row(&self) -> Option<&'static Op> {
        match &self.kernel {
            Kernel::Row(row) | Kernel::Either(row, _) => Some(row),
            Kernel::Task(_) | Kernel::Others | Kernel::Divided => None,
        }
    }

    /// The name of the tier that computes the operator; `None` for a Rust kernel.
    pub fn tier(&self) -> Option<&'static CStr> {
        match self.kernel {
            Kernel::Row(_) | Kernel::Either(..) => None,
            Kernel::Task(_) | Kernel::Divided => Some(c"aten"),
            Kernel::Others => Some(c"composite"),
        }
    }

    /// The accepted dtypes of the first tensor.
    pub fn dtypes(&self) -> DTypeSet {
        match &self.kernel {
            Kernel::Row(_) | Kernel::Either(..) => self.row().map_or(DTypeSet::of(&[]), Op::dtypes),
            Kernel::Task(task) => task.dtypes,
            Kernel::Others | Kernel::Divided => ANY,
        }
    }

    /// The operator whose meta function a call uses.
    pub fn meta(&self) -> Option<&'static CStr> {
        match self.prepare.run {
            Run::Plain(_) | Run::Pointwise(_) => None,
            Run::Structured(other, _) => Some(other.unwrap_or(self.names[0])),
        }
    }

    /// True if the operator accepts the call: the first tensor, if any, is on a rustdev device and has an accepted dtype, and a
    /// task's other tensors are on the same device. Always true for operators that check this themselves.
    fn takes(&self, arguments: &Arguments<'_>) -> bool {
        if self.prepare.any_device || matches!(self.kernel, Kernel::Divided) {
            return true;
        }
        let mut tensors = arguments.tensors();
        let Some(first) = tensors.next() else { return true };
        let takes = |dtype| self.prepare.any_dtype || self.dtypes().contains(dtype);
        if first.device() < 0 || !takes(first.dtype()) {
            return false;
        }
        !matches!(self.kernel, Kernel::Task(..)) || tensors.all(|tensor| tensor.device() == first.device())
    }

    /// Serves a call. `guard`: the guard of PyTorch's kernel, if a task computes the operator and has one.
    pub fn run(&self, arguments: &Arguments<'_>, call: Call<'_>, guard: Option<&Guard>) -> Outcome {
        if let Kernel::Task(task) = &self.kernel
            && let Some(dtype) = tasks::rounded_dtype(task, arguments)
        {
            return tasks::run_widened(dtype, arguments, &call);
        }
        take_if(self.takes(arguments))?;
        match &self.kernel {
            Kernel::Task(task) => tasks::run(self, task, arguments, call, guard),
            _ => self.prepare_call(arguments, call),
        }
    }

    /// Checks a call, makes its outputs, and launches its kernels; a task's kernel is left to the caller.
    pub fn prepare_call(&self, arguments: &Arguments<'_>, call: Call<'_>) -> Outcome {
        match self.prepare.run {
            Run::Plain(run) | Run::Structured(_, run) => run(arguments, &call),
            Run::Pointwise(operator) => operator.run(arguments, &call),
        }
    }
}

pub fn operators() -> impl Iterator<Item = &'static Operator> {
    let others = attention::OPERATORS.iter().chain(&foreach::OPERATORS).chain(&convolution::OPERATORS).chain(&quantized::OPERATORS);
    OPERATORS.iter().chain(&COMPOSED).chain(&POINTWISE).chain(&NAMED).chain(others).chain(&TASKS)
}

/// The operators of rustdev's own library: their names and the rest of their schemas.
pub fn definitions() -> impl Iterator<Item = (&'static CStr, &'static CStr)> {
    rnn_layer::DEFINITIONS.into_iter().chain([launch_by_name::DEFINITION])
}

/// Serves calls without a meta function.
pub const fn plain(run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Implementation {
    Implementation { run: Run::Plain(run), any_dtype: false, any_device: false, dense: None }
}

/// Serves calls with the operator's own meta function.
pub const fn structured(run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Implementation {
    Implementation { run: Run::Structured(None, run), any_dtype: false, any_device: false, dense: None }
}

/// Serves calls with the meta function of another operator, which has the same arguments.
const fn structured_as(meta: &'static CStr, run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Implementation {
    Implementation { run: Run::Structured(Some(meta), run), any_dtype: false, any_device: false, dense: None }
}

/// The function checks dtypes itself.
pub const fn any_dtype(prepare: Implementation) -> Implementation {
    Implementation { any_dtype: true, ..prepare }
}

/// Elementwise over broadcast operands; dtypes and devices are checked there.
pub const fn pointwise(operator: Pointwise) -> Implementation {
    Implementation { run: Run::Pointwise(operator), any_dtype: true, any_device: true, dense: Some(DenseCalls::Never) }
}

/// The function checks dtypes and devices itself.
pub const fn any_device(prepare: Implementation) -> Implementation {
    Implementation { any_dtype: true, any_device: true, ..prepare }
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
    c"im2col": plain(windows::im2col) => c"im2col", c"im2col.out";
    c"col2im": plain(windows::col2im) => c"col2im", c"col2im.out";
    c"unfold_backward": plain(typed!(windows::unfold_backward)) => c"unfold_backward";
    c"max_pool2d_with_indices": structured(windows::max_pool2d) => c"max_pool2d_with_indices", c"max_pool2d_with_indices.out";
    c"max_pool2d_with_indices_backward": structured(windows::max_pool2d_backward) =>
        c"max_pool2d_with_indices_backward", c"max_pool2d_with_indices_backward.grad_input";
    // reductions
    c"sum": any_dtype(plain(typed!(reduce::sum_of_all))) => c"sum";
    c"mean": any_dtype(plain(typed!(reduce::mean_of_all))) => c"mean";
    c"sum": any_dtype(structured(typed!(reduce::sum))) => c"sum.dim_IntList", c"sum.IntList_out";
    c"mean": any_dtype(structured(typed!(reduce::mean))) => c"mean.dim", c"mean.out";
    c"prod": any_dtype(structured(typed!(reduce::sum))) => c"prod.dim_int", c"prod.int_out";
    c"prod": any_dtype(plain(typed!(reduce::sum_of_all))) => c"prod";
    c"amax": structured(typed!(reduce::amax)) => c"amax", c"amax.out";
    c"amin": structured(typed!(reduce::amax)) => c"amin", c"amin.out";
    c"all": any_dtype(structured(typed!(reduce::logical_of_all))) => c"all", c"all.all_out";
    c"all": any_dtype(structured(typed!(reduce::logical))) => c"all.dim", c"all.out" | c"all.dims", c"all.dims_out";
    c"any": any_dtype(structured(typed!(reduce::logical_of_all))) => c"any", c"any.all_out";
    c"any": any_dtype(structured(typed!(reduce::logical))) => c"any.dim", c"any.out" | c"any.dims", c"any.dims_out";
    c"linalg_vector_norm": any_dtype(structured(reduce::vector_norm)) => c"linalg_vector_norm", c"linalg_vector_norm.out";
    c"nansum": any_dtype(plain(typed!(reduce::nansum))) => c"nansum", c"nansum.out";
    c"count_nonzero": plain(typed!(reduce::count_nonzero)) => c"count_nonzero.dim_IntList" | c"count_nonzero";
    c"max.dim": structured(typed!(reduce::pair)) => c"max.dim", c"max.dim_max";
    c"min.dim": structured(typed!(reduce::pair)) => c"min.dim", c"min.dim_min";
    c"aminmax": structured(typed!(reduce::pair)) => c"aminmax", c"aminmax.out";
    c"amax": plain(typed!(reduce::max)) => c"max", c"max.unary_out";
    c"amin": plain(typed!(reduce::max)) => c"min", c"min.unary_out";
    c"argmax": structured(typed!(reduce::argmax)) => c"argmax", c"argmax.out";
    c"argmin": structured(typed!(reduce::argmax)) => c"argmin", c"argmin.out";
    c"var": any_dtype(plain(reduce::variance::<false>)) => c"var.correction", c"var.correction_out";
    c"std": any_dtype(plain(reduce::variance::<false>)) => c"std.correction", c"std.correction_out";
    c"var": any_dtype(plain(reduce::variance::<true>)) => c"var_mean.correction";
    c"std": any_dtype(plain(reduce::variance::<true>)) => c"std_mean.correction";
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
    c"_softmax": any_dtype(structured(typed!(softmax_and_scan::softmax))) => c"_softmax", c"_softmax.out";
    c"_log_softmax": any_dtype(structured(typed!(softmax_and_scan::softmax))) => c"_log_softmax", c"_log_softmax.out";
    c"_softmax_backward_data": any_dtype(structured(typed!(softmax_and_scan::softmax_backward))) =>
        c"_softmax_backward_data", c"_softmax_backward_data.out";
    c"_log_softmax_backward_data": any_dtype(structured(typed!(softmax_and_scan::softmax_backward))) =>
        c"_log_softmax_backward_data", c"_log_softmax_backward_data.out";
    c"cumsum": any_dtype(structured(typed!(softmax_and_scan::scan))) => c"cumsum", c"cumsum_", c"cumsum.out";
    c"cumprod": any_dtype(structured(typed!(softmax_and_scan::scan))) => c"cumprod", c"cumprod_", c"cumprod.out";
    c"_logcumsumexp": plain(typed!(softmax_and_scan::logcumsumexp)) => c"_logcumsumexp", c"_logcumsumexp.out";
    c"_cummax_helper": plain(typed!(softmax_and_scan::cummax)) => c"_cummax_helper";
    c"_cummin_helper": plain(typed!(softmax_and_scan::cummax)) => c"_cummin_helper";
    // movement
    c"cat": structured(typed!(movement::cat)) => c"cat", c"cat.out";
    c"flip": plain(typed!(movement::flip)) => c"flip";
    c"roll": plain(typed!(movement::roll)) => c"roll";
    c"tril": structured(typed!(movement::triangle)) => c"tril", c"tril_", c"tril.out";
    c"triu": structured(typed!(movement::triangle)) => c"triu", c"triu_", c"triu.out";
    c"copy_": any_dtype(plain(typed!(movement::shuffle))) => c"channel_shuffle" | c"native_channel_shuffle";
    // gather, scatter and other operators with indices
    c"scatter": structured(gather_and_scatter::scatter) =>
        c"scatter.src", c"scatter_.src", c"scatter.src_out" | c"scatter.value", c"scatter_.value", c"scatter.value_out";
    c"scatter_reduce": structured(gather_and_scatter::scatter) =>
        c"scatter.reduce", c"scatter_.reduce", c"scatter.reduce_out" | c"scatter.value_reduce", c"scatter_.value_reduce",
        c"scatter.value_reduce_out" | c"scatter_reduce.two", c"scatter_reduce_.two", c"scatter_reduce.two_out";
    c"scatter_add": structured(gather_and_scatter::scatter) => c"scatter_add", c"scatter_add_", c"scatter_add.out";
    c"index_add": structured(gather_and_scatter::scatter) => c"index_add", c"index_add_", c"index_add.out";
    c"index_copy": structured(gather_and_scatter::scatter) => c"index_copy", c"index_copy_", c"index_copy.out";
    c"index_reduce": structured(gather_and_scatter::scatter) => c"index_reduce", c"index_reduce_", c"index_reduce.out";
    c"index_fill": plain(typed!(gather_and_scatter::index_fill)) => c"index_fill_.int_Scalar";
    c"index_fill": plain(typed!(gather_and_scatter::index_fill_tensor)) => c"index_fill_.int_Tensor";
    c"index": plain(typed!(advanced_indexing::index)) => c"index.Tensor", c"index.Tensor_out";
    c"index_put": plain(advanced_indexing::put) => c"index_put_" | c"_index_put_impl_";
    c"gather": structured(typed!(gather_and_scatter::gather)) => c"gather", c"gather.out";
    c"index_select": plain(typed!(gather_and_scatter::select)) => c"index_select", c"index_select.out";
    c"take": plain(typed!(gather_and_scatter::take)) => c"take", c"take.out";
    c"put": plain(typed!(gather_and_scatter::put)) => c"put_";
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
    c"kthvalue": plain(typed!(sort::kthvalue)) => c"kthvalue.values";
    c"median": plain(typed!(sort::median)) => c"median";
    c"median": plain(typed!(sort::median_along)) => c"median.dim_values";
    c"nanmedian": plain(typed!(sort::median)) => c"nanmedian";
    c"nanmedian": plain(typed!(sort::median_along)) => c"nanmedian.dim_values";
    c"mode": plain(typed!(sort::mode)) => c"mode", c"mode.values";
    c"sort.stable": plain(typed!(sort::sort)) => c"sort.stable", c"sort.values_stable";
    c"topk": plain(typed!(sort::topk)) => c"topk", c"topk.values";
    // search
    c"searchsorted": any_dtype(plain(sort::searchsorted)) =>
        c"searchsorted.Tensor", c"searchsorted.Tensor_out" | c"searchsorted.Scalar", c"searchsorted.Scalar_out";
    c"searchsorted": any_dtype(plain(typed!(sort::bucketize))) =>
        c"bucketize.Tensor", c"bucketize.Tensor_out" | c"bucketize.Scalar";
    c"isin": any_dtype(structured(typed!(sort::isin))) =>
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
    c"_thnn_fused_lstm_cell": any_dtype(plain(rnn_cell::lstm_cell)) => c"_thnn_fused_lstm_cell";
    c"_thnn_fused_lstm_cell_backward_impl": any_dtype(plain(rnn_cell::lstm_cell_backward)) =>
        c"_thnn_fused_lstm_cell_backward_impl";
    // recurrent layers over whole sequences, operators of rustdev's own library
    c"lstm_layer": plain(rnn_layer::forward::<LSTM>) => c"rustdev::lstm_layer";
    c"lstm_layer_backward": plain(rnn_layer::backward::<LSTM>) => c"rustdev::lstm_layer_backward";
    c"gru_layer": plain(rnn_layer::forward::<GRU>) => c"rustdev::gru_layer";
    c"gru_layer_backward": plain(rnn_layer::backward::<GRU>) => c"rustdev::gru_layer_backward";
    c"elman_layer": plain(rnn_layer::forward::<RNN_TANH>) => c"rustdev::rnn_tanh_layer";
    c"elman_layer_backward": plain(rnn_layer::backward::<RNN_TANH>) => c"rustdev::rnn_tanh_layer_backward";
    c"elman_layer": plain(rnn_layer::forward::<RNN_RELU>) => c"rustdev::rnn_relu_layer";
    c"elman_layer_backward": plain(rnn_layer::backward::<RNN_RELU>) => c"rustdev::rnn_relu_layer_backward";
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
    // lists of tensors; src/operators/foreach.rs has the elementwise ones
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
    plain(typed!(sort::is_number)) => c"isin.Tensor_Scalar";
    plain(random::normal_of_tensors) =>
        c"normal.Tensor_float", c"normal.Tensor_float_out" | c"normal.float_Tensor", c"normal.float_Tensor_out" |
        c"normal.Tensor_Tensor", c"normal.Tensor_Tensor_out";
    plain(rnn_cell::gru_cell) => c"_thnn_fused_gru_cell";
    plain(typed!(rnn_cell::gru_cell_backward)) => c"_thnn_fused_gru_cell_backward";
    // recurrent networks over whole sequences
    any_device(plain(rnn_layer::network::<LSTM>)) => c"lstm.input";
    any_device(plain(rnn_layer::network::<GRU>)) => c"gru.input";
    any_device(plain(rnn_layer::network::<RNN_TANH>)) => c"rnn_tanh.input";
    any_device(plain(rnn_layer::network::<RNN_RELU>)) => c"rnn_relu.input";
    // fast paths of PyTorch's modules
    plain(transformer::multi_head_attention) => c"_native_multi_head_attention";
    plain(transformer::encoder_layer) => c"_transformer_encoder_layer_fwd";
    any_device(plain(typed!(launch_by_name::launch))) => c"rustdev::_launch";
    // matrices
    plain(typed!(factories::trace)) => c"trace";
    plain(typed!(reduce::norm)) => c"norm.ScalarOpt_dim";
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
