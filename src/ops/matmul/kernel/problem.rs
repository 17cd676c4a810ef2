//! [`Problem`]: sizes, strides and pointers of a matrix product.

use super::library;
use super::tile::Tile;
use crate::tensor::loops::index_space::Steps;
use crate::tensor::loops::strided::{self, StridedPtr};
use crate::tensor::{DType, Element, Error, Flags, Number, Scalar, View};
use crate::tuning::products::SKINNY_ROWS;

/// The operands of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Matrix,
    /// Matrices along a first dimension.
    Batch,
    /// A matrix times a vector.
    Vector,
}

/// A matrix in memory; distances in bytes.
#[derive(Clone, Copy)]
pub struct Matrix {
    pub data: *mut u8,
    /// From one row to the next.
    pub row: isize,
    /// From one column to the next.
    pub col: isize,
    /// From one matrix of the batch to the next.
    pub batch: isize,
    pub conj: bool,
}

// SAFETY: the address is a number until a kernel uses it; whoever launches guarantees that the kernel's thread may use the memory.
unsafe impl Send for Matrix {}
// SAFETY: as for `Send`; threads write to different tiles.
unsafe impl Sync for Matrix {}

impl Matrix {
    fn new(view: &View<'_>, form: Form) -> Self {
        let first = usize::from(form == Form::Batch);
        let step = |dim: usize| if dim < view.ndim() { view.stride(dim) } else { 0 };
        Self {
            data: view.data(),
            row: step(first),
            col: step(first + 1),
            batch: if first == 1 { step(0) } else { 0 },
            conj: view.flags().has(Flags::CONJ) && view.dtype().is_complex(),
        }
    }

    /// A matrix of contiguous rows of `cols` elements of `T`.
    pub fn contiguous<T>(data: *mut T, cols: usize) -> Self {
        Self { data: data.cast(), row: (cols * size_of::<T>()) as isize, col: size_of::<T>() as isize, batch: 0, conj: false }
    }

    /// The part of the matrix that begins at an element of a matrix of the batch.
    #[inline(always)]
    pub fn at(mut self, batch: usize, row: usize, col: usize) -> Self {
        let offset = batch as isize * self.batch + row as isize * self.row + col as isize * self.col;
        self.data = self.data.wrapping_offset(offset);
        self
    }

    /// The elements from here on.
    pub fn strided(self) -> StridedPtr {
        StridedPtr { data: self.data, steps: Steps { col: self.col, row: self.row } }
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        Self { row: self.col, col: self.row, ..self }
    }

    fn same_position(&self, other: &Self) -> bool {
        (self.data, self.row, self.col, self.batch) == (other.data, other.row, other.col, other.batch)
    }
}

/// `out = beta * addend + alpha * (a @ b)` for `batch` matrices: out (m, n), a (m, k), b (k, n).
#[derive(Clone, Copy)]
pub struct Problem {
    pub dtype: DType,
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub out: Matrix,
    /// `None` if beta is 0.
    pub addend: Option<Matrix>,
    /// True if the addend is the output.
    pub in_place: bool,
    pub a: Matrix,
    pub b: Matrix,
    beta: Scalar,
    alpha: Scalar,
    negative: [bool; 2],
    conj: bool,
}

impl Problem {
    /// `out = beta * addend + alpha * (a @ b)`. An addend comes with both factors.
    pub fn new(form: Form, out: &View<'_>, addend: Option<(View<'_>, [Scalar; 2])>, [a, b]: [View<'_>; 2]) -> Result<Self, Error> {
        let (first, [beta, alpha]) = addend.unwrap_or((a, [Scalar::Long(0), Scalar::Long(1)]));
        let dims = if form == Form::Batch { 3 } else { 2 };
        let vector = if form == Form::Vector { 1 } else { dims };
        if [a.ndim(), b.ndim(), out.ndim(), first.ndim()] != [dims, vector, vector, if addend.is_some() { vector } else { dims }] {
            return Err(Error::new("operands of a matrix product with other numbers of dimensions"));
        }
        if [first, a, b].iter().any(|operand| operand.dtype() != out.dtype()) {
            return Err(Error::new("operands of a matrix product with different dtypes"));
        }
        let negative = |view: &View<'_>| view.flags().has(Flags::NEG);
        let mut problem = Self {
            dtype: out.dtype(),
            batch: if form == Form::Batch { out.size(0) } else { 1 },
            m: a.size(dims - 2),
            n: if form == Form::Vector { 1 } else { b.size(dims - 1) },
            k: if is_zero(alpha) { 0 } else { a.size(dims - 1) },
            out: Matrix::new(out, form),
            addend: (!is_zero(beta)).then(|| Matrix::new(&first, form)),
            in_place: false,
            a: Matrix::new(&a, form),
            b: Matrix::new(&b, form),
            beta,
            alpha,
            negative: [negative(out) != negative(&first), negative(out) ^ negative(&a) ^ negative(&b)],
            conj: out.flags().has(Flags::CONJ) && out.dtype().is_complex(),
        };
        problem.in_place = problem.addend.is_some_and(|addend| addend.same_position(&problem.out));
        problem.conjugate();
        Ok(problem)
    }

    /// `out = addend + a @ b` for `batch` matrices: out and addend (m, n), a (m, k), b (k, n), of a dtype that is not complex.
    ///
    /// # Safety
    /// Until the product is computed, the operands must have elements of the dtype at all these positions, and `out` must share memory
    /// with no other operand.
    pub unsafe fn plain(dtype: DType, [batch, m, n, k]: [usize; 4], [out, a, b]: [Matrix; 3], addend: Option<Matrix>) -> Self {
        let (in_place, negative, conj) = (false, [false; 2], false);
        let (beta, alpha) = (Scalar::Long(addend.is_some().into()), Scalar::Long(1));
        Self { dtype, batch, m, n, k, out, addend, in_place, a, b, beta, alpha, negative, conj }
    }

    /// Removes the output's conjugation: everything else is conjugated instead.
    fn conjugate(&mut self) {
        if self.conj {
            self.a.conj = !self.a.conj;
            self.b.conj = !self.b.conj;
            if let Some(addend) = &mut self.addend {
                addend.conj = !addend.conj;
            }
        }
    }

    /// The scalars [beta, alpha].
    pub fn scalars<T: Number>(&self) -> [T; 2] {
        let value = |scalar: Scalar, negative: bool| {
            let value = if self.conj { scalar.to::<T>().conj() } else { scalar.to::<T>() };
            if negative { value.neg() } else { value }
        };
        [value(self.beta, self.negative[0]), value(self.alpha, self.negative[1])]
    }

    /// True if one side of the output is short, and the operand of the long side is contiguous.
    pub fn is_skinny(&self) -> bool {
        let size = self.dtype.size() as isize;
        let long = if self.n < self.m { self.a } else { self.b };
        self.m.min(self.n) <= SKINNY_ROWS && (long.row == size || long.col == size)
    }

    /// The same product with its output transposed: `bᵀ @ aᵀ`.
    pub fn transposed(self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            out: self.out.transposed(),
            addend: self.addend.map(Matrix::transposed),
            a: self.b.transposed(),
            b: self.a.transposed(),
            ..self
        }
    }

    /// Copies a tile's part of the addend, if there is one, to the output.
    pub fn place_addend(&self, tile: Tile) {
        let tile_of = |matrix: Matrix| matrix.at(tile.batch, tile.row, tile.col).strided();
        if let (Some(addend), false) = (self.addend, self.in_place) {
            // SAFETY: the launch guarantees both operands; the addend is not the output, and PyTorch refuses partial overlap.
            unsafe { strided::copy(tile_of(addend), tile_of(self.out), self.dtype.size(), tile.cols, tile.rows) };
        }
    }

    /// Nanoseconds of one thread.
    pub fn cost(&self) -> f64 {
        let outputs = self.batch * self.m * self.n;
        cost(self.dtype, outputs, self.k, self.batch * self.k * (self.m + self.n))
    }
}

fn is_zero(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Long(0) | Scalar::Bool(false))
        || matches!(scalar, Scalar::Double(value) if value == 0.0)
        || matches!(scalar, Scalar::Complex(re, im) if re == 0.0 && im == 0.0)
}

/// Nanoseconds of one thread for `outputs` sums of `depth` products, over operands of `inputs` elements.
pub fn cost(dtype: DType, outputs: usize, depth: usize, inputs: usize) -> f64 {
    #[cfg(target_arch = "x86_64")]
    let known = super::blocked::product_cost(dtype).or_else(|| library::product_cost(dtype));
    #[cfg(not(target_arch = "x86_64"))]
    let known = library::product_cost(dtype);
    let product = known.unwrap_or(match dtype {
        DType::Float => 0.018,
        DType::Double | DType::Half | DType::BFloat16 => 0.036,
        DType::ComplexFloat => 0.08,
        DType::ComplexDouble => 0.16,
        _ => 0.1,
    });
    100.0 + outputs as f64 * (depth as f64 * product + 0.2) + inputs as f64 * 0.1
}

/// The parameters that turn a sum into an element of the output.
#[derive(Clone, Copy)]
pub struct Finish<T: Element> {
    pub beta: T::Acc,
    pub alpha: T::Acc,
}

impl<T: Element> Finish<T> {
    /// Writes `beta * addend + alpha * sum`, rounded once.
    ///
    /// # Safety
    /// `out` must be writable, and `addend`, if any, readable.
    #[inline(always)]
    pub unsafe fn write(self, out: Matrix, addend: Option<Matrix>, sum: T::Acc) {
        let mut value = self.alpha.mul(sum);
        if let Some(addend) = addend {
            // SAFETY: the caller promises a readable element.
            let element = unsafe { addend.data.cast::<T>().read_unaligned() };
            value = value.add(self.beta.mul(element.load()));
        }
        // SAFETY: the caller promises a writable element.
        unsafe { out.data.cast::<T>().write_unaligned(T::store(value)) };
    }
}
