//! `cat`, `flip` and `roll`: copies between parts of the operands, in one task.

use super::{check, copy, count};
use crate::kernels::failure::Failure;
use crate::tensor::launch::Launch;
use crate::tensor::loops::parallel;
use crate::tensor::loops::rows::Row;
use crate::tensor::view::{MAX_DIMS, View};

/// Inputs of fewer bytes are copied in parallel, each by one thread; larger ones one after the other, by all threads.
const LARGE: usize = 512 * 1024;

/// The sizes of a part of a view, where `View` itself only borrows them.
struct Sizes([i64; MAX_DIMS]);

impl Sizes {
    fn of(view: &View<'_>) -> Self {
        let mut sizes = [0; MAX_DIMS];
        sizes[..view.ndim()].copy_from_slice(view.sizes());
        Self(sizes)
    }

    /// The part of `view` with these sizes from the element at `offset` bytes on.
    fn part<'a>(&'a self, view: &View<'a>, offset: isize) -> Result<View<'a>, String> {
        let data = view.data().wrapping_offset(offset);
        View::new(data, view.dtype(), view.flags(), &self.0[..view.ndim()], view.strides())
    }
}

/// `aten::cat`: the inputs one after the other along a dimension, cast to the output's dtype. Operands [out, inputs...], of the same sizes
/// but along the dimension; scalars [dim].
///
/// # Errors
/// Sizes that do not add up, or dtypes without conversions.
pub fn cat(launch: &Launch<'_>) -> Result<(), String> {
    let (output, dim) = (launch.view(0), count(launch, 0)?);
    let mut begins = Vec::with_capacity(launch.num_operands());
    let mut end = 0;
    for input in 1..launch.num_operands() {
        begins.push(end);
        end += launch.view(input).sizes().get(dim).copied().unwrap_or(0);
    }
    if output.sizes().get(dim) != Some(&end) {
        return Err(format!("sizes that add up to {end} beside {:?} in dimension {dim}", output.sizes()));
    }
    let copy_input = |number: usize| -> Result<(), String> {
        let input = launch.view(1 + number);
        if let Some((to, from)) = runs(&output, &input, dim, begins[number]) {
            to.copy(0, &from, 0, 1, input.numel());
            return Ok(());
        }
        let mut sizes = Sizes::of(&output);
        sizes.0[dim] = input.sizes()[dim];
        copy(sizes.part(&output, begins[number] as isize * output.stride(dim))?, input)
    };
    let bytes = output.numel() * output.dtype().size() / begins.len().max(1);
    if bytes >= LARGE {
        return (0..begins.len()).try_for_each(copy_input);
    }
    let failure = Failure::default();
    let cost = 100.0 + bytes as f64 * 0.02;
    parallel(begins.len(), (10_000.0 / cost) as usize, cost, &|begin, end| {
        failure.note((begin..end).try_for_each(copy_input));
    });
    failure.result()
}

/// A small input and its part of the output as rows, where both are one run of elements of one dtype.
fn runs(output: &View<'_>, input: &View<'_>, dim: usize, begin: i64) -> Option<(Row, Row)> {
    let size = input.dtype().size() as i64;
    let mut step = size;
    let is_dense = input.dtype() == output.dtype()
        && input.flags() == output.flags()
        && input.ndim() == output.ndim()
        && (0..input.ndim()).rev().all(|at| {
            let dense = |view: &View<'_>| view.sizes()[at] == 1 || view.strides()[at] == step;
            let fits = dense(input) && (dense(output) || at < dim) && (at >= dim || input.sizes()[at] == 1);
            step *= input.sizes()[at];
            fits
        });
    let bytes = input.numel() * size as usize;
    if !is_dense || bytes >= LARGE {
        return None;
    }
    let (sizes, strides) = ([input.numel() as i64], [size]);
    let data = output.data().wrapping_offset(begin as isize * output.stride(dim));
    let run =
        |data, view: &View<'_>| View::new(data, view.dtype(), view.flags(), &sizes, &strides).ok().map(|view| Row::of(&view, &[]));
    run(data, output).zip(run(input.data(), input))
}

/// `aten::flip`: the order flipped round in some dimensions. Operands [out, input] of one dtype and the same sizes; scalars [dimensions, bit
/// by bit].
///
/// # Errors
/// Different sizes.
pub fn flip(launch: &Launch<'_>) -> Result<(), String> {
    check(launch, 2)?;
    let (output, input) = (launch.view(0), launch.view(1));
    let flipped: i64 = launch.scalar(0)?.to();
    let mut strides = [0; MAX_DIMS];
    strides[..input.ndim()].copy_from_slice(input.strides());
    let mut offset = 0;
    for (dim, stride) in strides[..input.ndim()].iter_mut().enumerate().filter(|(dim, _)| flipped >> dim & 1 != 0) {
        offset += (input.size(dim) as isize - 1) * input.stride(dim);
        *stride = -*stride;
    }
    if input.numel() == 0 {
        return Ok(());
    }
    let data = input.data().wrapping_offset(offset);
    copy(output, View::new(data, input.dtype(), input.flags(), input.sizes(), &strides[..input.ndim()])?)
}

/// `aten::roll`: every element moved on along some dimensions, those that leave at the end come in at the beginning. Operands [out, input] of
/// one dtype and the same sizes; scalars [dim, shift (below the size), dim, shift, ...].
///
/// # Errors
/// Different sizes, or a dimension that does not exist.
pub fn roll(launch: &Launch<'_>) -> Result<(), String> {
    check(launch, 2)?;
    let (output, input) = (launch.view(0), launch.view(1));
    let mut moves = Vec::new();
    while launch.scalar(2 * moves.len()).is_ok() {
        let (dim, shift) = (count(launch, 2 * moves.len())?, count(launch, 2 * moves.len() + 1)?);
        if dim >= input.ndim() || shift > input.size(dim) || output.sizes() != input.sizes() {
            return Err(format!("a shift of {shift} in dimension {dim} of {:?}", input.sizes()));
        }
        moves.push((dim, shift));
    }
    // Each dimension falls into what stays inside and what goes round.
    for part in 0..1usize << moves.len() {
        let mut sizes = Sizes::of(&input);
        let (mut to, mut from) = (0, 0);
        for (number, &(dim, shift)) in moves.iter().enumerate() {
            let inside = input.size(dim) - shift;
            if part >> number & 1 == 0 {
                sizes.0[dim] = inside as i64;
                to += shift as isize * output.stride(dim);
            } else {
                sizes.0[dim] = shift as i64;
                from += inside as isize * input.stride(dim);
            }
        }
        copy(sizes.part(&output, to)?, sizes.part(&input, from)?)?;
    }
    Ok(())
}
