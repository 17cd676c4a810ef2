//! Guards: checks of preconditions that PyTorch's CPU kernels do not check themselves.
//!
//! A call that violates one would access memory outside of its tensors and crash the process. A guard refuses such calls, and
//! no others, before the kernel runs; the kernel's own checks are left to the kernel. `tools/fuzz_fallback.py` finds operators
//! that need a guard.
//!
//! A guard is a function of [`NamedArguments`] and serves all overloads of an operator. Before a task, tensors have no values
//! yet: the guard then checks sizes and dtypes. It checks values when it runs inside the task.

mod layer_guards;
mod math_guards;
mod named_arguments;
mod pool_guards;
mod sequence_guards;
mod sparse_guards;

use super::call::{Outcome, Refusal, Value};
use layer_guards as layers;
use math_guards as math;
use named_arguments::NamedArguments;
pub use named_arguments::{Change, Changes, Reader};
use pool_guards as pools;
use sequence_guards as sequences;
pub use sparse_guards::{check_members, looks_at_no_index};

/// The check of a guard.
type Check = fn(arguments: &mut NamedArguments<'_>) -> Outcome;

/// The check of an operator, by its ATen name.
fn check_of(operator: &str) -> Option<Check> {
    Some(match operator {
        // backward of pooling
        "_adaptive_avg_pool2d_backward" | "avg_pool2d_backward" => pools::planes::<2>,
        "_adaptive_avg_pool3d_backward" | "adaptive_avg_pool3d_backward" | "avg_pool3d_backward" => pools::planes::<3>,
        "adaptive_max_pool2d_backward" | "max_pool2d_with_indices_backward" => pools::indexed_planes::<2>,
        "adaptive_max_pool3d_backward" | "max_pool3d_with_indices_backward" => pools::indexed_planes::<3>,
        "fractional_max_pool2d_backward" => pools::fractional::<2>,
        "fractional_max_pool3d_backward" => pools::fractional::<3>,
        // grids
        "grid_sampler_2d_backward" => pools::grid,
        // convolutions
        "_slow_conv2d_forward" | "slow_conv_transpose2d" | "slow_conv_dilated2d" => pools::convolution::<2>,
        "slow_conv3d_forward" | "slow_conv_transpose3d" | "slow_conv_dilated3d" => pools::convolution::<3>,
        "_slow_conv2d_backward" => pools::convolution_backward,
        // losses, softmax, attention
        "multi_margin_loss_backward" | "multilabel_margin_loss_backward" => layers::margin_backward,
        "_masked_softmax" => layers::masked_softmax,
        "_masked_softmax_backward" => layers::masked_softmax_backward,
        "_native_multi_head_attention" => layers::multi_head_attention,
        "_transformer_encoder_layer_fwd" => layers::encoder_layer,
        "_transform_bias_rescale_qkv" => layers::rescale,
        // normalisation
        "native_batch_norm" | "_native_batch_norm_legit" | "_batch_norm_with_update" | "_batch_norm_no_update" => {
            layers::batch_norm
        }
        "batch_norm_update_stats" => layers::batch_norm_statistics,
        "_weight_norm_interface" => layers::weight_norm,
        "_weight_norm_interface_backward" => layers::weight_norm_backward,
        // quantisation
        "_fused_moving_avg_obs_fq_helper" => layers::observer,
        "_weight_int4pack_mm_for_cpu" => layers::int4_weight,
        "_dyn_quant_pack_4bit_weight" => layers::four_bits,
        "_dyn_quant_matmul_4bit" => layers::four_bit_product,
        // random numbers
        "rrelu_with_noise" | "rrelu_with_noise_" => layers::rrelu,
        // sequences
        "_ctc_loss" => sequences::ctc,
        "_ctc_loss_backward" => sequences::ctc_backward,
        "segment_reduce" => sequences::segment_reduce,
        "_segment_reduce_backward" => sequences::segment_reduce_backward,
        "_nested_compute_contiguous_strides_offsets" => sequences::nested_sizes,
        "_nested_view_from_buffer" => sequences::nested_view,
        "_nested_from_padded" => sequences::nested_from_padded,
        "mkldnn_rnn_layer" => sequences::recurrent_layer,
        // Fourier transforms, distances
        "_fft_r2c" | "_fft_c2c" => math::transform,
        "_fft_c2r" => math::inverse_transform,
        "_cdist_backward" => math::distances_of_rows_backward,
        "_pdist_backward" => math::distances_of_pairs_backward,
        // linear algebra
        "_linalg_eigvals" | "linalg_eigvals" => math::eigenvalues,
        "_cholesky_solve_helper" => math::cholesky_solve,
        "linalg_ldl_solve" => math::pivots,
        "linalg_lstsq" => math::least_squares,
        "_compute_linear_combination" => math::combination,
        // indices of sparse matrices
        "_sparse_mm_reduce_impl_backward" => math::reduced_product_backward,
        "_convert_indices_from_coo_to_csr" => math::rows,
        "_convert_indices_from_csr_to_coo" => math::compressed_rows,
        "_validate_compressed_sparse_indices" => math::plain_indices,
        "_spdiags" => math::diagonals,
        _ => return resampling_of(operator.strip_suffix("_backward").unwrap_or(operator)),
    })
}

/// The check of a resampling operator or its backward.
fn resampling_of(operator: &str) -> Option<Check> {
    Some(match operator {
        "upsample_nearest1d" | "_upsample_nearest_exact1d" | "upsample_linear1d" => pools::resampling::<1>,
        "upsample_nearest2d" | "_upsample_nearest_exact2d" | "upsample_bilinear2d" | "upsample_bicubic2d" => pools::resampling::<2>,
        "upsample_nearest3d" | "_upsample_nearest_exact3d" | "upsample_trilinear3d" => pools::resampling::<3>,
        "_upsample_bilinear2d_aa" | "_upsample_bicubic2d_aa" | "_upsample_lanczos2d_aa" => pools::antialiased,
        _ => return None,
    })
}

/// True if the operator's kernels write a result's elements contiguously, whatever its strides.
fn writes_contiguously(operator: &str) -> bool {
    matches!(
        operator,
        "_scaled_mm"
            | "adaptive_max_pool3d"
            | "adaptive_max_pool3d_backward"
            | "avg_pool3d"
            | "avg_pool3d_backward"
            | "fractional_max_pool2d"
            | "fractional_max_pool2d_backward"
            | "fractional_max_pool3d"
            | "fractional_max_pool3d_backward"
            | "linalg_lu"
            | "lu_unpack"
            | "max_pool3d_with_indices"
            | "max_pool3d_with_indices_backward"
            | "narrow_copy"
            | "upsample_bicubic2d_backward"
    )
}

/// An argument of a schema.
#[derive(Clone, Debug)]
pub struct Argument {
    pub name: String,
    /// True if the operator writes to the argument.
    pub is_written: bool,
}

/// The guard of one overload.
pub struct Guard {
    /// The name with its namespace: `aten::segment_reduce`.
    operator: String,
    arguments: Vec<Argument>,
    check: Option<Check>,
    writes_contiguously: bool,
}

impl Guard {
    /// The guard of an overload with these arguments; `None` if its kernels tolerate every call.
    pub fn find(operator: &str, arguments: Vec<Argument>) -> Option<Self> {
        let name = operator.strip_prefix("aten::")?;
        let check = check_of(name);
        let writes_contiguously = writes_contiguously(name) && arguments.iter().any(|argument| argument.is_written);
        let is_needed = check.is_some() || writes_contiguously;
        is_needed.then(|| Self { operator: operator.into(), arguments, check, writes_contiguously })
    }

    /// Checks a call, with one value for each argument. `reader` is `None` while tensors have no values yet.
    ///
    /// # Errors
    /// If the kernel could access memory out of bounds or crash.
    pub fn check(&self, values: &[Value<'_>], reader: Option<&dyn Reader>) -> Result<Changes, Refusal> {
        if values.len() != self.arguments.len() {
            let (given, expected) = (values.len(), self.arguments.len());
            return Err(Refusal::Invalid(format!("internal error: {given} arguments, and {expected} expected")));
        }
        let mut arguments = NamedArguments::new(&self.operator, &self.arguments, values, reader);
        if self.writes_contiguously {
            arguments.check_results_apart()?;
        }
        if let Some(check) = self.check {
            check(&mut arguments)?;
        }
        Ok(arguments.into_changes())
    }
}

#[cfg(test)]
mod guards_tests;
