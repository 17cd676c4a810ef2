//! The operators that are bound here: their names in ATen, what computes, and what a call does.

use std::ffi::CStr;

use super::call::{Arguments, Call, Outcome, StructuredCall};
use super::names::Row;
use super::task_table::TASKS;
use super::{
    along_dimension, batch_normalisation, bins, draws, embedding_tables, flash_attention, flips_and_rolls, group_normalisation,
    log_likelihood, masks, padding, pooling, put, ranges, recurrent_cells, reductions, search, selection, triangles,
    unique_elements, windows,
};
use crate::kernels::table::Op;
use crate::tensor::dtype::{ANY, DTypeSet};

/// What the first dimension of an operator's tensors is a batch of. The numbers are the C ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    None = 0,
    Images = 1,
    Matrices = 2,
}

/// PyTorch's CPU kernel as a task of the stream.
#[derive(Clone, Copy)]
pub struct Task {
    /// The variant that the task runs; if there is none, the functional one, whose results are copied.
    pub out: Option<&'static CStr>,
    /// The dtypes of the first operand.
    pub dtypes: DTypeSet,
    pub batch: Batch,
    /// Whether 16 bit floats are computed in `Float` and rounded, as other accelerators do where the CPU has no such kernel.
    pub widens: bool,
    /// Whether the guard looks at values too, in the task.
    pub guarded: bool,
}

/// What an operator does in a call.
pub enum Run {
    Plain(fn(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome),
    /// With a meta of PyTorch's, which is found when the operator is bound: that of an operator with the same arguments, by default its own.
    Structured(Option<&'static CStr>, fn(arguments: &Arguments<'_>, call: &StructuredCall<'_>) -> Outcome),
}

/// The same, and for which calls.
pub struct Prepare {
    pub run: Run,
    /// Whether it takes a first tensor of any dtype: it looks itself at what the kernel has to compute in.
    pub any_dtype: bool,
}

/// What computes.
pub enum Kernel {
    Row(Row),
    Task(Task),
    /// Either, as the call decides: by default the row.
    Either(Row, Task),
    /// Other operators, of any dtype.
    Others,
}

/// An operator.
pub struct Operator {
    /// Its overloads, without `aten::`: the functional variant first, those that write to arguments behind it.
    pub names: &'static [&'static CStr],
    /// Where the first tensor of a call has a dtype that this does not take, the call is the fallback's.
    pub kernel: Kernel,
    pub prepare: Prepare,
}

impl Operator {
    /// Its row of the operator table, if that is what computes and there is one.
    pub fn row(&self) -> Option<&'static Op> {
        match &self.kernel {
            Kernel::Row(row) | Kernel::Either(row, _) => row.get(),
            Kernel::Task(_) | Kernel::Others => None,
        }
    }

    /// Whether it is made of other operators alone.
    pub fn is_composed(&self) -> bool {
        matches!(self.kernel, Kernel::Others)
    }

    /// The dtypes of the first tensor that it takes.
    pub fn dtypes(&self) -> DTypeSet {
        match &self.kernel {
            Kernel::Row(_) | Kernel::Either(..) => self.row().map_or(DTypeSet::of(&[]), Op::dtypes),
            Kernel::Task(task) => task.dtypes,
            Kernel::Others => ANY,
        }
    }

    /// The operator whose meta a call asks for.
    pub fn meta(&self) -> Option<&'static CStr> {
        match self.prepare.run {
            Run::Plain(_) => None,
            Run::Structured(other, _) => Some(other.unwrap_or(self.names[0])),
        }
    }

    /// Whether a call is for it: the first tensor, if there is one, is on a device of ours and has a dtype that it takes, and for a task all
    /// others are there.
    pub fn takes(&self, arguments: &Arguments<'_>) -> bool {
        let mut tensors = arguments.tensors();
        let Some(first) = tensors.next() else { return true };
        let takes = |dtype| self.prepare.any_dtype || self.dtypes().contains(dtype);
        if first.device() < 0 || !takes(first.dtype()) {
            return false;
        }
        !matches!(self.kernel, Kernel::Task(..)) || tensors.all(|tensor| tensor.device() == first.device())
    }
}

/// Every operator.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    OPERATORS.iter().chain(&COMPOSED).chain(&flash_attention::OPERATORS).chain(&TASKS)
}

/// Without a meta of PyTorch's.
pub const fn plain(run: fn(&Arguments<'_>, &Call<'_>) -> Outcome) -> Prepare {
    Prepare { run: Run::Plain(run), any_dtype: false }
}

/// With its own.
pub const fn structured(run: fn(&Arguments<'_>, &StructuredCall<'_>) -> Outcome) -> Prepare {
    Prepare { run: Run::Structured(None, run), any_dtype: false }
}

/// With that of another operator, which has the same arguments.
const fn structured_as(meta: &'static CStr, run: fn(&Arguments<'_>, &StructuredCall<'_>) -> Outcome) -> Prepare {
    Prepare { run: Run::Structured(Some(meta), run), any_dtype: false }
}

/// It looks itself at dtypes.
const fn any_dtype(prepare: Prepare) -> Prepare {
    Prepare { any_dtype: true, ..prepare }
}

macro_rules! operators {
    ($($kernel:literal: $prepare:expr => $($name:literal),+;)*) => {
        /// Those with kernels of ours.
        static OPERATORS: [Operator; [$(stringify!($kernel)),*].len()] = [$(
            Operator { names: &[$($name),+], kernel: Kernel::Row(Row::new($kernel)), prepare: $prepare },
        )*];
    };
}

operators! {
    // padding
    c"reflection_pad": structured(padding::pad) => c"reflection_pad1d", c"reflection_pad1d.out";
    c"reflection_pad": structured_as(c"replication_pad2d", padding::reflect_images) => c"reflection_pad2d", c"reflection_pad2d.out";
    c"reflection_pad": structured(padding::pad) => c"reflection_pad3d", c"reflection_pad3d.out";
    c"replication_pad": structured(padding::pad) => c"replication_pad1d", c"replication_pad1d.out";
    c"replication_pad": structured(padding::pad) => c"replication_pad2d", c"replication_pad2d.out";
    c"replication_pad": structured(padding::pad) => c"replication_pad3d", c"replication_pad3d.out";
    c"reflection_pad_backward": structured(padding::reflect_lines_backward) => c"reflection_pad1d_backward", c"reflection_pad1d_backward.grad_input";
    c"reflection_pad_backward": plain(padding::pad_backward::<2>) => c"reflection_pad2d_backward", c"reflection_pad2d_backward.grad_input";
    c"reflection_pad_backward": structured(padding::pad_backward_of_meta) => c"reflection_pad3d_backward", c"reflection_pad3d_backward.grad_input";
    c"replication_pad_backward": structured(padding::pad_backward_of_meta) => c"replication_pad1d_backward", c"replication_pad1d_backward.grad_input";
    c"replication_pad_backward": plain(padding::pad_backward::<2>) => c"replication_pad2d_backward", c"replication_pad2d_backward.grad_input";
    c"replication_pad_backward": plain(padding::pad_backward::<3>) => c"replication_pad3d_backward", c"replication_pad3d_backward.grad_input";
    // windows
    c"im2col": plain(windows::im2col) => c"im2col", c"im2col.out";
    c"col2im": plain(windows::col2im) => c"col2im", c"col2im.out";
    c"unfold_backward": plain(windows::unfold_backward) => c"unfold_backward";
    c"max_pool2d_with_indices": structured(pooling::max_pool2d) => c"max_pool2d_with_indices", c"max_pool2d_with_indices.out";
    c"max_pool2d_with_indices_backward": structured(pooling::max_pool2d_backward) =>
        c"max_pool2d_with_indices_backward", c"max_pool2d_with_indices_backward.grad_input";
    // reductions
    c"sum": any_dtype(plain(reductions::sum_of_all)) => c"sum";
    c"mean": any_dtype(plain(reductions::mean_of_all)) => c"mean";
    c"sum": any_dtype(structured(reductions::sum)) => c"sum.dim_IntList", c"sum.IntList_out";
    c"mean": any_dtype(structured(reductions::mean)) => c"mean.dim", c"mean.out";
    c"prod": any_dtype(structured(reductions::product_along)) => c"prod.dim_int", c"prod.int_out";
    c"prod": any_dtype(plain(reductions::product)) => c"prod";
    c"amax": structured(reductions::amax) => c"amax", c"amax.out";
    c"amin": structured(reductions::amax) => c"amin", c"amin.out";
    c"all": any_dtype(structured(reductions::all)) => c"all", c"all.all_out";
    c"all": any_dtype(structured(reductions::all_along)) => c"all.dim", c"all.out";
    c"all": any_dtype(structured(reductions::all_along)) => c"all.dims", c"all.dims_out";
    c"any": any_dtype(structured(reductions::any)) => c"any", c"any.all_out";
    c"any": any_dtype(structured(reductions::any_along)) => c"any.dim", c"any.out";
    c"any": any_dtype(structured(reductions::any_along)) => c"any.dims", c"any.dims_out";
    c"linalg_vector_norm": any_dtype(structured(reductions::vector_norm)) => c"linalg_vector_norm", c"linalg_vector_norm.out";
    c"nansum": any_dtype(plain(reductions::nansum)) => c"nansum", c"nansum.out";
    c"count_nonzero": plain(reductions::count_nonzero) => c"count_nonzero.dim_IntList";
    c"count_nonzero": plain(reductions::count_nonzero) => c"count_nonzero";
    c"max.dim": structured(reductions::max_along) => c"max.dim", c"max.dim_max";
    c"min.dim": structured(reductions::max_along) => c"min.dim", c"min.dim_min";
    c"aminmax": structured(reductions::aminmax) => c"aminmax", c"aminmax.out";
    c"amax": plain(reductions::max) => c"max", c"max.unary_out";
    c"amin": plain(reductions::max) => c"min", c"min.unary_out";
    c"argmax": structured(reductions::argmax) => c"argmax", c"argmax.out";
    c"argmin": structured(reductions::argmax) => c"argmin", c"argmin.out";
    c"var": any_dtype(plain(reductions::variance)) => c"var.correction", c"var.correction_out";
    c"std": any_dtype(plain(reductions::variance)) => c"std.correction", c"std.correction_out";
    c"var": any_dtype(plain(reductions::variance_and_mean)) => c"var_mean.correction";
    c"std": any_dtype(plain(reductions::variance_and_mean)) => c"std_mean.correction";
    // along a dimension
    c"_softmax": any_dtype(structured(along_dimension::softmax)) => c"_softmax", c"_softmax.out";
    c"_log_softmax": any_dtype(structured(along_dimension::softmax)) => c"_log_softmax", c"_log_softmax.out";
    c"_softmax_backward_data": any_dtype(structured(along_dimension::softmax_backward)) =>
        c"_softmax_backward_data", c"_softmax_backward_data.out";
    c"_log_softmax_backward_data": any_dtype(structured(along_dimension::softmax_backward)) =>
        c"_log_softmax_backward_data", c"_log_softmax_backward_data.out";
    c"cumsum": any_dtype(structured(along_dimension::scan)) => c"cumsum", c"cumsum_", c"cumsum.out";
    c"cumprod": any_dtype(structured(along_dimension::scan)) => c"cumprod", c"cumprod_", c"cumprod.out";
    c"_logcumsumexp": plain(along_dimension::logcumsumexp) => c"_logcumsumexp", c"_logcumsumexp.out";
    c"_cummax_helper": plain(along_dimension::cummax) => c"_cummax_helper";
    c"_cummin_helper": plain(along_dimension::cummax) => c"_cummin_helper";
    // movement
    c"flip": plain(flips_and_rolls::flip) => c"flip";
    c"roll": plain(flips_and_rolls::roll) => c"roll";
    c"tril": structured(triangles::triangle) => c"tril", c"tril_", c"tril.out";
    c"triu": structured(triangles::triangle) => c"triu", c"triu_", c"triu.out";
    // through indices
    c"put": plain(put::put) => c"put_";
    c"embedding_dense_backward": plain(embedding_tables::backward) => c"embedding_dense_backward";
    c"_embedding_bag": plain(embedding_tables::bag) => c"_embedding_bag";
    c"_embedding_bag": plain(embedding_tables::bag) => c"_embedding_bag_forward_only";
    c"embedding_renorm_": plain(embedding_tables::renorm) => c"embedding_renorm_";
    // through masks
    c"masked_select": plain(masks::select) => c"masked_select", c"masked_select.out";
    c"masked_scatter": plain(masks::scatter) => c"masked_scatter_";
    c"nonzero": plain(masks::nonzero) => c"nonzero", c"nonzero.out";
    c"nonzero": plain(masks::nonzero_static) => c"nonzero_static", c"nonzero_static.out";
    // selection
    c"kthvalue": plain(selection::kthvalue) => c"kthvalue.values";
    c"median": plain(selection::median) => c"median";
    c"median": plain(selection::median_along) => c"median.dim_values";
    c"nanmedian": plain(selection::median) => c"nanmedian";
    c"nanmedian": plain(selection::median_along) => c"nanmedian.dim_values";
    c"mode": plain(selection::mode) => c"mode", c"mode.values";
    c"sort.stable": plain(selection::sort) => c"sort", c"sort.values";
    c"sort.stable": plain(selection::sort_stable) => c"sort.stable", c"sort.values_stable";
    c"topk": plain(selection::topk) => c"topk", c"topk.values";
    // search
    c"searchsorted": any_dtype(plain(search::searchsorted)) => c"searchsorted.Tensor", c"searchsorted.Tensor_out";
    c"searchsorted": any_dtype(plain(search::searchsorted)) => c"searchsorted.Scalar", c"searchsorted.Scalar_out";
    c"searchsorted": any_dtype(plain(search::bucketize)) => c"bucketize.Tensor", c"bucketize.Tensor_out";
    c"searchsorted": any_dtype(plain(search::bucketize)) => c"bucketize.Scalar";
    c"isin": any_dtype(structured(search::isin)) => c"isin.Tensor_Tensor", c"isin.Tensor_Tensor_out";
    c"isin": any_dtype(structured(search::isin)) => c"isin.Scalar_Tensor";
    // elements that differ
    c"unique_groups": plain(unique_elements::with_inverse) => c"_unique";
    c"unique_groups": plain(unique_elements::unique) => c"_unique2";
    c"unique_groups": plain(unique_elements::unique_dim) => c"unique_dim";
    c"unique_groups": plain(unique_elements::unique_dim_consecutive) => c"unique_dim_consecutive";
    c"unique_groups": plain(unique_elements::unique_consecutive) => c"unique_consecutive";
    // histograms
    c"histogram": any_dtype(plain(bins::histc)) => c"histc", c"histc.out";
    c"histogram": any_dtype(plain(bins::in_bins)) => c"histogram.bin_ct", c"histogram.bin_ct_out";
    c"histogram": any_dtype(plain(bins::between_edges)) => c"histogram.bins_tensor", c"histogram.bins_tensor_out";
    // ranges
    c"logspace": plain(ranges::logspace) => c"logspace.out";
    c"arange": plain(ranges::range) => c"range.out";
    c"tril_indices": plain(ranges::lower_indices) => c"tril_indices";
    c"triu_indices": plain(ranges::upper_indices) => c"triu_indices";
    c"repeat_interleave": any_dtype(plain(ranges::repeated)) => c"repeat_interleave.Tensor";
    // random numbers, which refuse other dtypes: a call in vain would draw some
    c"log_normal_": any_dtype(plain(draws::log_normal)) => c"log_normal_";
    c"geometric_": any_dtype(plain(draws::geometric)) => c"geometric_";
    c"cauchy_": any_dtype(plain(draws::cauchy)) => c"cauchy_";
    c"random_": any_dtype(plain(draws::whole_numbers)) => c"random_";
    c"bernoulli_": any_dtype(plain(draws::bernoulli)) => c"bernoulli_.Tensor";
    c"bernoulli_": any_dtype(plain(draws::bernoulli_out)) => c"bernoulli.out";
    c"poisson": any_dtype(plain(draws::poisson)) => c"poisson";
    c"randperm": any_dtype(plain(draws::permutation_of_device)) => c"randperm";
    c"randperm": any_dtype(plain(draws::permutation_drawn)) => c"randperm.generator";
    c"randperm": any_dtype(plain(draws::permutation_out)) => c"randperm.generator_out";
    c"binomial": any_dtype(plain(draws::binomial)) => c"binomial";
    // steps of recurrent layers, which refuse other dtypes: the CPU has no such operator
    c"_thnn_fused_lstm_cell": any_dtype(plain(recurrent_cells::lstm_cell)) => c"_thnn_fused_lstm_cell";
    c"_thnn_fused_lstm_cell_backward_impl": any_dtype(plain(recurrent_cells::lstm_cell_backward)) =>
        c"_thnn_fused_lstm_cell_backward_impl";
    // normalisation, which looks itself at dtypes behind what it refuses
    c"native_batch_norm": any_dtype(plain(batch_normalisation::forward)) => c"native_batch_norm";
    c"native_batch_norm": any_dtype(plain(batch_normalisation::forward)) => c"_native_batch_norm_legit";
    c"native_batch_norm": any_dtype(plain(batch_normalisation::forward_without_statistics)) => c"_native_batch_norm_legit.no_stats";
    c"native_batch_norm": any_dtype(plain(batch_normalisation::forward_with_reserve::<true>)) => c"_batch_norm_with_update";
    c"native_batch_norm": any_dtype(plain(batch_normalisation::forward_with_reserve::<false>)) => c"_batch_norm_no_update";
    c"native_batch_norm_backward": any_dtype(plain(batch_normalisation::backward)) => c"native_batch_norm_backward";
    c"native_batch_norm_backward": any_dtype(plain(batch_normalisation::backward_with_reserve)) => c"batch_norm_backward";
    c"native_group_norm": any_dtype(plain(group_normalisation::forward)) => c"native_group_norm";
    c"native_group_norm_backward": any_dtype(plain(group_normalisation::backward)) => c"native_group_norm_backward";
    // losses
    c"nll_loss_forward": structured(log_likelihood::forward) => c"nll_loss_forward", c"nll_loss_forward.output";
    c"nll_loss_forward": plain(log_likelihood::forward_of_images) => c"nll_loss2d_forward", c"nll_loss2d_forward.output";
    c"nll_loss_backward": structured(log_likelihood::backward) => c"nll_loss_backward", c"nll_loss_backward.grad_input";
    c"nll_loss_backward": plain(log_likelihood::backward_of_images) => c"nll_loss2d_backward", c"nll_loss2d_backward.grad_input";
}

macro_rules! composed {
    ($($prepare:expr => $($name:literal),+;)*) => {
        /// Those that are made of others.
        static COMPOSED: [Operator; [$(stringify!($prepare)),*].len()] = [$(
            Operator { names: &[$($name),+], kernel: Kernel::Others, prepare: $prepare },
        )*];
    };
}

composed! {
    plain(search::is_number) => c"isin.Tensor_Scalar";
    plain(draws::normal) => c"normal.Tensor_float", c"normal.Tensor_float_out";
    plain(draws::normal) => c"normal.float_Tensor", c"normal.float_Tensor_out";
    plain(draws::normal) => c"normal.Tensor_Tensor", c"normal.Tensor_Tensor_out";
    plain(recurrent_cells::gru_cell) => c"_thnn_fused_gru_cell";
    plain(recurrent_cells::gru_cell_backward) => c"_thnn_fused_gru_cell_backward";
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;

    #[test]
    fn every_operator_has_a_kernel() {
        for operator in operators() {
            let is_there = operator.row().is_some() || matches!(operator.kernel, Kernel::Task(_) | Kernel::Others);
            assert!(is_there, "{:?} has no kernel", operator.names[0]);
        }
        for row in names::KERNELS {
            assert!(row.get().is_some(), "{:?} is not in the table", row.name());
        }
    }
}
