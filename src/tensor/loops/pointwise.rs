//! Elementwise operators given as a function of values: [`Map`], run over a launch by [`run`].

use super::space::{MAX_OPERANDS, Patch, Space, Steps};
use super::strided::{self, Place};
use super::{BLOCK, Buffer, GRAIN, cast, parallel};
use crate::simd::{Leaf, vectorize};
use crate::tensor::dtype::{DType, Element};
use crate::tensor::launch::Launch;
use crate::tensor::number::Number;
use crate::tensor::view::{Flags, View};

/// An operator of `N` inputs of type `T`, with its parameters.
pub trait Map<T: Number, const N: usize>: Copy + Send + Sync {
    /// The type of the result: `T`, or `Bool` for a predicate.
    type Output: Number;

    /// One element; mark it `#[inline(always)]`.
    fn apply(self, inputs: [T; N]) -> Self::Output;
}

/// Runs `op` over the launch's operands [out, inputs...]. Inputs are cast to `E`, results come as `O` and are cast to the output's dtype.
/// The
/// launch's cost decides how parallel.
///
/// # Errors
/// The wrong number of operands, or a dtype without conversions.
#[inline]
pub fn run<E, O, Op, const N: usize>(launch: &Launch<'_>, op: Op) -> Result<(), String>
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    if launch.num_operands() != N + 1 {
        return Err(format!("{} operands where {} are needed", launch.num_operands(), N + 1));
    }
    let output = launch.view(0);
    if output.numel() == 0 {
        return Ok(());
    }
    let inputs: [View<'_>; N] = std::array::from_fn(|index| launch.view(index + 1));
    let straight = output.dtype() == O::DTYPE
        && output.is_dense_1d()
        && inputs.iter().all(|view| view.dtype() == E::DTYPE && view.is_dense_1d() && !view.overlaps(&output));
    if straight {
        run_straight::<E, O, Op, N>(&output, &inputs, launch.cost(), op);
        return Ok(());
    }
    // Python numbers beside 16 bit floats are not rounded to them first, except to be compared with them.
    let precise = E::DTYPE == O::DTYPE && inputs.iter().any(|view| view.flags().has(Flags::IMMEDIATE));
    if precise { run_patches::<E::Acc, O::Acc, Op, N>(launch, op) } else { run_patches::<E, O, Op, N>(launch, op) }
}

fn run_straight<E, O, Op, const N: usize>(output: &View<'_>, inputs: &[View<'_>; N], cost: f64, op: Op)
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    parallel(output.size(0), GRAIN, cost, &|begin, end| {
        let leaf = Apply::<E, O, Op, N> {
            output: output.data().cast::<O>().wrapping_add(begin),
            inputs: std::array::from_fn(|index| inputs[index].data().cast::<E>().wrapping_add(begin).cast_const()),
            count: end - begin,
            op,
        };
        vectorize(leaf);
    });
}

/// The loop itself.
struct Apply<E, O, Op, const N: usize> {
    output: *mut O,
    inputs: [*const E; N],
    count: usize,
    op: Op,
}

impl<E, O, Op, const N: usize> Leaf for Apply<E, O, Op, N>
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for index in 0..self.count {
            let mut values = [E::Acc::ZERO; N];
            for (value, input) in values.iter_mut().zip(self.inputs) {
                // SAFETY: `run_straight` and `Worker::patch` give inputs of at least `count` elements.
                *value = unsafe { input.wrapping_add(index).read_unaligned() }.load();
            }
            // SAFETY: as above, for the output.
            unsafe { self.output.wrapping_add(index).write_unaligned(O::store(self.op.apply(values))) };
        }
    }
}

fn run_patches<E, O, Op, const N: usize>(launch: &Launch<'_>, op: Op) -> Result<(), String>
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    check_dtypes(launch)?;
    let space = Space::of(launch);
    space.for_each_piece(launch.cost(), &|begin, end| {
        let mut worker = Worker::<E, O, Op, N>::new(launch, &space, op);
        space.walk(begin, end, &mut |patch| worker.patch(patch));
    });
    Ok(())
}

/// Every operand that is cast has a dtype with conversions.
pub fn check_dtypes(launch: &Launch<'_>) -> Result<(), String> {
    match (0..launch.num_operands()).map(|index| launch.view(index).dtype()).find(|dtype| !dtype.is_convertible()) {
        Some(dtype) => Err(format!("{dtype:?} has no conversions")),
        None => Ok(()),
    }
}

/// How an input reaches the loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The same value everywhere: spread over its block buffer once.
    Constant,
    /// From where it is if the patch lies side by side, else gathered and cast into its block buffer.
    Gather,
}

/// One thread's block buffers.
struct Worker<E, O, Op, const N: usize> {
    dtypes: [DType; MAX_OPERANDS],
    steps: [Steps; MAX_OPERANDS],
    ways: [Way; N],
    in_place: bool,
    blocks: [Buffer; N],
    result: Buffer,
    raw: Buffer,
    op: Op,
    types: std::marker::PhantomData<(E, O)>,
}

impl<E, O, Op, const N: usize> Worker<E, O, Op, N>
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    #[inline]
    fn new(launch: &Launch<'_>, space: &Space<'_>, op: Op) -> Self {
        let mut worker = Self {
            dtypes: [DType::Byte; MAX_OPERANDS],
            steps: [Steps::default(); MAX_OPERANDS],
            ways: [Way::Gather; N],
            in_place: (1..=N).any(|index| launch.view(index).overlaps(&launch.view(0))),
            blocks: [const { Buffer::new() }; N],
            result: Buffer::new(),
            raw: Buffer::new(),
            op,
            types: std::marker::PhantomData,
        };
        for index in 0..=N {
            let view = launch.view(index);
            worker.dtypes[index] = view.dtype();
            worker.steps[index] = space.steps(index);
            if index > 0 && (view.is_constant() || view.flags().has(Flags::IMMEDIATE)) {
                worker.ways[index - 1] = Way::Constant;
                worker.spread(index, view.data(), space.patch_len());
            }
        }
        worker
    }

    /// Fills an input's block buffer with one value.
    fn spread(&mut self, operand: usize, value: *const u8, count: usize) {
        let mut one = E::default();
        let target = (&raw mut one).cast::<u8>();
        // SAFETY: the operand has at least one element of its dtype, and `one` is one element of E's.
        let cast = unsafe { cast::cast(value, self.dtypes[operand], target, E::DTYPE, 1) };
        debug_assert!(cast.is_ok(), "checked by check_dtypes");
        let block = self.blocks[operand - 1].data().cast::<E>();
        for index in 0..count.min(BLOCK) {
            // SAFETY: a block buffer holds BLOCK elements of any dtype.
            unsafe { block.wrapping_add(index).write(one) };
        }
    }

    fn patch(&mut self, patch: &Patch) {
        let inputs = std::array::from_fn(|index| self.input(index, patch));
        let output = Place { data: patch.data(0), steps: self.steps[0] };
        let direct = self.dtypes[0] == O::DTYPE && !self.in_place && output.is_dense(size_of::<O>(), patch.cols, patch.rows);
        let target = if direct { output.data } else { self.result.data() };
        vectorize(Apply::<E, O, Op, N> { output: target.cast(), inputs, count: patch.len(), op: self.op });
        if !direct {
            // SAFETY: the result buffer holds the patch's elements as O; the output's are the launch's to write.
            unsafe { scatter(self.result.data(), O::DTYPE, output, self.dtypes[0], &mut self.raw, patch) };
        }
    }

    #[inline(always)]
    fn input(&mut self, index: usize, patch: &Patch) -> *const E {
        let block = self.blocks[index].data();
        if self.ways[index] == Way::Constant {
            return block.cast();
        }
        let (dtype, place) = (self.dtypes[index + 1], Place { data: patch.data(index + 1), steps: self.steps[index + 1] });
        if dtype == E::DTYPE && place.is_dense(size_of::<E>(), patch.cols, patch.rows) {
            return place.data.cast();
        }
        // SAFETY: the launch's operand may be read; the block buffer holds a patch of any dtype.
        unsafe { gather(place, dtype, block, E::DTYPE, &mut self.raw, patch) };
        block.cast()
    }
}

/// Brings a patch's elements side by side into `to`, cast to `target`.
///
/// # Safety
/// The patch's elements at `from` are readable and of dtype `source`; `to` has room for them as `target`; both dtypes are convertible.
pub unsafe fn gather(from: Place, source: DType, to: *mut u8, target: DType, raw: &mut Buffer, patch: &Patch) {
    let dense = from.is_dense(source.size(), patch.cols, patch.rows);
    let side_by_side = match (source == target, dense) {
        (true, _) => to,
        (false, true) => from.data,
        (false, false) => raw.data(),
    };
    if source == target || !dense {
        let place = Place::dense(side_by_side, source.size(), patch.cols);
        // SAFETY: the caller promises the elements; the target is the caller's buffer or `raw`, which holds any patch.
        unsafe { strided::copy(from, place, source.size(), patch.cols, patch.rows) };
    }
    if source != target {
        // SAFETY: the elements lie side by side now; the caller promises room for them in `to`.
        let cast = unsafe { cast::cast(side_by_side, source, to, target, patch.len()) };
        debug_assert!(cast.is_ok(), "both dtypes are convertible");
    }
}

/// Spreads elements that lie side by side in `from` to the patch's places at `to`, cast to `target`.
///
/// # Safety
/// As [`gather`], with the roles exchanged.
pub unsafe fn scatter(from: *mut u8, source: DType, to: Place, target: DType, raw: &mut Buffer, patch: &Patch) {
    let dense = to.is_dense(target.size(), patch.cols, patch.rows);
    let side_by_side = match (source == target, dense) {
        (true, _) => from,
        (false, true) => to.data,
        (false, false) => raw.data(),
    };
    if source != target {
        // SAFETY: the caller promises the elements; the target is the caller's place or `raw`, which holds any patch.
        let cast = unsafe { cast::cast(from, source, side_by_side, target, patch.len()) };
        debug_assert!(cast.is_ok(), "both dtypes are convertible");
    }
    if source == target || !dense {
        let place = Place::dense(side_by_side, target.size(), patch.cols);
        // SAFETY: the elements lie side by side now; the caller promises their places in `to`.
        unsafe { strided::copy(place, to, target.size(), patch.cols, patch.rows) };
    }
}
