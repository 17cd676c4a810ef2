//! Movement of elements without arithmetic: `cat`, `flip`, `roll`, triangles of matrices, `channel_shuffle`; reflection and
//! replication padding of 1-D, 2-D and 3-D data, and their gradients.
//!
//! Calls of `cat` that are clearly valid skip PyTorch's meta function, which takes longer than the rest of a small call. A padding
//! is a list of pairs (before, after), the last dimension first.

pub mod unfold;

use smallvec::SmallVec;

use super::kernel::cat_flip_roll::{cat as cat_kernel, flip as flip_kernel};
use super::kernel::triangle::tril as triangle_kernel;
use crate::call::check_same_device_in;
use crate::call::operator::{COMPOSITION, structured_as};
use crate::call::prelude::*;

operators! {
    c"reflection_pad": structured(typed!(pad::<false>)) =>
        c"reflection_pad1d", c"reflection_pad1d.out" | c"reflection_pad3d", c"reflection_pad3d.out";
    c"reflection_pad": structured_as(c"replication_pad2d", typed!(pad::<true>)) =>
        c"reflection_pad2d", c"reflection_pad2d.out";
    c"replication_pad": structured(typed!(pad::<false>)) =>
        c"replication_pad1d", c"replication_pad1d.out" | c"replication_pad2d", c"replication_pad2d.out" | c"replication_pad3d",
        c"replication_pad3d.out";
    c"reflection_pad_backward": structured(typed!(reflect_lines_backward)) =>
        c"reflection_pad1d_backward", c"reflection_pad1d_backward.grad_input";
    c"reflection_pad_backward": structured(typed!(pad_backward_of_meta)) =>
        c"reflection_pad3d_backward", c"reflection_pad3d_backward.grad_input";
    c"reflection_pad_backward": plain(typed!(pad_backward::<2>)) =>
        c"reflection_pad2d_backward", c"reflection_pad2d_backward.grad_input";
    c"replication_pad_backward": structured(typed!(pad_backward_of_meta)) =>
        c"replication_pad1d_backward", c"replication_pad1d_backward.grad_input";
    c"replication_pad_backward": plain(typed!(pad_backward::<2>)) =>
        c"replication_pad2d_backward", c"replication_pad2d_backward.grad_input";
    c"replication_pad_backward": plain(typed!(pad_backward::<3>)) =>
        c"replication_pad3d_backward", c"replication_pad3d_backward.grad_input";
    c"cat": structured(typed!(cat)) => c"cat", c"cat.out";
    c"flip": plain(typed!(flip)) => c"flip";
    c"roll": plain(typed!(roll)) => c"roll";
    c"tril": structured(typed!(triangle)) => c"tril", c"tril_", c"tril.out";
    c"triu": structured(typed!(triangle)) => c"triu", c"triu_", c"triu.out";
    c"copy_": any_dtype(plain(typed!(shuffle))) => c"channel_shuffle" | c"native_channel_shuffle";
    // operators for which PyTorch's composite implementation is used, though the CPU has kernels
    _: COMPOSITION => c"_stack" | c"_stack.out" | c"narrow_copy" | c"pixel_shuffle" | c"pixel_unshuffle";
}

/// `c10::MemoryFormat::Preserve`.
const PRESERVE: i64 = 1;

/// `flip`. The result keeps the input's strides if those are dense. The kernel gets the set of dimensions as a bit mask.
pub fn flip(call: &Call<'_>, input: Tensor<'_>, dims: &[i64]) -> Outcome {
    ensure!(input.ndim() <= 64);
    let mut flipped = 0_i64;
    for &dim in dims {
        let dim = wrap_dim(dim, input.ndim())?;
        ensure!(flipped >> dim & 1 == 0);
        flipped |= 1 << dim;
    }
    let out = call.output_in_order_of(0, input, input.dtype())?;
    call.launch(&[out], &[input], &flip_kernel::Scalars { dims: flipped.into() }.list())
}

/// The most dimensions of one launch: each one doubles the number of copies.
const ROLLS_PER_LAUNCH: usize = 4;

/// A dimension, and the shift along it, less than its size.
type Move = (usize, i64);

/// The moves of each launch, for a tensor that is not empty.
fn moves_of(sizes: &[i64], shifts: &[i64], dims: &[i64]) -> Result<Vec<Vec<Move>>, CallError> {
    let mut moves: Vec<Move> = Vec::new();
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let dim = wrap_dim(dim, sizes.len())?;
        let &size = sizes.get(dim).ok_or(CallError::CpuError)?;
        let shift = shift.rem_euclid(size);
        match moves.iter_mut().find(|(other, _)| *other == dim) {
            Some((_, sum)) => *sum = (*sum + shift) % size,
            None => moves.push((dim, shift)),
        }
    }
    Ok(moves.chunks(ROLLS_PER_LAUNCH).map(<[Move]>::to_vec).collect())
}

fn launch_roll(call: &Call<'_>, out: Tensor<'_>, input: Tensor<'_>, moves: &[Move]) -> Outcome {
    let scalars: SmallVec<[Scalar; 8]> = moves.iter().flat_map(|&(dim, shift)| [Scalar::Long(dim as i64), shift.into()]).collect();
    call.launch(&[out], &[input], &scalars)
}

/// `roll` of the flattened tensor.
fn roll_elements(call: &Call<'_>, input: Tensor<'_>, shift: i64) -> Outcome {
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
    let count = input.numel();
    if count == 0 {
        return Ok(());
    }
    let line = call.dense(input, Format::Contiguous)?.view(&[count]);
    launch_roll(call, out.view(&[count]), line, &[(0, shift.rem_euclid(count))])
}

/// `roll`. The result has the memory format that the input's strides suggest.
pub fn roll(call: &Call<'_>, input: Tensor<'_>, shifts: &[i64], dims: &[i64]) -> Outcome {
    if let ([shift], []) = (shifts, dims) {
        return roll_elements(call, input, *shift);
    }
    ensure!(!shifts.is_empty() && shifts.len() == dims.len());
    if input.numel() == 0 {
        let clone = call.operator(&callees::CLONE, &[Value::Tensor(input), Value::Number(Scalar::Long(PRESERVE))])?;
        return call.give(0, clone);
    }
    let launches = moves_of(input.sizes(), shifts, dims)?;
    let shape = Shape::new(input.sizes(), input.dtype(), input.suggested_format());
    let mut source = input;
    for (number, moves) in launches.iter().enumerate() {
        let is_last = number + 1 == launches.len();
        let target = if is_last { call.output(0, &shape, Strides::Any)? } else { call.empty(&shape.sizes, shape.dtype)? };
        launch_roll(call, target, source, moves)?;
        source = target;
    }
    Ok(())
}

/// `tril` and `triu`, whose kernels have the same scalars.
pub fn triangle(call: &Call<'_>, input: Tensor<'_>, diagonal: i64) -> Outcome {
    if input.ndim() < 2 {
        // The meta function refuses the call.
        call.meta()?;
    }
    let out = call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?;
    call.launch(&[out], &[input], &triangle_kernel::Scalars { diagonal: diagonal.into() }.list())
}

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

/// The most sizes and strides that the descriptors of one launch may hold, with a margin.
const WORDS_PER_LAUNCH: usize = 60_000;

/// The shape of the result if the tensors have one dtype and sizes that differ only in dimension `dim`. The meta function
/// handles all other calls.
fn usual_shape(tensors: &[Tensor<'_>], dim: i64) -> Option<Shape> {
    let first = *tensors.first()?;
    let dim = wrap_dim(dim, first.ndim()).ok().filter(|&dim| dim < first.ndim())?;
    let fits = |tensor: &Tensor<'_>| {
        let (own, sizes) = (tensor.sizes(), first.sizes());
        let are_same = own.len() == sizes.len() && (0..own.len()).all(|other| other == dim || own[other] == sizes[other]);
        // PyTorch skips 1-D empty tensors whatever the sizes of the others.
        are_same && tensor.dtype() == first.dtype() && own != [0]
    };
    if !tensors.iter().all(fits) {
        return None;
    }
    let mut sizes = Dims::from(first.sizes());
    sizes[dim] = tensors.iter().map(|tensor| tensor.sizes()[dim]).sum();
    // The memory format that all tensors suggest; contiguous if they differ.
    let format = first.suggested_format();
    let is_common = format == Format::Contiguous || tensors.iter().all(|tensor| tensor.suggested_format() == format);
    Some(Shape::new(&sizes, first.dtype(), if is_common { format } else { Format::Contiguous }))
}

/// Launches over as many tensors at a time as one launch can take.
fn launch_cat(call: &Call<'_>, out: Tensor<'_>, inputs: &[Tensor<'_>], dim: usize) -> Outcome {
    let scalars = cat_kernel::Scalars { dim: Scalar::Long(dim as i64) }.list();
    let per_launch = WORDS_PER_LAUNCH / (2 * out.ndim().max(1));
    if inputs.len() <= per_launch && !inputs.is_empty() {
        return call.launch(&[out], inputs, &scalars);
    }
    let mut begin = 0;
    for part in inputs.chunks(per_launch) {
        let length = part.iter().map(|tensor| tensor.sizes()[dim]).sum();
        call.launch(&[out.section(dim, begin, length)], part, &scalars)?;
        begin += length;
    }
    Ok(())
}

pub fn cat(call: &Call<'_>, tensors: &[Tensor<'_>], dim: i64) -> Outcome {
    let given = call.given(0);
    check_same_device_in(given.into_iter().chain(tensors.iter().copied()), "argument tensors", "cat")?;
    let shape = if given.is_none() { usual_shape(tensors, dim) } else { None };
    let shape = shape.map_or_else(|| call.shape(), Ok)?;
    let out = call.output(0, &shape, Strides::Any)?;
    if tensors.iter().all(|tensor| tensor.numel() != 0) {
        return launch_cat(call, out, tensors, wrap_dim(dim, out.ndim())?);
    }
    let filled: Vec<_> = tensors.iter().copied().filter(|tensor| tensor.numel() != 0).collect();
    if filled.is_empty() { Ok(()) } else { launch_cat(call, out, &filled, wrap_dim(dim, out.ndim())?) }
}

/// Launches into an output of these sizes. Its memory format is that which tensor `like` suggests, as from PyTorch's CPU
/// kernels; the meta functions would make it contiguous.
fn launch_padding(call: &Call<'_>, sizes: &[i64], like: Tensor<'_>, source: Tensor<'_>, padding: &[i64]) -> Outcome {
    let out = match like.suggested_format() {
        Format::Contiguous => call.contiguous(0, sizes, like.dtype(), Strides::Any)?,
        format => call.output(0, &Shape::new(sizes, like.dtype(), format), Strides::Given)?,
    };
    let before = call.arena().keep_all(padding.len() / 2, |pair| Scalar::Long(padding[2 * pair]));
    call.launch(&[out], &[source], before)
}

/// Padding operators. `reflection_pad2d`, which has no meta function, uses that of replication; the others' limit the padding to
/// the elements that can be reflected themselves.
pub fn pad<const LIMITED: bool>(call: &Call<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    let shape = call.shape()?;
    ensure!(!LIMITED || padding.iter().enumerate().all(|(side, &size)| size < input.size_from_end(side / 2)));
    launch_padding(call, &shape.sizes, input, input, padding)
}

fn check_padding(padding: &[i64], dims: usize) -> Outcome {
    ensure!(padding.len() == 2 * dims, "padding size is expected to be {}, but got: {}", 2 * dims, padding.len());
    Ok(())
}

/// Gradients with their own meta function.
pub fn pad_backward_of_meta(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    launch_padding(call, &call.shape()?.sizes, input, grad, padding)
}

/// `reflection_pad1d_backward`, whose meta function does not check that the padding has two numbers.
pub fn reflect_lines_backward(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    check_padding(padding, 1)?;
    pad_backward_of_meta(call, grad, input, padding)
}

/// Gradients without a meta function: the output's gradient must have the sizes of the padded input.
pub fn pad_backward<const DIMS: usize>(call: &Call<'_>, grad: Tensor<'_>, input: Tensor<'_>, padding: &[i64]) -> Outcome {
    check_padding(padding, DIMS)?;
    ensure!(
        [DIMS + 1, DIMS + 2].contains(&input.ndim()),
        "Expected {}D or {}D (batch mode) tensor for input, but got: {:?}",
        DIMS + 1,
        DIMS + 2,
        input.sizes()
    );
    let mut padded = input.sizes().to_vec();
    for (size, sides) in padded.iter_mut().rev().zip(padding.chunks_exact(2)) {
        *size += sides[0] + sides[1];
    }
    ensure!(grad.sizes() == padded, "grad_output unexpected. Expected: {padded:?}, Got: {:?}", grad.sizes());
    launch_padding(call, input.sizes(), input, grad, padding)
}
