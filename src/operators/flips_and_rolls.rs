//! `flip` and `roll`.

use smallvec::SmallVec;

use super::call::{Arguments, Call, Outcome, Refusal, Shape, Strides, Value, ensure, wrap_dim};
use super::names;
use super::tensors::{Format, Tensor};
use crate::kernels::movement::cat_flip_roll::flip as flip_kernel;
use crate::tensor::launch::Scalar;

/// `c10::MemoryFormat::Preserve`.
const PRESERVE: i64 = 1;

/// A set of dimensions as a bit mask.
fn set_of(dims: &[i64], ndim: usize) -> Result<i64, Refusal> {
    ensure!(ndim <= 64, "only tensors with up to 64 dims are supported");
    let mut set = 0;
    for &dim in dims {
        let dim = wrap_dim(dim, ndim)?;
        ensure!(set >> dim & 1 == 0, "dim {dim} appears multiple times in the list of dims");
        set |= 1 << dim;
    }
    Ok(set)
}

/// `flip`. The result keeps the input's strides if those are dense.
pub fn flip(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, dims] = arguments.all()?;
    let input = input.tensor()?;
    let flipped = set_of(dims.integers()?, input.ndim())?;
    let out = if input.is_dense(Format::Contiguous) {
        call.contiguous(0, input.sizes(), input.dtype(), Strides::Any)?
    } else {
        let shape = Shape { sizes: input.sizes().into(), strides: input.like_strides(), dtype: input.dtype() };
        call.output(0, &shape, Strides::Any)?
    };
    if out.numel() == 0 {
        return Ok(());
    }
    call.launch(&[out], &[input], &flip_kernel::Scalars { dims: flipped.into() }.list())
}

/// The most dimensions of one launch: each one doubles the number of copies.
const ROLLS_PER_LAUNCH: usize = 4;

/// A dimension, and the shift along it, less than its size.
type Move = (usize, i64);

/// The moves of each launch, for a tensor that is not empty.
fn moves_of(sizes: &[i64], shifts: &[i64], dims: &[i64]) -> Result<Vec<Vec<Move>>, Refusal> {
    let mut moves: Vec<Move> = Vec::new();
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let dim = wrap_dim(dim, sizes.len())?;
        let text = "Dimension specified as 0 but tensor has no dimensions";
        let &size = sizes.get(dim).ok_or_else(|| Refusal::Index(text.into()))?;
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
pub fn roll(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let [input, shifts, dims] = arguments.all()?;
    let (input, shifts, dims) = (input.tensor()?, shifts.integers()?, dims.integers()?);
    ensure!(!shifts.is_empty(), "`shifts` required");
    if let ([shift], []) = (shifts, dims) {
        return roll_elements(call, input, *shift);
    }
    let lens = (shifts.len(), dims.len());
    ensure!(lens.0 == lens.1, "shifts and dimensions must align. shifts: {}, dims:{}", lens.0, lens.1);
    if input.numel() == 0 {
        let clone = call.operator(&names::CLONE, &[Value::Tensor(input), Value::Number(Scalar::Long(PRESERVE))])?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_a_set() {
        assert_eq!((set_of(&[0, -1], 3), set_of(&[], 3), set_of(&[0], 0)), (Ok(0b101), Ok(0), Ok(1)));
        assert_eq!(set_of(&[63], 64), Ok(i64::MIN));
        let text = "dim 1 appears multiple times in the list of dims";
        assert_eq!(set_of(&[1, -2], 3), Err(Refusal::Invalid(text.into())));
    }

    #[test]
    fn moves_of_one_dimension_are_one() {
        assert_eq!(moves_of(&[3, 20], &[-1, 13, 8], &[0, 1, -1]), Ok(vec![vec![(0, 2), (1, 1)]]));
        let text = "Dimension specified as 0 but tensor has no dimensions";
        assert_eq!(moves_of(&[], &[1], &[0]), Err(Refusal::Index(text.into())));
        assert!(matches!(moves_of(&[3], &[1], &[1]), Err(Refusal::Index(_))));
    }

    #[test]
    fn a_launch_moves_a_few_dimensions() {
        let lens = |count: i64| {
            let (sizes, dims) = (vec![2; count as usize], (0..count).collect::<Vec<_>>());
            moves_of(&sizes, &sizes, &dims).unwrap().iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!((lens(4), lens(6)), (vec![4], vec![4, 2]));
    }
}
