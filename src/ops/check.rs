//! Harness of the kernels' tests: [`agree`] runs a row of the operator table in all the ways that must not change its result.
//!
//! The first run of a case is over contiguous operands, under the weakest instruction set. Runs under the other instruction sets,
//! over other layouts, in place and of single elements are compared with it, in bits unless a test allows more, and none
//! may write outside of its outputs. In floating-point dtypes the first run is compared with the same row in double precision too.
//! True if double precision and integers are right, the Python tests compare with PyTorch's CPU device.

use std::cell::Cell;

use ndarray::{ArrayD, IxDyn};

use crate::runtime::parallel_for;
use crate::simd::{Isa, for_each_isa};
use crate::tensor::{
    Complex64, DType, DTypeSet, Element, Error, FLOATING, Flags, Hub, Number, Op, Record, Scalar, UNSIGNED, View, dispatch,
};

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

use Strides::{Broadcast, Contiguous, Sliced, Transposed};

/// Bytes before and behind a tensor that [`Tensor::new`] makes. Others end where their memory ends, so that the address sanitizer
/// sees a read behind them.
const GUARD: usize = 64;

/// A tensor that owns its memory.
#[derive(Clone, Debug)]
pub struct Tensor {
    memory: Vec<u128>,
    /// The first element's offset in bytes.
    begin: usize,
    dtype: DType,
    flags: Flags,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    /// The sizes and strides that launches see, if they are not the tensor's own.
    launched: Option<[Vec<i64>; 2]>,
}

impl Tensor {
    /// Zeros.
    pub fn new(dtype: DType, sizes: &[usize], strides: Strides) -> Self {
        Self::between(dtype, sizes, strides, GUARD, 0)
    }

    /// A tensor between guards of this number of bytes, all of whose bytes are `byte`.
    fn between(dtype: DType, sizes: &[usize], strides: Strides, guard: usize, byte: u8) -> Self {
        let mut step = dtype.size() as i64 * if strides == Sliced { 2 } else { 1 };
        let mut steps = vec![0; sizes.len()];
        let mut position = |dim: usize| {
            steps[dim] = step;
            step *= sizes[dim].max(1) as i64;
        };
        match strides {
            Transposed => (0..sizes.len()).for_each(&mut position),
            Broadcast => (1..sizes.len()).rev().for_each(&mut position),
            _ => (0..sizes.len()).rev().for_each(&mut position),
        }
        let end = (step as usize).next_multiple_of(16) + guard;
        let memory = vec![u128::from_ne_bytes([byte; 16]); (end + guard) / 16];
        let sizes = sizes.iter().map(|&size| size as i64).collect();
        Self { memory, begin: end - step as usize, dtype, flags: Flags::default(), sizes, strides: steps, launched: None }
    }

    /// A tensor with these values, cast to the dtype.
    pub fn of(dtype: DType, values: &ArrayD<Complex64>, strides: Strides) -> Self {
        let mut tensor = Self::between(dtype, values.shape(), strides, 0, 0);
        let packed = encode(dtype, &values.iter().copied().collect::<Vec<_>>());
        let (pieces, len) = tensor.pieces();
        for (at, piece) in pieces.into_iter().zip(packed.chunks_exact(len.max(1))) {
            tensor.bytes_mut()[at..at + len].copy_from_slice(piece);
        }
        tensor
    }

    /// A contiguous line of these values, cast to the dtype.
    pub fn line(dtype: DType, values: &[f64]) -> Self {
        Self::of(dtype, &ArrayD::from_shape_fn(IxDyn(&[values.len()]), |at| real(values[at[0]])), Contiguous)
    }

    /// A 0-dim host value.
    pub fn immediate(dtype: DType, value: Complex64) -> Self {
        Self::of(dtype, &ArrayD::from_elem(IxDyn(&[]), value), Contiguous).with_flags(Flags::IMMEDIATE)
    }

    /// The place of an optional operand that is not given.
    pub fn absent() -> Self {
        Self::new(DType::Byte, &[0], Contiguous).with_flags(Flags::ABSENT)
    }

    /// The same memory with flags.
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    /// The same memory with other sizes and strides (bytes).
    pub fn restrided(mut self, sizes: &[i64], strides: &[i64]) -> Self {
        self.sizes = sizes.to_vec();
        self.strides = strides.to_vec();
        self
    }

    /// The tensor, seen by launches over `sizes`, with stride 0 along these dimensions.
    pub fn expanded(mut self, sizes: &[usize], dims: &[usize]) -> Self {
        let strides = self.strides.iter().enumerate().map(|(dim, &step)| if dims.contains(&dim) { 0 } else { step });
        self.launched = Some([sizes.iter().map(|&size| size as i64).collect(), strides.collect()]);
        self
    }

    /// The element with the given number, in the order of the indices; immediates stay as they are.
    fn element(&self, number: usize) -> Self {
        if self.flags == Flags::IMMEDIATE {
            return self.clone();
        }
        let begin = self.view().address(number) - self.bytes().as_ptr() as usize;
        let element = Self { begin, ..self.clone() };
        element.restrided(&[1], &[self.dtype.size() as i64])
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: these are the bytes of the vector, which initialised them; no launch runs.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), 16 * self.memory.len()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the vector is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), 16 * self.memory.len()) }
    }

    /// The offsets of runs of contiguous elements, in the order of the indices, and the length of each, in bytes.
    fn pieces(&self) -> (Vec<usize>, usize) {
        let (mut len, mut dims) = (self.dtype.size(), self.sizes.len());
        while dims > 0 && self.strides[dims - 1] == len as i64 {
            dims -= 1;
            len *= self.sizes[dims] as usize;
        }
        let mut pieces = vec![self.begin];
        for (&size, &stride) in self.sizes[..dims].iter().zip(&self.strides) {
            let of_line = |at: usize| (0..size).map(move |index| at.wrapping_add_signed((index * stride) as isize));
            pieces = pieces.into_iter().flat_map(of_line).collect();
        }
        (pieces, len)
    }

    /// The bytes of the elements, in the order of the indices.
    pub fn packed(&self) -> Vec<u8> {
        let (bytes, (pieces, len)) = (self.bytes(), self.pieces());
        pieces.into_iter().map(|at| &bytes[at..at + len]).collect::<Vec<_>>().concat()
    }

    /// True if the memory around the elements is the same.
    fn has_equal_surroundings(&self, other: &Self) -> bool {
        let (mut bytes, (pieces, len)) = (self.bytes().to_vec(), self.pieces());
        for at in pieces {
            bytes[at..at + len].copy_from_slice(&other.bytes()[at..at + len]);
        }
        bytes == other.bytes()
    }

    /// The values; the conjugate and negative flags are ignored.
    pub fn values(&self) -> ArrayD<Complex64> {
        let sizes: Vec<usize> = self.sizes.iter().map(|&size| size as usize).collect();
        ArrayD::from_shape_vec(sizes, decode(self.dtype, &self.packed())).unwrap()
    }

    /// The real parts of the values, in the order of the indices.
    pub fn reals(&self) -> Vec<f64> {
        decode(self.dtype, &self.packed()).into_iter().map(|value| value.re).collect()
    }

    /// The descriptor.
    pub fn view(&self) -> View<'_> {
        let data = self.memory.as_ptr().cast_mut().cast::<u8>().wrapping_add(self.begin);
        let (sizes, strides) = self.launched.as_ref().map_or((&self.sizes, &self.strides), |[sizes, strides]| (sizes, strides));
        // SAFETY: each index names an element of the memory, or an element that no test reads. Only a launch writes the memory, and
        // nothing reads it meanwhile: no test runs one tensor's launches on several threads. The memory is owned, though it is
        // borrowed as shared here.
        unsafe { View::new(data, self.dtype, self.flags, sizes, strides) }.unwrap()
    }
}

/// The bytes of elements with these values.
fn encode(dtype: DType, values: &[Complex64]) -> Vec<u8> {
    let mut packed = vec![0; values.len() * dtype.size()];
    dispatch!(dtype in EVERY, T => {
        for (bytes, value) in packed.chunks_exact_mut(size_of::<T>()).zip(values) {
            // SAFETY: the bytes are as many as an element's.
            unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(T::store(value.to())) };
        }
        Ok::<_, Error>(packed)
    })
    .unwrap()
}

/// The values of elements with these bytes.
fn decode(dtype: DType, packed: &[u8]) -> Vec<Complex64> {
    dispatch!(dtype in EVERY, T => {
        let elements = packed.chunks_exact(size_of::<T>());
        // SAFETY: the bytes are those of an element, of which every bit pattern is valid.
        Ok::<_, Error>(elements.map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }.load().hub().to()).collect())
    })
    .unwrap()
}

/// The values after a cast to the dtype.
pub fn rounded(dtype: DType, values: &ArrayD<Complex64>) -> ArrayD<Complex64> {
    let values_of = |values: &ArrayD<Complex64>| values.iter().copied().collect::<Vec<_>>();
    ArrayD::from_shape_vec(values.raw_dim(), decode(dtype, &encode(dtype, &values_of(values)))).unwrap()
}

/// The value after a cast to the dtype.
pub fn round_trip(dtype: DType, value: Complex64) -> Complex64 {
    decode(dtype, &encode(dtype, &[value]))[0]
}

/// A complex number with imaginary part 0.
pub fn real(value: f64) -> Complex64 {
    Complex64::new(value, 0.0)
}

pub fn doubles(values: &[f64]) -> Vec<Scalar> {
    values.iter().map(|&value| Scalar::Double(value)).collect()
}

pub fn longs(values: &[i64]) -> Vec<Scalar> {
    values.iter().map(|&value| Scalar::Long(value)).collect()
}

/// Random bits that depend on the seed alone.
fn bits(seed: usize) -> impl FnMut() -> u64 {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    }
}

/// Values that depend on the seed alone: spread over -8..8 in steps of 1/8, cast to the dtype; not negative for unsigned types.
pub fn values(dtype: DType, sizes: &[usize], seed: usize) -> ArrayD<Complex64> {
    let mut bits = bits(seed);
    let mut next = || ((bits() >> 40) % 129) as f64 / 8.0 - 8.0;
    let is_unsigned = dtype == DType::Byte || UNSIGNED.contains(dtype) || dtype == DType::Float8E8M0FnU;
    let value = || {
        let value = Complex64::new(next(), next());
        if is_unsigned { Complex64::new(value.re.abs(), value.im) } else { value }
    };
    rounded(dtype, &ArrayD::from_shape_simple_fn(IxDyn(sizes), value))
}

/// [`values`] with ties, in floating-point dtypes also with negative zeros and NaN.
pub fn with_nan(dtype: DType, sizes: &[usize], seed: usize) -> ArrayD<Complex64> {
    let mut at = 0;
    values(dtype, sizes, seed).mapv(|value| {
        at += 1;
        match (FLOATING.contains(dtype), at % 53, at % 17) {
            (true, 5, _) => real(f64::NAN),
            (true, _, 3) => real(-0.0),
            _ => value,
        }
    })
}

/// Numbers of random bits that depend on the seed alone: of all magnitudes; every eighth is a limit, infinity, zero or NaN.
pub fn any_bits(dtype: DType, sizes: &[usize], seed: usize) -> ArrayD<Complex64> {
    let (least, greatest) = normal_range(dtype);
    let limits = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, least, -greatest, greatest];
    let mut bits = bits(seed + 7);
    let packed: Vec<u8> = (0..sizes.iter().product::<usize>() * dtype.size()).map(|_| (bits() >> 33) as u8).collect();
    let mut decoded = decode(dtype, &packed).into_iter().enumerate();
    ArrayD::from_shape_simple_fn(IxDyn(sizes), || match decoded.next().unwrap() {
        (at, _) if at % 8 == 3 => real(limits[at / 8 % 8]),
        (_, value) => value,
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

/// True if two values are equal within `tolerance`, relative to the expected magnitude or to 1 if that is greater. NaN equals NaN.
pub fn close(found: Complex64, expected: Complex64, tolerance: f64) -> bool {
    let part = |found: f64, expected: f64| {
        found == expected || found.is_nan() && expected.is_nan() || (found - expected).abs() <= tolerance * expected.abs().max(1.0)
    };
    part(found.re, expected.re) && part(found.im, expected.im)
}

/// True if a result of the dtype is within its [`tolerance`], relative to the expected magnitude, or to the least normal number if
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

/// The dtype of double precision for a floating-point dtype; any other dtype itself.
fn double(dtype: DType) -> DType {
    match dtype {
        DType::Half | DType::BFloat16 | DType::Float => DType::Double,
        DType::ComplexHalf | DType::ComplexFloat => DType::ComplexDouble,
        other => other,
    }
}

/// Runs a table row.
pub fn run(name: &str, outputs: &[&Tensor], inputs: &[&Tensor], scalars: &[Scalar], compute: DType) -> Result<(), Error> {
    let op = find(name);
    let views: Vec<View<'_>> = outputs.iter().chain(inputs).map(|tensor| tensor.view()).collect();
    if !op.signature().takes(views.len(), scalars.len()) {
        let (takes, operands) = (op.signature().text(), views.len());
        return Err(Error::new(format!("{name} takes {takes}, not {operands} operands and {} scalars", scalars.len())));
    }
    let record = Record::new(op.layout(), &views, outputs.len(), scalars, Some(compute))?;
    // SAFETY: the tensors outlive the call, and only the call uses their views.
    op.run(&unsafe { record.launch() })
}

pub fn find(name: &str) -> &'static Op {
    Op::find(name.as_bytes()).unwrap_or_else(|| panic!("no operator {name}"))
}

/// Makes the tensors of a [`Case`], in the layouts of a turn: contiguous in the first one.
pub struct Make {
    dtype: DType,
    is_wide: bool,
    turn: usize,
    made: Cell<usize>,
}

/// Turns over the layouts.
const TURNS: usize = 3;

impl Make {
    /// Contiguous tensors.
    pub fn plain(dtype: DType) -> Self {
        Self { dtype, is_wide: false, turn: 0, made: Cell::new(0) }
    }

    /// The dtype that the row computes in, or would compute in if it were not compared with double precision.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    fn stored(&self, dtype: DType) -> DType {
        if self.is_wide { double(dtype) } else { dtype }
    }

    fn strides(&self) -> Strides {
        let made = self.made.replace(self.made.get() + 1);
        if self.turn == 0 { Contiguous } else { [Contiguous, Transposed, Sliced][(self.turn + made) % 3] }
    }

    /// A tensor with these values, rounded to a dtype.
    pub fn of(&self, dtype: DType, values: &ArrayD<Complex64>) -> Tensor {
        Tensor::of(self.stored(dtype), &rounded(dtype, values), self.strides())
    }

    /// A contiguous tensor with these values, rounded to a dtype.
    pub fn dense(&self, dtype: DType, values: &ArrayD<Complex64>) -> Tensor {
        self.contiguous().of(dtype, values)
    }

    /// A `Make` of the same dtype whose tensors are all contiguous.
    pub fn contiguous(&self) -> Self {
        Self { is_wide: self.is_wide, ..Self::plain(self.dtype) }
    }

    /// A tensor of [`values`].
    pub fn input(&self, sizes: &[usize], seed: usize) -> Tensor {
        self.of(self.dtype, &values(self.dtype, sizes, seed))
    }

    /// A tensor of [`values`], which are the same at each first index.
    pub fn row(&self, sizes: &[usize], seed: usize) -> Tensor {
        let row = values(self.dtype, &sizes[1..], seed);
        let strides = if self.turn == 0 { Contiguous } else { Broadcast };
        Tensor::of(self.stored(self.dtype), &row.broadcast(sizes).unwrap().to_owned(), strides)
    }

    /// A number for every index: a tensor, one element of device memory, or an immediate.
    pub fn number(&self, sizes: &[usize], value: f64) -> Tensor {
        let dtype = self.stored(self.dtype);
        let value = round_trip(self.dtype, real(value));
        match self.turn {
            0 => Tensor::of(dtype, &ArrayD::from_elem(IxDyn(sizes), value), Contiguous),
            1 => {
                let sizes: Vec<_> = sizes.iter().map(|&size| size as i64).collect();
                Tensor::of(dtype, &ArrayD::from_elem(IxDyn(&[]), value), Contiguous).restrided(&sizes, &vec![0; sizes.len()])
            }
            _ => Tensor::immediate(dtype, value),
        }
    }

    /// An output of any values.
    pub fn output(&self, sizes: &[usize]) -> Tensor {
        self.output_of(self.dtype, sizes)
    }

    pub fn output_of(&self, dtype: DType, sizes: &[usize]) -> Tensor {
        Tensor::between(self.stored(dtype), sizes, self.strides(), GUARD, 0xa5)
    }
}

/// A launch of a row. Inputs that the row writes are among the outputs.
#[derive(Clone)]
pub struct Case {
    pub outputs: Vec<Tensor>,
    pub inputs: Vec<Tensor>,
    pub scalars: Vec<Scalar>,
    /// True if an element of the output depends on the inputs' elements at its index alone.
    pub is_pointwise: bool,
}

impl Case {
    pub fn new(outputs: impl Into<Vec<Tensor>>, inputs: impl Into<Vec<Tensor>>, scalars: impl Into<Vec<Scalar>>) -> Self {
        Self { outputs: outputs.into(), inputs: inputs.into(), scalars: scalars.into(), is_pointwise: false }
    }

    /// The bytes of the outputs after the launch; also checks that it writes nothing else.
    pub fn run(&self, name: &str, compute: DType) -> Result<Vec<Vec<u8>>, Error> {
        let outputs = self.outputs.clone();
        let references: Vec<&Tensor> = outputs.iter().collect();
        run(name, &references, &self.inputs.iter().collect::<Vec<_>>(), &self.scalars, compute)?;
        for (before, after) in self.outputs.iter().zip(&outputs) {
            assert!(before.has_equal_surroundings(after), "{name} {compute:?} writes beside {:?}", after.view());
        }
        Ok(outputs.iter().map(Tensor::packed).collect())
    }

    /// The bytes of the first input after a launch whose output it is; `None` where it cannot be.
    fn run_in_place(&self, name: &str, compute: DType) -> Option<Vec<Vec<u8>>> {
        let (output, inputs) = (&self.outputs[0], self.inputs.clone());
        let fits = |input: &&Tensor| input.dtype == output.dtype && input.sizes == output.sizes && !input.strides.contains(&0);
        let target = inputs.first().filter(fits)?;
        run(name, &[target], &inputs.iter().collect::<Vec<_>>(), &self.scalars, compute).unwrap();
        Some(vec![target.packed()])
    }

    /// The outputs in double precision, rounded to the dtypes of another case's outputs.
    fn run_in_double(&self, name: &str, dtype: DType, narrow: &Self) -> Vec<Vec<u8>> {
        let exact = self.run(name, double(dtype)).unwrap();
        let outputs = exact.iter().zip(&self.outputs).zip(&narrow.outputs);
        outputs.map(|((bytes, wide), narrow)| encode(narrow.dtype, &decode(wide.dtype, bytes))).collect()
    }

    fn element(&self, number: usize) -> Self {
        let of = |tensors: &[Tensor]| tensors.iter().map(|tensor| tensor.element(number)).collect::<Vec<_>>();
        Self { outputs: of(&self.outputs), inputs: of(&self.inputs), ..self.clone() }
    }
}

/// Asserts that the outputs have the expected bytes, or that each value is as `is_near` asks.
fn compare(
    case: &Case,
    found: &[Vec<u8>],
    expected: &[Vec<u8>],
    is_near: impl Fn(Complex64, Complex64, DType) -> bool,
    what: &str,
) {
    for (number, (found, expected)) in found.iter().zip(expected).enumerate().filter(|(_, (found, expected))| found != expected) {
        let dtype = case.outputs[number].dtype;
        let mut pairs = decode(dtype, found).into_iter().zip(decode(dtype, expected)).enumerate();
        if let Some((at, (found, expected))) = pairs.find(|&(_, (found, expected))| !is_near(found, expected, dtype)) {
            let given: Vec<_> = case.inputs.iter().filter(|_| case.is_pointwise).map(|input| input.element(at).reals()).collect();
            panic!("{what}: output {number}[{at}] is {found:e}, not {expected:e} of {given:?}");
        }
    }
}

/// True if two values are the same number, with the same sign, or both NaN.
fn is_same(found: Complex64, expected: Complex64) -> bool {
    let part = |found: f64, expected: f64| found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
    part(found.re, expected.re) && part(found.im, expected.im)
}

/// Runs the launches that `build` makes, in each of the dtypes, in all ways. `to_double`: how far values may be from those in
/// double precision, in units of the dtype's [`tolerance`]; `to_others`: how far runs may be from each other, 0 for the same bits.
pub fn agree(name: &str, dtypes: DTypeSet, [to_double, to_others]: [f64; 2], build: impl Fn(&Make) -> Case) {
    let is_near = |found, expected, dtype| close(found, expected, to_double * tolerance(dtype));
    agree_if(name, dtypes, Some(&is_near), to_others, build);
}

/// [`agree`] with another comparison with double precision, or none.
pub fn agree_if(
    name: &str,
    dtypes: DTypeSet,
    is_near: Option<&dyn Fn(Complex64, Complex64, DType) -> bool>,
    to_others: f64,
    build: impl Fn(&Make) -> Case,
) {
    let is_other_near = |found, expected, dtype| {
        is_same(found, expected) || to_others > 0.0 && close(found, expected, to_others * tolerance(dtype))
    };
    for dtype in dtypes.iter() {
        let make = |is_wide, turn| build(&Make { is_wide, turn, ..Make::plain(dtype) });
        let cases: [Case; TURNS] = std::array::from_fn(|turn| make(false, turn));
        let mut first: Option<Vec<Vec<u8>>> = None;
        for_each_isa(|isa| {
            // The first instruction set runs all layouts, each other one the contiguous and one more.
            let is_run = |turn| turn == 0 || isa == Isa::Portable || turn == 1 + isa as usize % 2;
            for (turn, case) in cases.iter().enumerate().filter(|&(turn, _)| is_run(turn)) {
                let context = |what| format!("{name} {:?} in {dtype:?}, {isa:?}, layouts {turn}{what}", case.scalars);
                let run = |case: &Case| case.run(name, dtype).unwrap_or_else(|error| panic!("{}: {error}", context("")));
                let found = run(case);
                let Some(first) = &first else {
                    if let Some(is_near) = is_near.filter(|_| double(dtype) != dtype) {
                        let exact = make(true, 0).run_in_double(name, dtype, case);
                        compare(case, &found, &exact, is_near, &context(", double precision"));
                    }
                    first = Some(found);
                    continue;
                };
                compare(case, &found, first, is_other_near, &context(""));
                if case.is_pointwise {
                    if let Some(found) = case.run_in_place(name, dtype) {
                        compare(case, &found, first, is_other_near, &context(", in place"));
                    }
                    let (size, count) = (case.outputs[0].dtype.size(), case.outputs[0].view().numel());
                    for number in (0..count).step_by(count / 3 + 1) {
                        let (case, expected) = (case.element(number), vec![first[0][number * size..][..size].to_vec()]);
                        compare(&case, &run(&case), &expected, is_other_near, &context(", one element"));
                    }
                }
            }
        });
    }
}

/// Checks that a launch has the same bits for any number of threads.
pub fn any_threads(name: &str, dtypes: &[DType], build: impl Fn(&Make) -> Case) {
    for &dtype in dtypes {
        let case = build(&Make::plain(dtype));
        // Other tests change the instruction set, which is one for all of them, but not during this.
        for_each_isa(|isa| {
            let before = parallel_for::num_threads();
            let results = [1, 2, 3].map(|count| {
                parallel_for::set_num_threads(count);
                case.run(name, dtype).unwrap()
            });
            parallel_for::set_num_threads(before);
            let sizes = case.outputs[0].view().sizes().to_vec();
            assert!(results[0] == results[1] && results[0] == results[2], "{name} {dtype:?}, {isa:?}, output {sizes:?}");
        });
    }
}
