//! Sequences and segments with given lengths.

use super::{contiguous, result, results, take_filled, take_if, with_elements};
use crate::operators::call::{Arguments, Call, Outcome};
use crate::operators::tensors::Tensor;

fn are_within(lengths: &[i64], most: i64) -> bool {
    lengths.iter().all(|length| (0..=most).contains(length))
}

/// `_ctc_loss`. Lengths in tensors are read during the call, so the fallback serves them.
pub fn ctc_loss(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (scores, targets, lengths, target_lengths, _, _): (_, _, &[i64], &[i64], i64, bool) = with_elements(arguments)?;
    let (scores, targets): (Tensor<'_>, Tensor<'_>) = (scores, targets);
    take_if(scores.ndim() == 3 && [1, 2].contains(&targets.ndim()))?;
    let (steps, samples) = (scores.sizes()[0], scores.sizes()[1]);
    take_if(lengths.len() as i64 == samples && target_lengths.len() == lengths.len())?;
    take_if(are_within(lengths, steps) && are_within(target_lengths, targets.size_from_end(0)))?;
    let longest = target_lengths.iter().max().unwrap_or(&0);
    results(call, &[contiguous(&[samples], scores), contiguous(&[samples, steps, 2 * longest + 1], scores)])
}

/// `segment_reduce`. Lengths are read during the call if they must be checked to cover the data, so the fallback serves them.
pub fn segment_reduce(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    take_filled(arguments)?;
    let [data, _, lengths, _, offsets, axis, is_unsafe, _] = arguments.all()?;
    let (data, axis): (Tensor<'_>, i64) = (data.get()?, axis.get()?);
    take_if((0..data.ndim() as i64).contains(&axis))?;
    let axis = axis as usize;
    let (segments, count) = match (lengths.get::<Option<Tensor<'_>>>()?, offsets.get::<Option<Tensor<'_>>>()?) {
        (Some(lengths), None) if is_unsafe.get()? => (lengths, 0),
        (None, Some(offsets)) => (offsets, 1),
        _ => return take_if(false),
    };
    take_if(segments.ndim() == axis + 1)?;
    let mut sizes = data.sizes().to_vec();
    sizes[axis] = segments.sizes()[axis] - count;
    result(call, contiguous(&sizes, data))
}
