//! Guards of operators on sequences with given lengths: CTC, segments, nested tensors, recurrent layers.

use super::named_arguments::{NamedArguments, check, minmax};
use crate::operators::Tensor;
use crate::operators::call::{Outcome, Refusal, wrap_dim};

// ---- CTC ----

/// The lengths, one for each sequence of the batch, each between 0 and `most`; `None` if they have no values yet.
fn checked_lengths(arguments: &NamedArguments<'_>, name: &str, batch: i64, most: i64) -> Result<Option<Vec<i64>>, Refusal> {
    let Some(lengths) = arguments.lengths(name) else { return Ok(None) };
    let count = lengths.len();
    check!(arguments, count as i64 == batch, "expected {batch} lengths in {name}, but got {count}");
    for length in &lengths {
        check!(arguments, (0..=most).contains(length), "expected {name} between 0 and {most}, but got {length}");
    }
    Ok(Some(lengths))
}

/// The targets of each sequence must be classes up to its length; padding may be anything.
fn check_targets(arguments: &NamedArguments<'_>, targets: Tensor<'_>, lengths: &[i64], classes: i64) -> Outcome {
    let Some(reader) = arguments.reader() else { return Ok(()) };
    let values = reader.integers(targets);
    let row = (targets.ndim() == 2).then(|| targets.sizes()[1] as usize);
    let mut begin = 0;
    for &length in lengths {
        for &value in &values[begin..begin + length as usize] {
            arguments.check_in_range("targets", Some((value, value)), 0, classes)?;
        }
        begin += row.unwrap_or(length as usize);
    }
    Ok(())
}

/// The sizes of the probabilities, and the lengths of the targets.
fn check_ctc(arguments: &mut NamedArguments<'_>) -> Result<([i64; 3], Option<Vec<i64>>), Refusal> {
    let log_probs = arguments.given("log_probs")?;
    arguments.check_dim("log_probs", 3)?;
    let (time, batch, classes) = (log_probs.sizes()[0], log_probs.sizes()[1], log_probs.sizes()[2]);
    let targets = arguments.contiguous("targets")?;
    let sizes = targets.sizes();
    let fits = matches!(*sizes, [_]) || matches!(*sizes, [first, _] if first == batch);
    let text = "expected targets to have 1 dimension, or 2 of which the first is the batch";
    check!(arguments, fits, "{text}, but got {sizes:?}");
    checked_lengths(arguments, "input_lengths", batch, time)?;
    let lengths = checked_lengths(arguments, "target_lengths", batch, sizes[sizes.len() - 1])?;
    let sum: i64 = lengths.iter().flatten().sum();
    check!(arguments, sizes.len() == 2 || sum <= sizes[0], "expected {sum} targets, but got {}", sizes[0]);
    let blank = arguments.integer("blank").unwrap_or(0);
    check!(arguments, (0..classes).contains(&blank), "blank must be in label range");
    if let Some(lengths) = &lengths {
        check_targets(arguments, targets, lengths, classes)?;
    }
    Ok(([time, batch, classes], lengths))
}

pub fn ctc(arguments: &mut NamedArguments<'_>) -> Outcome {
    check_ctc(arguments).map(drop)
}

pub fn ctc_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (shape @ [time, batch, _], lengths) = check_ctc(arguments)?;
    arguments.check_sizes("grad", &[batch])?;
    arguments.check_sizes("neg_log_likelihood", &[batch])?;
    for name in ["grad", "neg_log_likelihood", "log_alpha"] {
        arguments.check_same_dtype(name, "log_probs")?;
    }
    let log_alpha = arguments.given("log_alpha")?.sizes();
    arguments.check_dim("log_alpha", 3)?;
    let longest = lengths.into_iter().flatten().max().unwrap_or(0);
    let fits = log_alpha[0] == batch && log_alpha[1] == time && log_alpha[2] > 2 * longest;
    let text = "does not fit log_probs of size";
    check!(arguments, fits, "log_alpha of size {log_alpha:?} {text} {shape:?} and targets of length {longest}");
    Ok(())
}

// ---- segments ----

/// Checks lengths or offsets of segments along `axis`: the leading sizes are those of the data, and values are within bounds.
/// Returns the number of segments.
fn check_segments_in(arguments: &mut NamedArguments<'_>, name: &str, data: Tensor<'_>, axis: usize) -> Result<i64, Refusal> {
    let given = arguments.contiguous(name)?;
    arguments.check_dim(name, axis + 1)?;
    let (sizes, expected) = (given.sizes(), data.sizes());
    let text = "and data to have the same size before dimension";
    let has_rows = sizes[..axis] == expected[..axis];
    check!(arguments, has_rows, "expected {name} {text} {axis}, but got {sizes:?} and {expected:?}");
    let (count, high) = (sizes[axis], expected[axis] + 1);
    if name == "offsets" {
        check!(arguments, count > 0, "offsets is empty");
        arguments.check_range(name, 0, high)?;
        return Ok(count - 1);
    }
    arguments.check_range(name, 0, high)?;
    // Without `unsafe`, the kernel itself checks that lengths cover the data.
    let lengths = arguments.elements(given);
    let sums = lengths.chunks(count.max(1) as usize).map(|row| row.iter().sum());
    arguments.check_in_range("a sum of lengths", minmax(sums), 0, high)?;
    Ok(count)
}

/// The axis of the segments, and their number.
fn check_segments(arguments: &mut NamedArguments<'_>) -> Result<(usize, i64), Refusal> {
    let data = arguments.given("data")?;
    check!(arguments, data.ndim() > 0, "expected data to have dimensions");
    let axis = wrap_dim(arguments.integer("axis").unwrap_or(0), data.ndim())?;
    let mut count = 0;
    for name in ["lengths", "offsets"] {
        if arguments.tensor(name).is_some() {
            count = check_segments_in(arguments, name, data, axis)?;
        }
    }
    Ok((axis, count))
}

pub fn segment_reduce(arguments: &mut NamedArguments<'_>) -> Outcome {
    check_segments(arguments).map(drop)
}

pub fn segment_reduce_backward(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (axis, count) = check_segments(arguments)?;
    let mut sizes = arguments.given("data")?.sizes().to_vec();
    sizes[axis] = count;
    for name in ["grad", "output"] {
        arguments.check_sizes(name, &sizes)?;
        arguments.check_same_dtype(name, "data")?;
    }
    Ok(())
}

// ---- nested tensors ----

pub fn nested_sizes(arguments: &mut NamedArguments<'_>) -> Outcome {
    let sizes = arguments.contiguous("nested_size")?;
    arguments.check_dim("nested_size", 2)?;
    check!(arguments, sizes.sizes()[0] > 0, "nested_size has no rows");
    Ok(())
}

pub fn nested_view(arguments: &mut NamedArguments<'_>) -> Outcome {
    nested_sizes(arguments)?;
    let sizes = arguments.given("nested_size")?.sizes();
    arguments.contiguous("nested_strides")?;
    arguments.contiguous("offsets")?;
    arguments.check_sizes("nested_strides", sizes)?;
    arguments.check_sizes("offsets", &sizes[..1])
}

pub fn nested_from_padded(arguments: &mut NamedArguments<'_>) -> Outcome {
    arguments.contiguous("cpu_nested_shape_example").map(drop)
}

// ---- recurrent layers ----

/// The modes of layers that have a oneDNN kernel.
const LSTM: i64 = 2;
const GRU: i64 = 3;

pub fn recurrent_layer(arguments: &mut NamedArguments<'_>) -> Outcome {
    let (mode, hidden) = (arguments.integer("mode").unwrap_or(-1), arguments.integer("hidden_size").unwrap_or(0));
    let is_layer = (0..=GRU).contains(&mode) && (1..=i64::from(i32::MAX)).contains(&hidden);
    check!(arguments, is_layer, "there is no layer of mode {mode} with {hidden} features");
    let gates = match mode {
        LSTM => 4,
        GRU => 3,
        _ => 1,
    };
    let input = arguments.given("input")?;
    arguments.check_dim("input", 3)?;
    let (batch, features) = (input.sizes()[1], input.sizes()[2]);
    arguments.check_sizes("weight0", &[gates * hidden, features])?;
    arguments.check_sizes("weight1", &[gates * hidden, hidden])?;
    if arguments.flag("has_biases") {
        arguments.check_numel("weight2", gates * hidden)?;
        arguments.check_numel("weight3", gates * hidden)?;
    }
    arguments.check_numel("hx_", batch.saturating_mul(hidden))?;
    if mode == LSTM {
        arguments.check_numel("cx_", batch.saturating_mul(hidden))?;
    }
    let tensors = ["weight0", "weight1", "weight2", "weight3", "hx_", "cx_"];
    tensors.into_iter().try_for_each(|name| arguments.check_same_dtype(name, "input"))
}
