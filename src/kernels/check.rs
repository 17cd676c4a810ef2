//! Test runner of the kernels: runs rows of the operator table over dtypes, layouts, sizes and instruction sets and compares with
//! an oracle.
//!
//! Oracles take and return `ndarray`s of complex `f64` values, which hold every value of the tests exactly.

use ndarray::{ArrayD, Dimension, IxDyn};

use super::table::Op;
use crate::simd::{Isa, for_each_isa};
use crate::tensor::dtype::{Complex64, DType, Element, FLOATING, UNSIGNED, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{Piece, Record, Scalar};
use crate::tensor::loops::lists;
use crate::tensor::number::{Hub, Number};
use crate::tensor::view::{Flags, View};

/// The strides of a test tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strides {
    /// Last dimension contiguous.
    Contiguous,
    /// First dimension contiguous.
    Transposed,
    /// Every second element.
    Sliced,
    /// The first dimension has stride 0.
    Broadcast,
}

impl Strides {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Contiguous, Self::Transposed, Self::Sliced, Self::Broadcast];
}

/// A tensor that owns its memory.
#[derive(Clone)]
pub struct Tensor {
    memory: Vec<u128>,
    dtype: DType,
    flags: Flags,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

impl Tensor {
    /// Zeros.
    pub fn new(dtype: DType, sizes: &[usize], strides: Strides) -> Self {
        let mut step = dtype.size() as i64 * if strides == Strides::Sliced { 2 } else { 1 };
        let mut steps = vec![0; sizes.len()];
        let mut position = |dim: usize| {
            steps[dim] = step;
            step *= sizes[dim].max(1) as i64;
        };
        match strides {
            Strides::Transposed => (0..sizes.len()).for_each(&mut position),
            Strides::Broadcast => (1..sizes.len()).rev().for_each(&mut position),
            _ => (0..sizes.len()).rev().for_each(&mut position),
        }
        let memory = vec![0; (step as usize).div_ceil(16) + 1];
        Self { memory, dtype, flags: Flags::default(), sizes: sizes.iter().map(|&size| size as i64).collect(), strides: steps }
    }

    /// A tensor with these values, cast to the dtype.
    pub fn of(dtype: DType, values: &ArrayD<Complex64>, strides: Strides) -> Self {
        let mut tensor = Self::new(dtype, values.shape(), strides);
        tensor.fill(values);
        tensor
    }

    /// A contiguous tensor of elements with the given bits, in unsigned integers of the elements' size.
    pub fn of_bits<B: Copy>(dtype: DType, bits: &[B]) -> Self {
        assert_eq!(dtype.size(), size_of::<B>());
        let mut tensor = Self::new(dtype, &[bits.len()], Strides::Contiguous);
        let target = tensor.memory.as_mut_ptr().cast::<B>();
        // SAFETY: `new` has allocated enough memory, which does not overlap the slice.
        unsafe { target.copy_from_nonoverlapping(bits.as_ptr(), bits.len()) };
        tensor
    }

    /// The bits of a contiguous tensor, as unsigned integers of the elements' size.
    pub fn bits<B: Copy>(&self) -> Vec<B> {
        assert!(self.dtype.size() == size_of::<B>() && self.view().is_dense_1d());
        // SAFETY: `new` has allocated enough memory.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.view().numel()) }.to_vec()
    }

    /// A 0-dim host value.
    pub fn immediate(dtype: DType, value: Complex64) -> Self {
        let mut tensor = Self::of(dtype, &ArrayD::from_elem(IxDyn(&[]), value), Strides::Contiguous);
        tensor.flags = Flags::IMMEDIATE;
        tensor
    }

    /// Whether both hold the same bytes.
    pub fn has_equal_bytes(&self, other: &Self) -> bool {
        self.memory == other.memory
    }

    /// The same memory with flags.
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// The same memory as another dtype of the same size.
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        assert_eq!(dtype.size(), self.dtype.size());
        self.dtype = dtype;
        self
    }

    /// The same memory with other sizes and strides (bytes).
    pub fn restrided(mut self, sizes: &[i64], strides: &[i64]) -> Self {
        self.sizes = sizes.to_vec();
        self.strides = strides.to_vec();
        self
    }

    fn fill(&mut self, values: &ArrayD<Complex64>) {
        let dtype = self.dtype;
        let base = self.memory.as_mut_ptr().cast::<u8>();
        for (index, &value) in values.indexed_iter() {
            let offset: i64 = index.as_array_view().iter().zip(&self.strides).map(|(&at, &stride)| at as i64 * stride).sum();
            dispatch!(dtype in EVERY, T => {
                let target = base.wrapping_offset(offset as isize).cast::<T>();
                // SAFETY: `new` has allocated memory for every index.
                unsafe { target.write_unaligned(T::store(value.to())) };
                Ok::<_, Error>(())
            })
            .unwrap();
        }
    }

    /// The values; the conjugate and negative flags are ignored.
    pub fn values(&self) -> ArrayD<Complex64> {
        self.read().unwrap()
    }

    fn read(&self) -> Result<ArrayD<Complex64>, Error> {
        let (dtype, view) = (self.dtype, self.view());
        dispatch!(dtype in EVERY, T => {
            let array = view.array::<T>()?;
            Ok(ArrayD::from_shape_fn(array.raw_dim(), |index| array[&index].load().hub().to::<Complex64>()))
        })
    }

    /// The descriptor.
    pub fn view(&self) -> View<'_> {
        let data = self.memory.as_ptr().cast_mut().cast();
        // SAFETY: each index names an element of the memory, or an element that no test reads. Only a launch writes the memory, and
        // nothing reads it meanwhile: no test runs one tensor's launches on several threads. The memory is owned, though it is
        // borrowed as shared here.
        unsafe { View::new(data, self.dtype, self.flags, &self.sizes, &self.strides) }.unwrap()
    }
}

/// Runs a table row.
pub fn run(name: &str, outputs: &[&Tensor], inputs: &[&Tensor], scalars: &[Scalar], compute: DType) -> Result<(), Error> {
    let (op, record) = prepare(name, outputs, inputs, scalars, compute)?;
    // SAFETY: the tensors outlive the call, and only the call uses their views.
    let launch = unsafe { record.launch() };
    op.run(&launch)
}

/// Runs a table row over lists of tensors in pieces of `size` elements, the last piece first.
pub fn run_in_pieces(
    name: &str,
    outputs: &[&Tensor],
    inputs: &[&Tensor],
    scalars: &[Scalar],
    compute: DType,
    size: usize,
) -> Result<(), Error> {
    let (op, record) = prepare(name, outputs, inputs, scalars, compute)?;
    // SAFETY: as in `run`.
    let launch = unsafe { record.launch() };
    assert!(op.is_piecewise(), "{name}");
    let ends = lists::row(&launch).ok_or_else(|| Error::operands("the lists do not fit together"))?;
    let total = ends.last().copied().unwrap_or(0);
    (0..total).step_by(size).rev().try_for_each(|begin| {
        let end = total.min(begin + size);
        op.run(&launch.with_piece(Piece { ends: &ends, begin, end }))
    })
}

fn prepare(
    name: &str,
    outputs: &[&Tensor],
    inputs: &[&Tensor],
    scalars: &[Scalar],
    compute: DType,
) -> Result<(&'static Op, Record), Error> {
    let op = Op::find(name.as_bytes()).unwrap_or_else(|| panic!("no operator {name}"));
    let views: Vec<View<'_>> = outputs.iter().chain(inputs).map(|tensor| tensor.view()).collect();
    if !op.signature().takes(views.len(), scalars.len()) {
        let (takes, operands) = (op.signature().text(), views.len());
        return Err(Error::operands(format!("{name} takes {takes}, not {operands} operands and {} scalars", scalars.len())));
    }
    Ok((op, Record::new(op.layout(), &views, outputs.len(), scalars, Some(compute))?))
}

/// Values that depend on the seed alone: spread over -8..8 in steps of 1/8, cast to the dtype; not negative for unsigned types.
pub fn values(dtype: DType, sizes: &[usize], seed: usize) -> ArrayD<Complex64> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    ArrayD::from_shape_simple_fn(IxDyn(sizes), || {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) % 129) as f64 / 8.0 - 8.0
        };
        let value = Complex64::new(next(), next());
        let unsigned = dtype == DType::Byte || UNSIGNED.contains(dtype) || dtype == DType::Float8E8M0FnU;
        round_trip(dtype, if unsigned { Complex64::new(value.re.abs(), value.im) } else { value })
    })
}

/// The value after a cast to the dtype.
pub fn round_trip(dtype: DType, value: Complex64) -> Complex64 {
    dispatch!(dtype in EVERY, T => Ok::<_, Error>(T::store(value.to()).load().hub().to::<Complex64>())).unwrap()
}

/// Whether two values are equal within `tolerance`, relative to the expected magnitude or to 1 if that is greater. NaN equals NaN.
pub fn close(found: Complex64, expected: Complex64, tolerance: f64) -> bool {
    let part = |found: f64, expected: f64| {
        found == expected || found.is_nan() && expected.is_nan() || (found - expected).abs() <= tolerance * expected.abs().max(1.0)
    };
    part(found.re, expected.re) && part(found.im, expected.im)
}

/// Whether a result of the dtype is within its [`tolerance`], relative to the expected magnitude, or to the least normal number if
/// the expected one is subnormal. NaN equals NaN. The parts of a complex number are compared relative to its magnitude.
pub fn near(found: Complex64, expected: Complex64, dtype: DType) -> bool {
    let (least, greatest) = normal_range(dtype);
    let tolerance = tolerance(dtype);
    let magnitude = if dtype.is_complex() && expected.norm().is_finite() { expected.norm() } else { 0.0 };
    let part = |found: f64, expected: f64| {
        let error = (found - expected).abs();
        // Near the greatest number, one of the two may have been rounded to infinity.
        let is_at_end = found.abs().min(expected.abs()) >= greatest * (1.0 - tolerance) && found * expected > 0.0;
        let is_near = error <= tolerance * expected.abs().max(magnitude).max(least) && expected.is_finite();
        found == expected || found.is_nan() && expected.is_nan() || is_near || is_at_end
    };
    part(found.re, expected.re) && part(found.im, expected.im)
}

/// The least and the greatest normal number of a floating-point dtype; 1 and infinity of the others.
fn normal_range(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::Half | DType::ComplexHalf => (half::f16::MIN_POSITIVE.to_f64(), half::f16::MAX.to_f64()),
        DType::BFloat16 => (half::bf16::MIN_POSITIVE.to_f64(), half::bf16::MAX.to_f64()),
        DType::Float | DType::ComplexFloat => (f32::MIN_POSITIVE.into(), f32::MAX.into()),
        DType::Double | DType::ComplexDouble => (f64::MIN_POSITIVE, f64::MAX),
        _ => (1.0, f64::INFINITY),
    }
}

/// Numbers of random bits that depend on the seed alone: of all magnitudes; every eighth is a limit, infinity, zero or NaN.
fn any_bits(dtype: DType, sizes: &[usize], seed: usize) -> ArrayD<Complex64> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) + 7;
    let (least, greatest) = normal_range(dtype);
    ArrayD::from_shape_simple_fn(IxDyn(sizes), || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bits = state ^ state >> 31;
        let value = match dtype {
            DType::Half => half::f16::from_bits(bits as u16).to_f64(),
            DType::BFloat16 => half::bf16::from_bits(bits as u16).to_f64(),
            DType::Float => f32::from_bits(bits as u32).into(),
            _ => f64::from_bits(bits),
        };
        let limits = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, least, -greatest, greatest];
        real(if (bits >> 40).is_multiple_of(8) { limits[(bits >> 43 & 7) as usize] } else { value })
    })
}

/// Half an ulp of 1 in the dtype, a little more for functions.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::Half | DType::ComplexHalf => 1e-3,
        DType::BFloat16 => 8e-3,
        DType::Float | DType::ComplexFloat => 1e-6,
        DType::Double | DType::ComplexDouble => 2e-14,
        DType::Float8E5M2 | DType::Float8E5M2FnUz => 0.25,
        DType::Float8E4M3Fn | DType::Float8E4M3FnUz => 0.125,
        _ => 0.0,
    }
}

/// Sizes at the edges of cases: empty, vector lanes, blocks, parallel pieces.
pub const SIZES: [&[usize]; 9] = [&[0], &[1], &[15], &[33, 1], &[5, 7, 33], &[3, 1023], &[16383], &[32769], &[1025, 33]];

/// Checks a pointwise row with `N` inputs: every dtype of the row, all layouts and sizes, every instruction set, in place too.
/// `result`: the dtype of the output for a compute dtype; `oracle`: the value for the inputs' values.
pub fn pointwise<const N: usize>(
    name: &str,
    scalars: &[Scalar],
    result: impl Fn(DType) -> DType,
    oracle: impl Fn([Complex64; N]) -> Complex64,
) {
    pointwise_by_dtype(name, scalars, result, |_, inputs| oracle(inputs));
}

/// Checks a function of one real or complex number. The real function is NaN outside its domain.
pub fn function(name: &str, of_real: impl Fn(f64) -> f64, of_complex: impl Fn(Complex64) -> Complex64) {
    let oracle = |dtype: DType, [x]: [Complex64; 1]| if dtype.is_complex() { of_complex(x) } else { real(of_real(x.re)) };
    pointwise_by_dtype::<1>(name, &[], |dtype| dtype, oracle);
}

/// As [`pointwise`], with an oracle that takes the dtype.
pub fn pointwise_by_dtype<const N: usize>(
    name: &str,
    scalars: &[Scalar],
    result: impl Fn(DType) -> DType,
    oracle: impl Fn(DType, [Complex64; N]) -> Complex64,
) {
    compared::<N>(name, scalars, result, oracle, near);
}

/// As [`pointwise_by_dtype`], for sums whose terms may cancel: errors of results below 1 are relative to 1.
pub fn sums_by_dtype<const N: usize>(
    name: &str,
    scalars: &[Scalar],
    result: impl Fn(DType) -> DType,
    oracle: impl Fn(DType, [Complex64; N]) -> Complex64,
) {
    compared::<N>(name, scalars, result, oracle, |found, expected, dtype| close(found, expected, tolerance(dtype)));
}

/// Compares found with expected value of a dtype.
type Compare = fn(Complex64, Complex64, DType) -> bool;

fn compared<const N: usize>(
    name: &str,
    scalars: &[Scalar],
    result: impl Fn(DType) -> DType,
    oracle: impl Fn(DType, [Complex64; N]) -> Complex64,
    compare: Compare,
) {
    let op = Op::find(name.as_bytes()).unwrap_or_else(|| panic!("no operator {name}"));
    for dtype in op.dtypes().iter() {
        for (case, sizes) in SIZES.iter().enumerate() {
            // Parallel division does not depend on dtype or operator: `add` of floats runs the large sizes for all.
            let count = sizes.iter().product::<usize>();
            if count > 4096 && !(name == "add" && dtype == DType::Float) {
                continue;
            }
            for (turn, strides) in Strides::ALL.into_iter().enumerate().take(if count > 2048 { 1 } else { 4 }) {
                let inputs: [Tensor; N] = std::array::from_fn(|index| {
                    let strides = if index == 0 { strides } else { Strides::ALL[(turn + case) % 4] };
                    Tensor::of(dtype, &values(dtype, sizes, case + index), strides)
                });
                let output = Tensor::new(result(dtype), sizes, if case % 3 == 0 { Strides::Sliced } else { Strides::Contiguous });
                check_one(name, &output, &inputs, scalars, dtype, |inputs| oracle(dtype, inputs), compare);
            }
        }
    }
}

/// A function of a real number.
pub type Oracle = fn(f64) -> f64;

/// Checks a function of one real number in every floating-point dtype, over numbers of random bits: all magnitudes, and limits.
pub fn any_number(name: &str, scalars: &[Scalar], oracle: Oracle) {
    for dtype in FLOATING.iter() {
        let input = Tensor::of(dtype, &any_bits(dtype, &[3000], 1), Strides::Contiguous);
        let output = Tensor::new(dtype, &[3000], Strides::Contiguous);
        check_one(name, &output, &[input], scalars, dtype, |[x]| real(oracle(x.re)), near);
    }
}

fn check_one<const N: usize>(
    name: &str,
    output: &Tensor,
    inputs: &[Tensor; N],
    scalars: &[Scalar],
    dtype: DType,
    oracle: impl Fn([Complex64; N]) -> Complex64,
    is_near: Compare,
) {
    let given: [ArrayD<Complex64>; N] = std::array::from_fn(|index| inputs[index].values());
    let target = output.view().dtype();
    let expected = ArrayD::from_shape_fn(given[0].raw_dim(), |index| {
        round_trip(target, oracle(std::array::from_fn(|input| given[input][&index])))
    });
    for_each_isa(|isa| {
        let compare = |found: &Tensor, what: &str| {
            for ((index, found), expected) in found.values().indexed_iter().zip(&expected) {
                let values: [Complex64; N] = std::array::from_fn(|input| given[input][&index]);
                let context =
                    || format!("{name} {dtype:?} {isa:?}{what} {:?} {index:?}", inputs.each_ref().map(|input| input.view()));
                assert!(is_near(*found, *expected, target), "{}: {found:e} != {expected:e} of {values:?}", context());
            }
        };
        run(name, &[output], &inputs.each_ref(), scalars, dtype).unwrap_or_else(|error| panic!("{name} {dtype:?}: {error}"));
        compare(output, "");
        if target == dtype && isa == Isa::Portable && inputs[0].view().strides().iter().all(|&stride| stride != 0) {
            let inputs = inputs.clone();
            run(name, &[&inputs[0]], &inputs.each_ref(), scalars, dtype)
                .unwrap_or_else(|error| panic!("{name} {dtype:?}: {error}"));
            compare(&inputs[0], " in place");
        }
    });
}

/// A complex number with imaginary part 0.
pub fn real(value: f64) -> Complex64 {
    Complex64::new(value, 0.0)
}
