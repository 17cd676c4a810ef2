//! `channel_shuffle`: interleaves the channels of groups.

use super::call::{Call, Outcome, Shape, Strides, ensure};
use super::tensors::{Dims, Tensor};

/// `channel_shuffle` and `native_channel_shuffle`. The result has the memory format of the input.
pub fn shuffle(call: &Call<'_>, input: Tensor<'_>, groups: i64) -> Outcome {
    ensure!(input.ndim() > 2 && groups > 0 && input.sizes()[1] % groups == 0);
    if input.numel() == 0 {
        return call.output_like(0, input).map(drop);
    }
    let out = call.output(0, &Shape::new(input.sizes(), input.dtype(), input.suggested_format()), Strides::Any)?;
    let of_group = input.sizes()[1] / groups;
    // Both views have dimensions (index within the group, group).
    let divided = |values: &[i64], [within, group]: [i64; 2]| -> Dims {
        [values[0], within, group].into_iter().chain(values[2..].iter().copied()).collect()
    };
    let sizes = divided(input.sizes(), [of_group, groups]);
    let (from, to) = (input.strides()[1], out.strides()[1]);
    let source = input.within(&sizes, &divided(input.strides(), [from, of_group * from]));
    let target = out.within(&sizes, &divided(out.strides(), [groups * to, to]));
    call.launch(&[target], &[source], &[])
}
