//! Elementwise operators given as a function of values: [`Map`], run over a launch by [`run`].

use std::marker::PhantomData;

use super::blocks::{BlockFunction, Blocks};
use super::index_space::{MAX_OPERANDS, Space};
use super::staging::{Patches, check_dtypes};
use super::words::is_paired;
use super::{Buffer, cast, grain, parallel};
use crate::simd::leaf;
use crate::simd::nontemporal::Stores;
use crate::tensor::{DType, Element, Error, Flags, Launch, Number, View};
use crate::tuning::caches::{BLOCK, ELEMENTWISE_BLOCK};

/// An operator of `N` inputs of type `T`, with its parameters.
pub trait Map<T: Number, const N: usize>: Copy + Send + Sync {
    /// The type of the result: `T`, or `Bool` for a predicate.
    type Output: Number;
    /// True if Python numbers that meet 16 bit floats keep their precision instead of being rounded to the dtype first. PyTorch's
    /// CPU keeps it for products and quotients, and rounds for everything else.
    const PRECISE_NUMBERS: bool = false;

    /// Computes one element; mark it `#[inline(always)]`.
    fn apply(self, inputs: [T; N]) -> Self::Output;
}

/// Runs `op` over the launch's operands [out, inputs...]. Inputs are cast to `E`, and results of type `O` are cast to the output's
/// dtype. The launch's cost decides the number of threads.
///
/// Only the loop itself is compiled for each operator and type; everything around it is shared.
#[inline]
pub fn run<E, O, Op, const N: usize>(launch: &Launch<'_>, op: Op) -> Result<(), Error>
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    const { assert!(N < MAX_OPERANDS) };
    if Op::PRECISE_NUMBERS && has_wider_number::<E>(launch) {
        let types = Types { input: E::Acc::DTYPE, output: O::Acc::DTYPE, inputs: N };
        return drive(launch, types, &|output, inputs, count, stores| {
            apply::<E::Acc, O::Acc, Op, N>(op, output, inputs, count, stores);
        });
    }
    let types = Types { input: E::DTYPE, output: O::DTYPE, inputs: N };
    if const { E::IS_CONVERTED_IN_RUNS } {
        let of_values = Types { input: E::Acc::DTYPE, output: O::Acc::DTYPE, inputs: N };
        drive_in_runs(launch, [types, of_values], &|output, inputs, count, stores| {
            apply::<E::Acc, O::Acc, Op, N>(op, output, inputs, count, stores);
        })
    } else {
        drive(launch, types, &|output, inputs, count, stores| apply::<E, O, Op, N>(op, output, inputs, count, stores))
    }
}

/// [`run`] for an operator that computes in `T`.
#[inline]
pub fn run_in<E, T, Op, const N: usize>(launch: &Launch<'_>, op: Op) -> Result<(), Error>
where
    E: Element,
    T: Number + From<E::Acc> + Into<E::Acc>,
    Op: Map<T, N, Output = T>,
{
    run::<E, E, _, N>(launch, Approximately { op, computes: PhantomData::<T> })
}

/// An operator that computes in `T`.
#[derive(Clone, Copy)]
struct Approximately<Op, T> {
    op: Op,
    computes: PhantomData<T>,
}

impl<A, T, Op, const N: usize> Map<A, N> for Approximately<Op, T>
where
    A: Number,
    T: Number + From<A> + Into<A>,
    Op: Map<T, N, Output = T>,
{
    type Output = A;
    const PRECISE_NUMBERS: bool = Op::PRECISE_NUMBERS;

    #[inline(always)]
    fn apply(self, inputs: [A; N]) -> A {
        let mut values = [T::ZERO; N];
        for (value, input) in values.iter_mut().zip(inputs) {
            *value = input.into();
        }
        self.op.apply(values).into()
    }
}

/// [`run`] for an operator whose second input may be one value for all elements: a Python number or a tensor of no dimension. The
/// loop then takes it as a parameter instead of an operand.
#[inline]
pub fn run_with_number<E, O, Op>(launch: &Launch<'_>, op: Op) -> Result<(), Error>
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, 2, Output = O::Acc>,
{
    const TENSORS: usize = 2;
    if launch.num_operands() != TENSORS + 1 || !is_number(&launch.view(TENSORS), E::DTYPE) {
        return run::<E, O, Op, 2>(launch, op);
    }
    let operand = launch.view(TENSORS);
    let number = if Op::PRECISE_NUMBERS { cast::read::<E::Acc>(&operand)? } else { cast::read::<E>(&operand)?.load() };
    run::<E, O, _, 1>(&launch.leading(TENSORS), WithNumber { op, number })
}

/// True if an operand is one value for all elements, of which there is at least one. A single element also counts if its dtype
/// differs from `dtype`, which might not hold the value.
fn is_number(view: &View<'_>, dtype: DType) -> bool {
    let is_one = || view.is_constant() || view.numel() == 1 && view.dtype() != dtype;
    view.numel() != 0 && (view.flags().has(Flags::IMMEDIATE) || view.flags() == Flags::default() && is_one())
}

/// An operator of two inputs whose second input is a constant number.
#[derive(Clone, Copy)]
struct WithNumber<Op, T> {
    op: Op,
    number: T,
}

impl<T: Number, Op: Map<T, 2>> Map<T, 1> for WithNumber<Op, T> {
    type Output = Op::Output;

    #[inline(always)]
    fn apply(self, [input]: [T; 1]) -> Op::Output {
        self.op.apply([input, self.number])
    }
}

/// True if the launch has Python numbers, and `E` is computed in a type of higher precision.
#[inline]
pub(super) fn has_wider_number<E: Element>(launch: &Launch<'_>) -> bool {
    E::DTYPE != E::Acc::DTYPE && (1..launch.num_operands()).any(|index| launch.view(index).flags().has(Flags::IMMEDIATE))
}

/// The addresses of the first of contiguous elements of each input.
pub(super) type Inputs = [*const u8; MAX_OPERANDS];

/// An operator's loop over contiguous elements: output, inputs, number of elements, kind of stores. The output may be one of the
/// inputs.
pub(super) type Loop<'a> = &'a (dyn Fn(*mut u8, &Inputs, usize, Stores) + Sync);

/// The dtypes of the operands of a [`Loop`].
#[derive(Clone, Copy)]
pub(super) struct Types {
    pub input: DType,
    pub output: DType,
    pub inputs: usize,
}

#[inline]
fn apply<E, O, Op, const N: usize>(op: Op, output: *mut u8, inputs: &Inputs, count: usize, stores: Stores)
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    let mut typed = [std::ptr::null::<E>(); N];
    for (typed, input) in typed.iter_mut().zip(inputs) {
        *typed = input.cast();
    }
    let blocks = Blocks { inputs: typed, output: output.cast(), count, stores };
    apply_blocks::<E, O, Op, N>(blocks, op);
}

leaf! {
    fn apply_blocks<E: Element, O: Element, Op: Map<E::Acc, N, Output = O::Acc>; N: usize>(blocks: Blocks<E, O, N>, op: Op) {
        // SAFETY: `straight` and `Patches::patch` provide operands of at least `count` elements; an output does not overlap
        // the inputs, or is one of them. `straight` requests non-temporal stores only for an aligned output.
        unsafe { blocks.run::<_, { ELEMENTWISE_BLOCK / 2 }>(Loaded(op)) };
    }
}

/// An operator on elements as they are stored.
#[derive(Clone, Copy)]
struct Loaded<Op>(Op);

impl<E, O, Op, const N: usize> BlockFunction<E, O, N> for Loaded<Op>
where
    E: Element,
    O: Element,
    Op: Map<E::Acc, N, Output = O::Acc>,
{
    const PAIRED: bool = is_paired::<E>() && is_paired::<O>();

    #[inline(always)]
    fn apply(self, inputs: [E; N]) -> O {
        O::store(self.0.apply(inputs.map(E::load)))
    }
}

/// [`drive`] for elements that convert faster in runs than inside the loop: blocks are converted in buffers, and `body` is a loop
/// over values.
pub(super) fn drive_in_runs(launch: &Launch<'_>, [elements, values]: [Types; 2], body: Loop<'_>) -> Result<(), Error> {
    drive(launch, elements, &|output, inputs, count, _| {
        let mut blocks = [const { Buffer::new() }; MAX_OPERANDS];
        for begin in (0..count).step_by(BLOCK) {
            let count = BLOCK.min(count - begin);
            let mut widened = [std::ptr::null(); MAX_OPERANDS];
            for (index, widened) in widened.iter_mut().enumerate().take(elements.inputs) {
                let (from, to) = (inputs[index].wrapping_add(begin * elements.input.size()), blocks[index + 1].data());
                // SAFETY: `drive` provides inputs of at least `count` elements, and a buffer holds a block of any dtype.
                let cast = unsafe { cast::cast(from, elements.input, to, values.input, count) };
                debug_assert!(cast.is_ok(), "floating point numbers are cast to each other");
                *widened = to.cast_const();
            }
            let to = output.wrapping_add(begin * elements.output.size());
            if elements.output == values.output {
                body(to, &widened, count, Stores::Cached);
                continue;
            }
            let results = blocks[0].data();
            body(results, &widened, count, Stores::Cached);
            // SAFETY: as above; the output has as many elements, and the inputs of this block have been read.
            let cast = unsafe { cast::cast(results, values.output, to, elements.output, count) };
            debug_assert!(cast.is_ok(), "floating point numbers are cast to each other");
        }
    })
}

pub(super) fn drive(launch: &Launch<'_>, types: Types, body: Loop<'_>) -> Result<(), Error> {
    if launch.num_operands() != types.inputs + 1 {
        return Err(Error::new(format!("{} operands where {} are needed", launch.num_operands(), types.inputs + 1)));
    }
    let output = launch.view(0);
    if output.numel() == 0 {
        return Ok(());
    }
    let mut inputs = [std::ptr::null(); MAX_OPERANDS];
    if find_straight(launch, types, &output, &mut inputs) {
        straight(launch, types, &inputs, body);
        return Ok(());
    }
    check_dtypes(launch)?;
    let mut dtypes = [types.input; MAX_OPERANDS];
    dtypes[0] = types.output;
    let space = Space::of(launch);
    space.for_each_piece(launch.cost(), &|begin, end| {
        let mut patches = Patches::new(launch, &space, &dtypes, [1, types.inputs + 1], true);
        space.walk(begin, end, &mut |patch| {
            patches.patch(patch, &mut |[output, inputs @ ..], count| {
                let mut data = [std::ptr::null(); MAX_OPERANDS];
                for (data, input) in data.iter_mut().zip(inputs) {
                    *data = input.cast_const();
                }
                body(*output, &data, count, Stores::Cached);
            });
        });
    });
    Ok(())
}

/// True if all operands are dense and of the loop's types, and no input partially overlaps the output. Fills `inputs`.
#[inline]
fn find_straight(launch: &Launch<'_>, types: Types, output: &View<'_>, inputs: &mut Inputs) -> bool {
    let fits = |view: &View<'_>, dtype: DType| view.dtype() == dtype && view.is_dense_1d();
    if !fits(output, types.output) {
        return false;
    }
    let (count, size) = (output.size(0), types.input.size());
    let begin = output.data() as usize;
    let end = begin + count * types.output.size();
    for (index, input) in inputs.iter_mut().enumerate().take(types.inputs) {
        let view = launch.view(index + 1);
        let first = view.data() as usize;
        let apart = first + count * size <= begin || end <= first;
        if !fits(&view, types.input) || !(apart || first == begin && size == types.output.size()) {
            return false;
        }
        *input = view.data().cast_const();
    }
    true
}

/// Runs the loop where all operands are dense and of the loop's types.
#[inline]
fn straight(launch: &Launch<'_>, types: Types, inputs: &Inputs, body: Loop<'_>) {
    let output = launch.view(0);
    let grain = grain(launch.cost());
    if output.size(0) <= grain {
        return body(output.data(), inputs, output.size(0), Stores::Cached);
    }
    let is_in_place = inputs[..types.inputs].contains(&output.data().cast_const());
    let stores = if is_in_place { Stores::Cached } else { Stores::of(output.data(), output.size(0) * types.output.size()) };
    parallel(output.size(0), grain, launch.cost(), &|begin, end| {
        let mut inputs = [std::ptr::null(); MAX_OPERANDS];
        for (index, input) in inputs.iter_mut().enumerate().take(types.inputs) {
            *input = launch.view(index + 1).data().wrapping_add(begin * types.input.size()).cast_const();
        }
        body(output.data().wrapping_add(begin * types.output.size()), &inputs, end - begin, stores);
    });
}
