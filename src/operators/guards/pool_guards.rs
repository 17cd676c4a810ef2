//! Guards of backward kernels of pooling, of resampling and of convolutions.

use super::named_arguments::{Change, NamedArguments, check};
use crate::operators::call::Outcome;

/// The backward of a pooling: the gradient has as many planes as the input.
pub fn planes<const SPATIAL: usize>(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (grad, input) = (arguments.given("grad_output")?, arguments.given("self")?);
    let (ndim, least) = (input.ndim(), SPATIAL + 1);
    let is_image = ndim == least || ndim == least + 1;
    check!(arguments, is_image, "expected self to have {least} or {} dimensions, but got {ndim}", least + 1);
    arguments.check_dim("grad_output", ndim)?;
    let (given, expected) = (grad.sizes(), input.sizes());
    let has_planes = given[..ndim - SPATIAL] == expected[..ndim - SPATIAL];
    let text = "expected grad_output and self to have the same batch and channels";
    check!(arguments, has_planes, "{text}, but got {given:?} and {expected:?}");
    check!(arguments, input.numel() != 0 || grad.numel() == 0, "self is empty where grad_output is not");
    Ok(())
}

/// Like `planes`, with indices that say which element of its plane a gradient goes to.
pub fn indexed_planes<const SPATIAL: usize>(arguments: &mut NamedArguments<'_>) -> Outcome {
    planes::<SPATIAL>(arguments)?;
    arguments.check_sizes("indices", arguments.given("grad_output")?.sizes())?;
    arguments.contiguous("indices")?;
    let plane = arguments.given("self")?.sizes().iter().rev().take(SPATIAL).product();
    arguments.check_range("indices", 0, plane)
}

pub fn fractional<const SPATIAL: usize>(arguments: &mut NamedArguments<'_>) -> Outcome {
    arguments.check_length("output_size", SPATIAL)?;
    indexed_planes::<SPATIAL>(arguments)
}

/// The given scale of a dimension, if any.
fn scale_of(arguments: &NamedArguments<'_>, spatial: usize, dim: usize) -> Option<f64> {
    let name = if spatial == 1 { "scales" } else { ["scales_d", "scales_h", "scales_w"][3 - spatial + dim] };
    arguments.number(name)
}

/// A number formatted as in C++.
fn written(number: f64) -> String {
    if number.abs() < 1e-4 { format!("{number:e}") } else { number.to_string() }
}

/// Positions in the input are computed in floating point and converted to an int, so they must fit.
pub fn resampling<const SPATIAL: usize>(arguments: &mut NamedArguments<'_>) -> Outcome {
    const LIMIT: f64 = 2_147_483_648.0;
    arguments.check_length("output_size", SPATIAL)?;
    if arguments.tensor("self").is_some() {
        arguments.check_dim("self", SPATIAL + 2)?;
    } else {
        arguments.check_length("input_size", SPATIAL + 2)?;
    }
    for (dim, &size) in arguments.integers("output_size").iter().enumerate() {
        if let Some(scale) = scale_of(arguments, SPATIAL, dim).filter(|&scale| scale > 0.0) {
            let is_within = (size as f64) / scale < LIMIT;
            check!(arguments, is_within, "a scale of {} is too small for an output of size {size}", written(scale));
        }
    }
    Ok(())
}

/// With antialiasing, the centre of every output element must be inside the input.
pub fn antialiased(arguments: &mut NamedArguments<'_>) -> Outcome {
    resampling::<2>(arguments)?;
    if arguments.flag("align_corners") {
        return Ok(());
    }
    // The sizes of the input: those of a tensor forward, a list backward.
    let input = arguments.tensor("self").map_or(arguments.integers("input_size"), |tensor| tensor.sizes());
    for (dim, (&size, &from)) in arguments.integers("output_size").iter().zip(&input[2..]).enumerate() {
        if let Some(scale) = scale_of(arguments, 2, dim).filter(|&scale| scale > 0.0) {
            let is_within = size as f64 <= (from as f64) * scale * (1.0 + 1e-6);
            let text = format!("too large for an input of size {from} and a scale of {}", written(scale));
            check!(arguments, is_within, "an output of size {size} is {text}");
        }
    }
    Ok(())
}

/// Values of `padding_mode` of `grid_sampler`.
const BORDER: i64 = 1;
const REFLECTION: i64 = 2;

/// For NaN positions the kernel accesses arbitrary memory. They are moved to the border, as in the forward kernel.
pub fn grid(arguments: &mut NamedArguments<'_>) -> Outcome {
    const INFINITY: f64 = f64::INFINITY;
    arguments.given("grid")?;
    match arguments.integer("padding_mode") {
        Some(BORDER) => arguments.change("grid", Change::Finite([-INFINITY, INFINITY, -INFINITY])),
        Some(REFLECTION) => arguments.change("grid", Change::Finite([-1.0; 3])),
        _ => {}
    }
    Ok(())
}

/// A convolution whose kernel loops over the weight as `kernel_size` says.
pub fn convolution<const SPATIAL: usize>(arguments: &mut NamedArguments<'_>) -> Outcome {
    for name in ["kernel_size", "stride", "padding"] {
        arguments.check_length(name, SPATIAL)?;
        arguments.check_small(name)?;
    }
    arguments.check_small("output_padding")?;
    arguments.check_small("dilation")?;
    if let Some(weight) = arguments.tensor("weight").filter(|weight| weight.ndim() == SPATIAL + 2) {
        let sizes = weight.sizes();
        let is_of_kernel = sizes[2..] == *arguments.integers("kernel_size");
        check!(arguments, is_of_kernel, "expected weight to end in the sizes of the kernel, but got {sizes:?}");
    }
    Ok(())
}

pub fn convolution_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    convolution::<2>(arguments)?;
    let (input, grad, weight) = (arguments.given("self")?, arguments.given("grad_output")?, arguments.given("weight")?);
    arguments.check_dim("self", 4)?;
    arguments.check_dim("grad_output", 4)?;
    let (given, expected) = (grad.sizes(), input.sizes());
    let text = "expected grad_output and self to have the same batch";
    check!(arguments, given[0] == expected[0], "{text}, but got {given:?} and {expected:?}");
    let (sizes, kernel) = (weight.sizes(), arguments.integers("kernel_size"));
    let window = |channels: i64| [expected[1], kernel[0], kernel[1]].into_iter().fold(channels, i64::saturating_mul);
    let fits = sizes.len() >= 2 && weight.numel() == window(sizes[0]);
    check!(arguments, fits, "weight of size {sizes:?} does not fit self of size {expected:?}");
    Ok(())
}
