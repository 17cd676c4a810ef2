//! Guards of backward kernels of losses, attention, normalisation and quantisation.

use super::named_arguments::{NamedArguments, check, size};
use crate::operators::call::{Outcome, Refusal, wrap_dim};

/// `at::Reduction::None`.
const UNREDUCED: i64 = 0;

/// The loss has one gradient or, if it is not reduced, one for each row.
pub fn margin_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    let sizes = arguments.given("self")?.sizes();
    let has_rows = arguments.integer("reduction") == Some(UNREDUCED) && sizes.len() > 1;
    arguments.check_numel("grad_output", if has_rows { sizes[0] } else { 1 })
}

/// Masks of (queries, keys) and (batch, keys) need 4-D scores.
pub fn masked_softmax(arguments: &mut NamedArguments<'_>) -> Outcome {
    if arguments.integer("mask_type").unwrap_or(2) == 2 {
        return Ok(());
    }
    arguments.check_dim("self", 4)?;
    arguments.check_dim("mask", 2)
}

pub fn masked_softmax_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    let grad = arguments.given("grad_output")?;
    arguments.check_sizes("output", grad.sizes())?;
    arguments.check_sizes("mask", grad.sizes())?;
    arguments.check_same_dtype("output", "grad_output")
}

// ---- attention ----

fn check_positive(arguments: &NamedArguments<'_>, name: &str) -> Result<i64, Refusal> {
    let value = arguments.integer(name).unwrap_or(0);
    check!(arguments, value > 0, "expected {name} to be greater than 0");
    Ok(value)
}

pub fn multi_head_attention(arguments: &mut NamedArguments<'_>) -> Outcome {
    check_positive(arguments, "num_head")?;
    arguments.check_same_dtype("qkv_bias", "query")
}

pub fn encoder_layer(arguments: &mut NamedArguments<'_>) -> Outcome {
    check_positive(arguments, "num_heads")?;
    arguments.check_same_dtype("qkv_bias", "src")
}

pub fn rescale(arguments: &mut NamedArguments<'_>) -> Outcome {
    let heads = check_positive(arguments, "num_heads")?;
    let qkv = arguments.given("qkv")?;
    arguments.check_dim("qkv", 3)?;
    arguments.check_same_dtype("qkv_bias", "qkv")?;
    arguments.contiguous("qkv_bias")?;
    let sizes = qkv.sizes();
    arguments.check_numel("qkv_bias", sizes[2])?;
    let fits = qkv.numel() > 0 && sizes[2] % heads.saturating_mul(3) == 0;
    let text = "expected qkv to have elements and a last dimension of 3 parts for each head";
    check!(arguments, fits, "{text}, but got {sizes:?}");
    Ok(())
}

// ---- normalisation ----

/// Each parameter has one element per channel.
pub fn batch_norm(arguments: &mut NamedArguments<'_>) -> Outcome {
    let sizes = arguments.given("input")?.sizes();
    let ndim = sizes.len();
    check!(arguments, ndim >= 2, "expected input to have at least 2 dimensions, but got {ndim}");
    for name in ["weight", "bias", "running_mean", "running_var"] {
        arguments.check_numel(name, sizes[1])?;
    }
    let has_statistics = arguments.flag("training") || arguments.tensor("running_mean").is_some();
    check!(arguments, has_statistics, "expected running_mean and running_var where training is False");
    Ok(())
}

pub fn batch_norm_statistics(arguments: &mut NamedArguments<'_>) -> Outcome {
    let sizes = arguments.given("input")?.sizes();
    let ndim = sizes.len();
    check!(arguments, ndim >= 2, "expected input to have 2 dimensions or more, but got {ndim}");
    arguments.check_numel("running_mean", sizes[1])?;
    arguments.check_numel("running_var", sizes[1])
}

fn check_weight_norm(arguments: &NamedArguments<'_>, v: &str) -> Outcome {
    let weight = arguments.given(v)?;
    check!(arguments, weight.ndim() > 0, "expected {v} to have dimensions");
    let (dim, last) = (arguments.integer("dim").unwrap_or(0), weight.ndim() as i64 - 1);
    check!(arguments, dim == 0 || dim == last, "expected dim to be 0 or {last}, but got {dim}");
    ["g", "saved_g", "saved_norms"].into_iter().try_for_each(|name| arguments.check_numel(name, weight.sizes()[dim as usize]))
}

pub fn weight_norm(arguments: &mut NamedArguments<'_>) -> Outcome {
    check_weight_norm(arguments, "v")?;
    arguments.check_same_dtype("g", "v")
}

pub fn weight_norm_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    check_weight_norm(arguments, "saved_v")?;
    arguments.check_sizes("grad_w", arguments.given("saved_v")?.sizes())?;
    arguments.check_same_dtype("grad_w", "saved_v")?;
    arguments.check_same_dtype("saved_g", "saved_v")
}

// ---- quantisation ----

/// If the per-row ranges are empty, the kernel allocates them itself.
pub fn observer(arguments: &mut NamedArguments<'_>) -> Outcome {
    let input = arguments.given("self")?;
    let has_rows = arguments.flag("per_row_fake_quant");
    if has_rows && arguments.given("running_min")?.numel() == 0 {
        return Ok(());
    }
    let mut count = 1;
    if has_rows {
        let dim = wrap_dim(arguments.integer("ch_axis").unwrap_or(0), input.ndim())?;
        count = size(input, dim as i64)?;
    }
    ["running_min", "running_max", "scale", "zero_point"].into_iter().try_for_each(|name| arguments.check_numel(name, count))
}

pub fn int4_weight(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (input, scales) = (arguments.given("self")?.sizes(), arguments.given("qScaleAndZeros")?.sizes());
    let group = arguments.integer("qGroupSize").unwrap_or(0);
    let fits = matches!((input, scales), (&[_, columns], &[groups, _, _]) if group > 0 && groups == columns / group);
    check!(arguments, fits, "qScaleAndZeros of size {scales:?} does not fit self of size {input:?} in groups of {group}");
    Ok(())
}

pub fn four_bits(arguments: &mut NamedArguments<'_>) -> Outcome {
    for name in ["block_size", "in_features", "out_features"] {
        let value = check_positive(arguments, name)?;
        check!(arguments, value <= i64::from(i32::MAX), "{name} is too large");
    }
    Ok(())
}

pub fn four_bit_product(arguments: &mut NamedArguments<'_>) -> Outcome {
    four_bits(arguments)?;
    let (input, packed) = (arguments.contiguous("inp")?, arguments.contiguous("packed_weights")?);
    arguments.check_dim("inp", 2)?;
    let (columns, rows) = (arguments.integer("in_features").unwrap_or(0), arguments.integer("out_features").unwrap_or(0));
    arguments.check_sizes("inp", &[input.sizes()[0], columns])?;
    let (sizes, weights) = (packed.sizes(), columns * rows);
    let has_all = packed.numel() * packed.dtype().size() as i64 >= weights / 2;
    check!(arguments, has_all, "packed_weights of size {sizes:?} are too few for {weights} weights");
    Ok(())
}

// ---- random numbers ----

/// In training, the kernel writes as many elements as `self` has to an output that it does not resize, whatever its strides.
pub fn rrelu(arguments: &mut NamedArguments<'_>) -> Outcome {
    if !arguments.flag("training") {
        return Ok(());
    }
    arguments.resize("out", "self");
    arguments.check_results_apart()
}
