//! Movement of elements without arithmetic: `flip`, `roll`, triangles of matrices, `channel_shuffle`.

use smallvec::SmallVec;

use super::call::{Call, CallError, Outcome, Shape, Strides, Value, ensure, wrap_dim};
use super::callees;
use super::tensors::{Dims, Format, Tensor};
use crate::kernels::movement::cat_flip_roll::flip as flip_kernel;
use crate::kernels::movement::triangle::tril as triangle_kernel;
use crate::tensor::launch::Scalar;

/// `c10::MemoryFormat::Preserve`.
const PRESERVE: i64 = 1;

/// A set of dimensions as a bit mask.
fn set_of(dims: &[i64], ndim: usize) -> Result<i64, CallError> {
    ensure!(ndim <= 64);
    let mut set = 0;
    for &dim in dims {
        let dim = wrap_dim(dim, ndim)?;
        ensure!(set >> dim & 1 == 0);
        set |= 1 << dim;
    }
    Ok(set)
}

/// `flip`. The result keeps the input's strides if those are dense.
pub fn flip(call: &Call<'_>, input: Tensor<'_>, dims: &[i64]) -> Outcome {
    let flipped = set_of(dims, input.ndim())?;
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
