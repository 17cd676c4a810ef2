//! [`Record`]: the operands and scalars of one launch of a kernel, by value; [`Launch`]: the kernel's view of them.
//!
//! A record is made when the operator is called and runs later, so it owns everything but the operands' memory. The dimensions of
//! elementwise launches (all operands have the same sizes) are sorted and merged for the loops while they are copied: innermost
//! first, adjacent ones merged where every operand allows it. Most launches fit into the record; larger ones are boxed.

use super::output::Taken;
use super::{Complex64, DType, Error, Flags, Number, Output, View};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that changes between the runs of a launch. It is read when the kernel asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Cell(pub &'static AtomicU64);

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

/// A parameter of an operator that is not a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Long(i64),
    Double(f64),
    Complex(f64, f64),
    /// An integer of 64 bits.
    Cell(Cell),
}

impl Scalar {
    /// The value as a `T`.
    pub fn to<T: Number>(self) -> T {
        match self {
            Self::Bool(value) => T::from_i64(value as i64),
            Self::Long(value) => T::from_i64(value),
            Self::Double(value) => T::from_f64(value),
            Self::Complex(real, imaginary) => T::from_complex64(Complex64::new(real, imaginary)),
            // Relaxed: the thread that starts the kernel has written it.
            Self::Cell(Cell(cell)) => T::from_i64(cell.load(Ordering::Relaxed) as i64),
        }
    }

    /// The value as a nonnegative integer.
    pub fn count(self) -> Result<usize, Error> {
        let value: i64 = self.to();
        usize::try_from(value).map_err(|_| Error::new(format!("a scalar is {value}")))
    }

    /// True if the value as an integer is not 0.
    pub fn is_true(self) -> bool {
        self.to::<i64>() != 0
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self::Long(value)
    }
}

impl Scalar {
    /// True if both have the same type and bits.
    pub fn is_identical(self, other: Self) -> bool {
        let bits = |value: Self| match value {
            Self::Bool(value) => (0, value as u64, 0),
            Self::Long(value) => (1, value as u64, 0),
            Self::Double(value) => (2, value.to_bits(), 0),
            Self::Complex(real, imaginary) => (3, real.to_bits(), imaginary.to_bits()),
            Self::Cell(Cell(cell)) => (4, std::ptr::from_ref(cell).addr() as u64, 0),
        };
        bits(self) == bits(other)
    }
}

/// The relation between the operands of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All have the same sizes, with stride 0 in broadcast dimensions: dimensions may be reordered and merged.
    Elementwise,
    /// Each has its own sizes, which are kept as given.
    Shaped,
}

/// An operand inside a record. Its sizes and strides are at these offsets of the record's words.
#[derive(Clone, Copy, Debug)]
struct Operand {
    /// The address of the first element; for an immediate operand, the offset of its value in the words.
    address: usize,
    dtype: DType,
    flags: Flags,
    ndim: u8,
    sizes: u16,
    strides: u16,
}

impl Operand {
    const NONE: Self = Self { address: 0, dtype: DType::Byte, flags: Flags(0), ndim: 0, sizes: 0, strides: 0 };
}

/// The maximum number of operands that a record holds without an allocation.
pub const INLINE_OPERANDS: usize = 4;
/// The maximum number of scalars that a record holds without an allocation.
pub const INLINE_SCALARS: usize = 4;
const INLINE_WORDS: usize = 17;
/// The number of words of an immediate operand's value.
const VALUE_WORDS: usize = 2;

#[derive(Clone, Debug)]
struct Inline {
    operands: [Operand; INLINE_OPERANDS],
    words: [i64; INLINE_WORDS],
    scalars: [Scalar; INLINE_SCALARS],
    num_operands: u8,
    num_scalars: u8,
}

impl Inline {
    const EMPTY: Self = Self {
        operands: [Operand::NONE; INLINE_OPERANDS],
        words: [0; INLINE_WORDS],
        scalars: [Scalar::Bool(false); INLINE_SCALARS],
        num_operands: 0,
        num_scalars: 0,
    };
}

#[derive(Clone, Debug, Default)]
struct Boxed {
    operands: Vec<Operand>,
    words: Vec<i64>,
    scalars: Vec<Scalar>,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one: it saves an allocation per launch")]
enum Storage {
    Inline(Inline),
    Boxed(Box<Boxed>),
}

/// Everything that a kernel needs to run later.
#[derive(Clone, Debug)]
pub struct Record {
    storage: Storage,
    num_outputs: u16,
    compute: DType,
}

impl Record {
    /// Copies the operands (outputs first) and the scalars. `compute`: the computing dtype; by default that of the first output.
    pub fn new(
        layout: Layout,
        operands: &[View<'_>],
        num_outputs: usize,
        scalars: &[Scalar],
        compute: Option<DType>,
    ) -> Result<Self, Error> {
        let first = operands.first().ok_or_else(|| Error::new("a launch has no operands"))?;
        let mut record = Self::empty(num_outputs, compute.unwrap_or(first.dtype()));
        record.fill(layout, &operands, scalars.len())?;
        for &scalar in scalars {
            record.push_scalar(scalar);
        }
        Ok(record)
    }

    /// A record without operands and scalars, for [`Record::fill`] or the `push_` functions. It should be made in place: moving a
    /// record costs more.
    #[inline(always)]
    pub fn empty(num_outputs: usize, compute: DType) -> Self {
        Self { storage: Storage::Inline(Inline::EMPTY), num_outputs: num_outputs.min(u16::MAX as usize) as u16, compute }
    }

    /// Copies operands into an empty record, and reserves room for `num_scalars` scalars, which [`Record::push_scalar`] adds.
    #[inline(always)]
    pub fn fill<'a>(&mut self, layout: Layout, operands: &impl Operands<'a>, num_scalars: usize) -> Result<(), Error> {
        let (outputs, count) = (self.num_outputs as usize, operands.count());
        if outputs == 0 || outputs > count {
            return Err(Error::new(format!("{outputs} outputs of {count} operands")));
        }
        match layout {
            Layout::Elementwise if operands.get(0).ndim() <= 1 => one_line(&mut self.storage, operands, num_scalars),
            Layout::Elementwise => elementwise(&mut self.storage, operands, num_scalars),
            Layout::Shaped => shaped(&mut self.storage, operands, num_scalars),
        }
    }

    /// An elementwise launch of `numel` (at least 1) elements that are contiguous in every operand. [`Record::push_dense`] and
    /// [`Record::push_scalar`] add its operands and scalars.
    #[inline(always)]
    pub fn dense(numel: i64, num_outputs: usize, compute: DType) -> Self {
        let mut inline = Inline::EMPTY;
        inline.words[0] = numel;
        Self { storage: Storage::Inline(inline), num_outputs: num_outputs as u16, compute }
    }

    /// Adds an operand to a dense launch: its first element, dtype and flags. At most [`INLINE_OPERANDS`]. Panics if the launch is
    /// not dense, or full.
    ///
    /// # Safety
    /// With [`Flags::IMMEDIATE`] the element at `data` must be readable.
    #[inline(always)]
    pub unsafe fn push_dense(&mut self, data: *mut u8, dtype: DType, flags: Flags) {
        let Storage::Inline(inline) = &mut self.storage else { panic!("a dense launch is kept inline") };
        let index = inline.num_operands as usize;
        let stride = 1 + index;
        let mut operand = Operand { address: data as usize, dtype, flags, ndim: 1, sizes: 0, strides: stride as u16 };
        if flags.has(Flags::IMMEDIATE) {
            let offset = 1 + INLINE_OPERANDS + index * VALUE_WORDS;
            // SAFETY: the caller's promise.
            let value = unsafe { immediate(data, dtype) };
            inline.words[offset..offset + VALUE_WORDS].copy_from_slice(&value);
            operand.address = offset;
        } else {
            inline.words[stride] = dtype.size() as i64;
        }
        inline.operands[index] = operand;
        inline.num_operands += 1;
    }

    /// Adds a scalar. A dense launch takes at most [`INLINE_SCALARS`], another one as many as it has room for. Panics if there is
    /// no room.
    #[inline(always)]
    pub fn push_scalar(&mut self, scalar: Scalar) {
        match &mut self.storage {
            Storage::Inline(inline) => {
                inline.scalars[inline.num_scalars as usize] = scalar;
                inline.num_scalars += 1;
            }
            Storage::Boxed(boxed) => boxed.scalars.push(scalar),
        }
    }

    /// The kernel's view of the record.
    ///
    /// # Safety
    /// While the launch or anything derived from it is used, the operands' memory must uphold the conditions of [`View::new`]. An
    /// output that the kernel takes by [`Launch::output`] must not name an element twice, and nothing else may take it meanwhile,
    /// not even another launch of the record. It may share memory with other operands only where the kernel's documentation says
    /// so.
    #[inline(always)]
    pub unsafe fn launch(&self) -> Launch<'_> {
        let (operands, words, scalars) = match &self.storage {
            Storage::Inline(inline) => (
                &inline.operands[..inline.num_operands as usize],
                &inline.words[..],
                &inline.scalars[..inline.num_scalars as usize],
            ),
            Storage::Boxed(boxed) => (&boxed.operands[..], &boxed.words[..], &boxed.scalars[..]),
        };
        let (num_outputs, compute) = (self.num_outputs as usize, self.compute);
        Launch { operands, words, scalars, num_outputs, compute, cost: DEFAULT_COST, piece: None, taken: Taken::none() }
    }
}

/// Calls `body` with a launch of views, outputs first. [`Launch::output`] fails for this launch.
pub fn of_views<R>(
    layout: Layout,
    operands: &[View<'_>],
    num_outputs: usize,
    scalars: &[Scalar],
    compute: Option<DType>,
    body: impl FnOnce(&Launch<'_>) -> Result<R, Error>,
) -> Result<R, Error> {
    let record = Record::new(layout, operands, num_outputs, scalars, compute)?;
    // SAFETY: the views uphold their conditions until the body returns; no output can be taken.
    let launch = Launch { taken: Taken::all(), ..unsafe { record.launch() } };
    body(&launch)
}

/// One launch, as its kernel sees it.
#[derive(Debug)]
pub struct Launch<'a> {
    operands: &'a [Operand],
    words: &'a [i64],
    scalars: &'a [Scalar],
    num_outputs: usize,
    compute: DType,
    cost: f64,
    piece: Option<Piece<'a>>,
    taken: Taken<'a>,
}

/// A range of the elements of a launch over lists of tensors.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The end of each entry in the concatenation of all entries' elements.
    pub ends: &'a [usize],
    /// The first element of the piece in the concatenation.
    pub begin: usize,
    /// The end of the piece, exclusive.
    pub end: usize,
}

/// Nanoseconds per element of operators that are not in the table.
const DEFAULT_COST: f64 = 0.2;

impl<'a> Launch<'a> {
    #[inline(always)]
    pub fn num_operands(&self) -> usize {
        self.operands.len()
    }

    #[inline(always)]
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// An operand; outputs come first. The dimensions of elementwise launches are innermost first.
    #[inline(always)]
    pub fn view(&self, index: usize) -> View<'a> {
        let operand = &self.operands[index];
        let (sizes, strides, ndim) = (operand.sizes as usize, operand.strides as usize, operand.ndim as usize);
        let data = if operand.flags.has(Flags::IMMEDIATE) {
            self.words[operand.address..].as_ptr().cast_mut().cast()
        } else {
            operand.address as *mut u8
        };
        let (sizes, strides) = (&self.words[sizes..sizes + ndim], &self.words[strides..strides + ndim]);
        // SAFETY: the record has copied the operand from a view (or from an equivalent in a dense launch), and its order of
        // dimensions names the same elements. `Record::launch` guarantees their memory.
        let view = unsafe { View::from_checked(data, operand.dtype, operand.flags, sizes, strides) };
        view.as_output(index < self.num_outputs)
    }

    pub fn sizes(&self, index: usize) -> &'a [i64] {
        self.view(index).sizes()
    }

    /// The number of elements of an operand.
    #[inline]
    pub fn numel(&self, index: usize) -> usize {
        self.view(index).numel()
    }

    pub fn flags(&self, index: usize) -> Flags {
        self.operands[index].flags
    }

    #[inline]
    pub fn dtype(&self, index: usize) -> DType {
        self.operands[index].dtype
    }

    /// An optional operand; `None` if it is not given.
    #[inline]
    pub fn given(&self, index: usize) -> Option<View<'a>> {
        let is_given = self.operands.get(index).is_some_and(|operand| !operand.flags.has(Flags::ABSENT));
        is_given.then(|| self.view(index))
    }

    /// Takes an output, to write it through references. Each output can be taken once.
    #[inline]
    pub fn output(&self, index: usize) -> Result<Output<'a>, Error> {
        if index >= self.num_outputs || !self.taken.take(index) {
            return Err(Error::new(format!("output {index} is not to be taken")));
        }
        // SAFETY: `Record::launch` guarantees that nothing else takes the output, and `taken` that this launch gives it once.
        Ok(unsafe { Output::new(self.view(index)) })
    }

    #[inline(always)]
    pub fn compute(&self) -> DType {
        self.compute
    }

    /// A copy of the launch that shares the record of taken outputs.
    #[inline(always)]
    fn same(&self) -> Launch<'_> {
        Launch { taken: self.taken.share(), ..*self }
    }

    /// The launch with only its first `count` operands.
    #[inline(always)]
    pub fn leading(&self, count: usize) -> Launch<'_> {
        Launch { operands: &self.operands[..count], ..self.same() }
    }

    /// Nanoseconds of one thread per element.
    #[inline(always)]
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// The launch with another cost per element.
    #[inline(always)]
    pub fn with_cost(&self, cost: f64) -> Launch<'_> {
        Launch { cost, ..self.same() }
    }

    /// The elements to compute, if not all; the kernel computes them on this thread alone.
    #[inline(always)]
    pub fn piece(&self) -> Option<Piece<'a>> {
        self.piece
    }

    /// The launch restricted to a piece. The caller has checked that its operands fit together, and nothing else uses the memory
    /// meanwhile.
    #[inline(always)]
    pub fn with_piece<'b>(&'b self, piece: Piece<'b>) -> Launch<'b> {
        Launch { piece: Some(piece), ..self.same() }
    }

    #[inline(always)]
    pub fn scalars(&self) -> &'a [Scalar] {
        self.scalars
    }

    #[inline]
    pub fn first_scalars<const N: usize>(&self) -> Result<[Scalar; N], Error> {
        self.scalars.first_chunk().copied().ok_or_else(|| missing_scalar(self.scalars.len()))
    }

    /// A parameter, or `default` if the launch has none at that position.
    #[inline]
    pub fn scalar_or(&self, index: usize, default: Scalar) -> Scalar {
        self.scalars.get(index).copied().unwrap_or(default)
    }

    /// Visits the memory of each operand: begin and end addresses, whether it is written, and the operand.
    #[inline]
    pub fn for_each_accessed(&self, visit: &mut dyn FnMut(usize, usize, bool, &View<'a>)) {
        for index in 0..self.operands.len() {
            let view = self.view(index);
            if let (false, Some((begin, end))) = (view.flags().has(Flags::IMMEDIATE), view.extent()) {
                visit(begin, end, index < self.num_outputs, &view);
            }
        }
    }
}

/// The operands of a launch, outputs first: existing views, or views that are made on access.
pub trait Operands<'a> {
    /// How many there are.
    fn count(&self) -> usize;

    /// The operand at `index`; mark it `#[inline(always)]`. Loops use indices, because the compiler does not inline such a function
    /// into an iterator's `next`.
    fn get(&self, index: usize) -> View<'a>;
}

impl<'a> Operands<'a> for &[View<'a>] {
    #[inline(always)]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn get(&self, index: usize) -> View<'a> {
        self[index]
    }
}

#[cold]
fn missing_scalar(index: usize) -> Error {
    Error::new(format!("scalar {index} is missing"))
}

/// Checks that every operand has the sizes of the first one, except immediates.
#[inline(always)]
fn check_sizes<'a>(operands: &impl Operands<'a>) -> Result<(), Error> {
    let sizes = operands.get(0).sizes();
    for index in 1..operands.count() {
        let operand = operands.get(index);
        if operand.sizes() != sizes && !operand.flags().has(Flags::IMMEDIATE) {
            return Err(Error::new(format!("operand {index} has sizes {:?} beside {sizes:?}", operand.sizes())));
        }
    }
    Ok(())
}

/// The sizes and strides of an elementwise launch while they are sorted and merged: row 0 has the sizes, row 1 + i the strides of
/// operand i.
struct StrideTable<'a> {
    words: &'a mut [i64],
    ndim: usize,
    pitch: usize,
}

impl StrideTable<'_> {
    #[inline(always)]
    fn fill<'a>(&mut self, operands: &impl Operands<'a>) {
        let (sizes, ndim) = (operands.get(0).sizes(), self.ndim);
        for index in 0..operands.count() {
            let operand = operands.get(index);
            let row = &mut self.words[(1 + index) * self.pitch..][..ndim];
            for (dim, word) in row.iter_mut().enumerate() {
                let stride = if operand.flags().has(Flags::IMMEDIATE) { 0 } else { operand.strides()[ndim - 1 - dim] };
                *word = if sizes[ndim - 1 - dim] == 1 { 0 } else { stride };
            }
        }
        for (dim, word) in self.words[..ndim].iter_mut().enumerate() {
            *word = sizes[ndim - 1 - dim];
        }
    }

    fn rows(&self) -> usize {
        self.words.len() / self.pitch
    }

    /// True if dimension `left` belongs inside `right`. The first operand with different nonzero strides in both decides.
    fn precedes(&self, left: usize, right: usize) -> bool {
        for row in 1..self.rows() {
            let (a, b) = (self.words[row * self.pitch + left], self.words[row * self.pitch + right]);
            if a != 0 && b != 0 && a != b {
                return a < b;
            }
        }
        true
    }

    fn swap(&mut self, left: usize, right: usize) {
        for row in 0..self.rows() {
            self.words.swap(row * self.pitch + left, row * self.pitch + right);
        }
    }

    /// Insertion sort of the dimensions, innermost first; dimensions that no operand orders keep their order.
    fn sort(&mut self) {
        for end in 1..self.ndim {
            let mut dim = end;
            while dim > 0 && !self.precedes(dim - 1, dim) {
                self.swap(dim - 1, dim);
                dim -= 1;
            }
        }
    }

    /// Merges each dimension into the one before it if all operands can step through both evenly; drops dimensions of size 1.
    fn coalesce(&mut self) {
        let mut last = 0;
        for dim in 1..self.ndim {
            let (inner, outer) = (self.words[last], self.words[dim]);
            let merges = |row: usize| self.words[row * self.pitch + dim] == inner * self.words[row * self.pitch + last];
            if outer == 1 {
                continue;
            }
            if inner == 1 {
                self.copy(dim, last);
            } else if (1..self.rows()).all(merges) {
                self.words[last] = inner * outer;
            } else {
                last += 1;
                self.copy(dim, last);
            }
        }
        self.ndim = last + 1;
    }

    /// Sets the stride of a launch with a single element to that of a contiguous operand.
    #[inline(always)]
    fn set_single_strides<'a>(&mut self, operands: &impl Operands<'a>) {
        if self.ndim == 1 && self.words[0] == 1 {
            for index in 0..operands.count() {
                let operand = operands.get(index);
                if !operand.flags().has(Flags::IMMEDIATE) {
                    self.words[(1 + index) * self.pitch] = operand.dtype().size() as i64;
                }
            }
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        for row in 0..self.rows() {
            self.words[row * self.pitch + to] = self.words[row * self.pitch + from];
        }
    }
}

/// The maximum number of words of a [`StrideTable`] on the stack.
const STACK_TABLE: usize = 40;

/// Writes an elementwise launch of at most one dimension. A single element counts as contiguous.
#[inline(always)]
fn one_line<'a>(storage: &mut Storage, operands: &impl Operands<'a>, num_scalars: usize) -> Result<(), Error> {
    check_sizes(operands)?;
    let size = operands.get(0).sizes().first().copied().unwrap_or(1);
    let mut writer = Writer::new(storage, operands, num_scalars, 1 + operands.count())?;
    writer.push(size);
    for index in 0..operands.count() {
        let operand = operands.get(index);
        let stride = match operand.strides() {
            _ if operand.flags().has(Flags::IMMEDIATE) => 0,
            &[stride] if size != 1 => stride,
            _ => operand.dtype().size() as i64,
        };
        writer.push(stride);
    }
    for index in 0..operands.count() {
        writer.operand(&operands.get(index), 1, 0, 1 + index);
    }
    Ok(())
}

#[inline(always)]
fn elementwise<'a>(storage: &mut Storage, operands: &impl Operands<'a>, num_scalars: usize) -> Result<(), Error> {
    check_sizes(operands)?;
    let (pitch, count) = (operands.get(0).ndim(), operands.count());
    let length = (1 + count) * pitch;
    let mut stack = [0i64; STACK_TABLE];
    let mut heap = Vec::new();
    let words = if length <= STACK_TABLE {
        &mut stack[..length]
    } else {
        heap.resize(length, 0);
        &mut heap[..]
    };
    let mut table = StrideTable { words, ndim: pitch, pitch };
    table.fill(operands);
    table.sort();
    table.coalesce();
    table.set_single_strides(operands);
    let mut writer = Writer::new(storage, operands, num_scalars, (1 + count) * table.ndim)?;
    for row in 0..=count {
        writer.extend(&table.words[row * pitch..][..table.ndim]);
    }
    for index in 0..count {
        writer.operand(&operands.get(index), table.ndim, 0, (1 + index) * table.ndim);
    }
    Ok(())
}

#[inline(always)]
fn shaped<'a>(storage: &mut Storage, operands: &impl Operands<'a>, num_scalars: usize) -> Result<(), Error> {
    let mut words = 0;
    for index in 0..operands.count() {
        words += 2 * operands.get(index).ndim();
    }
    let mut writer = Writer::new(storage, operands, num_scalars, words)?;
    for index in 0..operands.count() {
        let (operand, offset) = (operands.get(index), writer.num_words);
        writer.extend(operand.sizes());
        writer.extend(operand.strides());
        writer.operand(&operand, operand.ndim(), offset, offset + operand.ndim());
    }
    Ok(())
}

/// Fills a record's storage, in the record itself if it fits.
struct Writer<'a> {
    storage: &'a mut Storage,
    num_words: usize,
}

impl<'a> Writer<'a> {
    #[inline(always)]
    fn new<'b>(
        storage: &'a mut Storage,
        operands: &impl Operands<'b>,
        num_scalars: usize,
        mut num_words: usize,
    ) -> Result<Self, Error> {
        let count = operands.count();
        for index in 0..count {
            num_words += if operands.get(index).flags().has(Flags::IMMEDIATE) { VALUE_WORDS } else { 0 };
        }
        if num_words > u16::MAX as usize {
            return Err(Error::new(format!("{count} operands of so many dimensions are too many for one launch")));
        }
        if count > INLINE_OPERANDS || num_scalars > INLINE_SCALARS || num_words > INLINE_WORDS {
            let (operands, words) = (Vec::with_capacity(count), Vec::with_capacity(num_words));
            *storage = Storage::Boxed(Box::new(Boxed { operands, words, scalars: Vec::with_capacity(num_scalars) }));
        }
        Ok(Self { storage, num_words: 0 })
    }

    #[inline(always)]
    fn push(&mut self, word: i64) {
        match self.storage {
            Storage::Inline(inline) => inline.words[self.num_words] = word,
            Storage::Boxed(boxed) => boxed.words.push(word),
        }
        self.num_words += 1;
    }

    /// Copies one by one: these are few words, and a call of memcpy would cost more.
    #[inline(always)]
    fn extend(&mut self, words: &[i64]) {
        for &word in words {
            self.push(word);
        }
    }

    #[inline(always)]
    fn operand(&mut self, view: &View<'_>, ndim: usize, sizes: usize, strides: usize) {
        let address = if view.flags().has(Flags::IMMEDIATE) {
            let offset = self.num_words;
            // SAFETY: `View::new` guarantees the element of an immediate.
            self.extend(&unsafe { immediate(view.data(), view.dtype()) });
            offset
        } else {
            view.data() as usize
        };
        let operand = Operand {
            address,
            dtype: view.dtype(),
            flags: view.flags(),
            ndim: ndim as u8,
            sizes: sizes as u16,
            strides: strides as u16,
        };
        match self.storage {
            Storage::Inline(inline) => {
                inline.operands[inline.num_operands as usize] = operand;
                inline.num_operands += 1;
            }
            Storage::Boxed(boxed) => boxed.operands.push(operand),
        }
    }
}

/// The bytes of an immediate operand's element.
///
/// # Safety
/// The element at `data` must be readable.
unsafe fn immediate(data: *const u8, dtype: DType) -> [i64; VALUE_WORDS] {
    let mut value = [0i64; VALUE_WORDS];
    let target = value.as_mut_ptr().cast::<u8>();
    // SAFETY: the caller promises the element; no element is larger than the words.
    unsafe { std::ptr::copy_nonoverlapping(data, target, dtype.size()) };
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(dtype: DType, sizes: &'a [i64], strides: &'a [i64]) -> View<'a> {
        // SAFETY: nothing reads the elements.
        unsafe { View::new(4096 as *mut u8, dtype, Flags::default(), sizes, strides) }.unwrap()
    }

    fn record(operands: &[View<'_>]) -> Record {
        Record::new(Layout::Elementwise, operands, 1, &[], None).unwrap()
    }

    /// The launch of a record whose elements are not read, except immediates.
    fn launch(record: &Record) -> Launch<'_> {
        // SAFETY: nothing reads the operands' memory; immediates are in the record.
        unsafe { record.launch() }
    }

    /// The sizes and strides of two operands of Float in a launch, and whether the launch has one dense dimension.
    fn merged(sizes: &[i64], strides: [&[i64]; 2]) -> (Vec<i64>, [Vec<i64>; 2], bool) {
        let record = record(&strides.map(|strides| view(DType::Float, sizes, strides)));
        let launch = launch(&record);
        let views = [launch.view(0), launch.view(1)];
        assert_eq!(views[0].sizes(), views[1].sizes());
        (views[0].sizes().to_vec(), views.map(|view| view.strides().to_vec()), views.iter().all(View::is_dense_1d))
    }

    #[test]
    fn dimensions_are_merged_and_ordered_by_the_output() {
        assert_eq!(merged(&[2, 3, 1, 4], [&[48, 16, 16, 4]; 2]), (vec![24], [vec![4], vec![4]], true));
        assert_eq!(merged(&[5, 7], [&[4, 20], &[28, 4]]), (vec![5, 7], [vec![4, 20], vec![28, 4]], false));
        assert_eq!(merged(&[6, 5], [&[20, 4], &[0, 4]]), (vec![5, 6], [vec![4, 20], vec![4, 0]], false));
        assert_eq!(merged(&[], [&[]; 2]).0, [1]);
    }

    /// The value of a launch's immediate of Double.
    fn immediate(launch: &Launch<'_>, operand: usize) -> f64 {
        // SAFETY: the immediate is in the record, which the launch borrows.
        unsafe { launch.view(operand).data().cast::<f64>().read() }
    }

    #[test]
    fn immediates_are_read_at_once() {
        let mut value = 2.5f64;
        // SAFETY: `value` outlives the view.
        let number = unsafe { View::new((&raw mut value).cast(), DType::Double, Flags::IMMEDIATE, &[], &[]) }.unwrap();
        let record = record(&[view(DType::Float, &[3], &[4]), number]);
        value = 0.0;
        let moved = Box::new(record);
        assert_eq!((immediate(&launch(&moved), 1), launch(&moved).view(1).strides(), value), (2.5, &[0][..], 0.0));
    }

    #[test]
    fn large_launches_are_boxed_and_equal() {
        let (sizes, strides) = (vec![2; 20], (0..20).map(|dim| 12 << dim).collect::<Vec<i64>>());
        let operands = [view(DType::Float, &sizes, &strides); 9];
        let record = Record::new(Layout::Shaped, &operands, 2, &[Scalar::Long(3); 5], Some(DType::Double)).unwrap();
        let launch = launch(&record);
        assert_eq!((launch.num_operands(), launch.num_outputs(), launch.compute()), (9, 2, DType::Double));
        assert_eq!((launch.view(8).strides(), launch.scalars().get(4)), (&strides[..], Some(&Scalar::Long(3))));
        assert!(launch.first_scalars::<6>().is_err());
        assert!(size_of::<Record>() <= 352, "a common record does not fit into a task: {}", size_of::<Record>());
    }

    #[test]
    fn dense_records_are_those_of_one_dimension() {
        let mut number = 2.5f64;
        let data = 4096 as *mut u8;
        let mut record = Record::dense(7, 1, DType::Float);
        record.push_scalar(Scalar::Long(3));
        for (data, dtype, flags) in [
            (data, DType::Bool, Flags::default()),
            (data, DType::Float, Flags::default()),
            ((&raw mut number).cast(), DType::Double, Flags::IMMEDIATE),
        ] {
            // SAFETY: the immediate is a live number.
            unsafe { record.push_dense(data, dtype, flags) };
        }
        number = 0.0;
        let launch = launch(&record);
        assert_eq!((launch.num_operands(), launch.num_outputs(), launch.compute()), (3, 1, DType::Float));
        assert!(launch.view(0).is_dense_1d() && launch.view(1).is_dense_1d());
        assert_eq!((launch.view(1).sizes(), launch.view(1).dtype(), launch.view(0).dtype()), (&[7][..], DType::Float, DType::Bool));
        assert_eq!((immediate(&launch, 2), number, launch.scalars()), (2.5, 0.0, &[Scalar::Long(3)][..]));
    }

    #[test]
    fn sizes_that_differ_are_refused() {
        let operands = [view(DType::Float, &[3], &[4]), view(DType::Float, &[4], &[4])];
        assert!(Record::new(Layout::Elementwise, &operands, 1, &[], None).is_err());
        assert!(Record::new(Layout::Shaped, &operands, 3, &[], None).is_err());
    }

    #[test]
    fn an_output_is_taken_once() {
        let operands = [view(DType::Float, &[3], &[4]); 2];
        let record = record(&operands);
        let launch = launch(&record);
        assert!(launch.output(1).is_err(), "an input");
        assert!(launch.with_cost(2.0).output(0).is_ok());
        assert!(launch.output(0).is_err() && launch.leading(1).output(0).is_err());
        let is_taken = of_views(Layout::Elementwise, &operands, 1, &[], None, |launch| Ok(launch.output(0).is_err()));
        assert_eq!(is_taken, Ok(true));
    }

    #[test]
    fn accesses_name_the_memory() {
        let record = record(&[view(DType::Float, &[3], &[4]), view(DType::Double, &[3], &[0])]);
        let mut seen = Vec::new();
        launch(&record).for_each_accessed(&mut |begin, end, write, _| seen.push((begin, end, write)));
        assert_eq!(seen, [(4096, 4108, true), (4096, 4104, false)]);
    }
}
