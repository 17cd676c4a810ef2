//! Guards: checks of preconditions that PyTorch's CPU kernels do not check themselves.
//!
//! A call that violates one would access memory outside of its tensors and crash the process. A guard refuses such calls before
//! the kernel runs; the kernel's own checks are left to the kernel. It is a line of the table below: the operator's names and the
//! rules for its arguments, which serve all of its overloads. Operators whose names begin with an underscore have one only if a
//! public function can reach the crash. `tools/fuzz_fallback.py` finds operators that need a guard.
//!
//! Before a task, tensors have no values yet: the guard then checks sizes and dtypes. It checks values when it runs inside the
//! task.

mod rules;
mod sparse_guards;

use super::{CallError, Value};
use rules::Check;
use rules::Rule::{
    self, Along, Apart, Contiguous, Finite, Given, Indices, Lengths, Numel, Pivots, Positions, Prefixes, Refused, Replaced,
    SameDtype, Sizes, Sums, When,
};
pub use rules::{Change, Reader};
pub use sparse_guards::{check_members, looks_at_no_index};

/// One line per guard. An operator may be in several.
macro_rules! guards {
    ($($($name:literal)|+ => $($rule:expr),+;)*) => {
        static GUARDS: &[(&[&str], &[Rule])] = &[$((&[$($name),+], &[$($rule),+])),*];
    };
}

const INFINITY: f64 = f64::INFINITY;

guards! {
    // The backward of poolings: the gradient has the planes of the input, and indices lie within a plane.
    "avg_pool2d_backward" => Sizes("self", "b? c _ _"), Sizes("grad_output", "b.. c _ _");
    "avg_pool3d_backward" => Sizes("self", "b? c _ _ _"), Sizes("grad_output", "b.. c _ _ _");
    "adaptive_avg_pool3d_backward" | "_adaptive_avg_pool3d_backward" => Sizes("self", "b? c _ _ _"),
        Sizes("grad_output", "b.. c _ _ _"), When("grad_output", "some", &[Sizes("self", "_.. _! _! _!")]);
    "adaptive_max_pool2d_backward" | "max_pool2d_with_indices_backward" => Sizes("self", "b? c h w"),
        Sizes("grad_output", "b.. c y x"), Sizes("indices", "b.. c y x"), Indices("indices", "h*w");
    "adaptive_max_pool3d_backward" | "max_pool3d_with_indices_backward" => Sizes("self", "b? c d h w"),
        Sizes("grad_output", "b.. c z y x"), Sizes("indices", "b.. c z y x"), Indices("indices", "d*h*w"), Contiguous("indices");
    "fractional_max_pool2d_backward" => Sizes("output_size", "_ _"), Sizes("self", "b? c h w"),
        Sizes("grad_output", "b.. c y x"), Sizes("indices", "b.. c y x"), Indices("indices", "h*w"), Contiguous("indices");
    "fractional_max_pool3d_backward" => Sizes("output_size", "_ _ _"), Sizes("self", "b? c d h w"),
        Sizes("grad_output", "b.. c z y x"), Sizes("indices", "b.. c z y x"), Indices("indices", "d*h*w"), Contiguous("indices");
    // For NaN positions the kernel accesses arbitrary memory. They are moved to the border, as in the forward kernel.
    "grid_sampler_2d_backward" => When("padding_mode", "1", &[Replaced("grid", [-INFINITY, INFINITY, -INFINITY])]),
        When("padding_mode", "2", &[Replaced("grid", [-1.0; 3])]);
    // Resampling computes positions in the input in floating point and converts them to an int.
    "upsample_nearest1d" | "_upsample_nearest_exact1d" | "upsample_linear1d" | "upsample_nearest2d" | "_upsample_nearest_exact2d"
        | "upsample_bilinear2d" | "upsample_bicubic2d" | "upsample_nearest3d" | "_upsample_nearest_exact3d" | "upsample_trilinear3d"
        | "upsample_nearest1d_backward" | "_upsample_nearest_exact1d_backward" | "upsample_linear1d_backward"
        | "upsample_nearest2d_backward" | "_upsample_nearest_exact2d_backward" | "upsample_bilinear2d_backward"
        | "upsample_bicubic2d_backward" | "upsample_nearest3d_backward" | "_upsample_nearest_exact3d_backward"
        | "upsample_trilinear3d_backward" => Positions;
    // Losses have one gradient or, if they are not reduced, one for each row.
    "multi_margin_loss_backward" | "multilabel_margin_loss_backward" => When("reduction", "!0", &[Numel("grad_output", "1")]),
        When("reduction", "0", &[Sizes("self", "n? _"), Numel("grad_output", "n")]);
    // Parameters and statistics have one element for each channel.
    "native_batch_norm" | "_native_batch_norm_legit" | "_batch_norm_with_update" | "_batch_norm_no_update"
        | "batch_norm_update_stats" => Sizes("input", "_ c _.."), Numel("weight", "c"), Numel("bias", "c"),
        Numel("running_mean", "c"), Numel("running_var", "c"), When("training", "false", &[Given("running_mean")]);
    "_weight_norm_interface" => Along("v", "dim"), Numel("g", "along"), SameDtype("g", "v");
    // The kernel allocates ranges of rows itself if they are empty.
    "_fused_moving_avg_obs_fq_helper" => When("per_row_fake_quant", "false", &[Numel("running_min", "1"),
            Numel("running_max", "1"), Numel("scale", "1"), Numel("zero_point", "1")]),
        When("per_row_fake_quant", "true", &[When("running_min", "some", &[Along("self", "ch_axis"),
            Numel("running_min", "along"), Numel("running_max", "along"), Numel("scale", "along"), Numel("zero_point", "along")])]);
    // In training, the kernel writes as many elements as `self` has to an output that it does not resize.
    "rrelu_with_noise" | "rrelu_with_noise_" => When("training", "true", &[Sizes("self", "s.."), Sizes("out", "s.."), Apart]);
    // Targets are classes up to the length of their sequence; padding may be anything.
    "_ctc_loss" | "_ctc_loss_backward" => Sizes("log_probs", "t b c"), Contiguous("targets"), Sizes("targets", "b? s"),
        Lengths("input_lengths", "b", "t"), Lengths("target_lengths", "b", "s"),
        Prefixes("targets", "target_lengths", "c");
    // Without `unsafe`, the kernel itself checks that lengths cover the data.
    "segment_reduce" | "_segment_reduce_backward" => Along("data", "axis"), Sizes("lengths", "before.. n"),
        Sums("lengths", "along"), Sizes("offsets", "before.. m!"), Indices("offsets", "along+1");
    "_segment_reduce_backward" => Along("data", "axis"), Sizes("grad", "before.. n after.."), Sizes("output", "before.. n after.."),
        Sizes("lengths", "before.. n"), Sizes("offsets", "before.. n+1"), SameDtype("grad", "data"), SameDtype("output", "data");
    // Layers and convolutions on this device have other kernels; no public function calls these.
    "mkldnn_rnn_layer" | "slow_conv3d_forward" | "slow_conv_dilated2d" | "slow_conv_dilated3d" | "slow_conv_transpose2d"
        | "slow_conv_transpose3d" => Refused;
    "_pdist_backward" => Sizes("self", "_! _");
    // LAPACK's eigenvalue search may hang or crash for NaN or infinity.
    "_linalg_eigvals" | "linalg_eigvals" => Finite("self");
    "linalg_ldl_solve" => Pivots("pivots");
    "linalg_lstsq" => When("driver", "gelss", &[When("self", "some", &[Sizes("b", "_.. _!")])]);
    "_spdiags" => Sizes("shape", "_..");
    "_validate_compressed_sparse_indices" => Contiguous("plain_idx");
    "_convert_indices_from_coo_to_csr" => Contiguous("self");
    // The kernels write a result's elements contiguously, whatever its strides.
    "adaptive_max_pool3d" | "adaptive_max_pool3d_backward" | "avg_pool3d" | "avg_pool3d_backward" | "fractional_max_pool2d"
        | "fractional_max_pool2d_backward" | "fractional_max_pool3d" | "fractional_max_pool3d_backward" | "linalg_lu" | "lu_unpack"
        | "max_pool3d_with_indices" | "max_pool3d_with_indices_backward" | "narrow_copy" | "upsample_bicubic2d_backward" => Apart;
}

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
    lines: Vec<&'static [Rule]>,
}

impl Guard {
    /// The guard of an overload with these arguments; `None` if its kernels tolerate every call.
    pub fn find(operator: &str, arguments: Vec<Argument>) -> Option<Self> {
        let name = operator.strip_prefix("aten::")?;
        let is_written = arguments.iter().any(|argument| argument.is_written);
        let lines = GUARDS.iter().filter(|(names, rules)| names.contains(&name) && (is_written || !matches!(rules, [Apart])));
        let lines: Vec<_> = lines.map(|&(_, rules)| rules).collect();
        (!lines.is_empty()).then(|| Self { operator: operator.into(), arguments, lines })
    }

    /// Checks a call, with one value for each argument, and returns the change that the kernel needs, if any. `reader` is `None`
    /// while tensors have no values yet. Fails if the kernel could access memory out of bounds or crash.
    pub fn check(&self, values: &[Value<'_>], reader: Option<&dyn Reader>) -> Result<Option<Change>, CallError> {
        if values.len() != self.arguments.len() {
            let (given, expected) = (values.len(), self.arguments.len());
            return Err(CallError::Invalid(format!("internal error: {given} arguments, and {expected} expected")));
        }
        let mut change = None;
        for rules in &self.lines {
            let mut check = Check::new(&self.operator, &self.arguments, values, reader);
            check.all(rules)?;
            change = check.change.or(change);
        }
        Ok(change)
    }
}

#[cfg(test)]
mod tests;
