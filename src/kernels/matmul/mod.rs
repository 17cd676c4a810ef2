//! Matrix products: `mm`, `addmm`, `bmm`, `baddbmm`.
//!
//! A product is cut into tiles of the output by sizes alone ([`tile`]), so the bits do not depend on threads. Tiles of `f32`, `f64` and
//! complex operands are multiplied where they are, whatever their strides; other dtypes (16 and 8 bit floats, integers) are packed to the
//! type they are computed in, panel by panel, and rounded once. [`product`] chooses the method for one tile: the `gemm` crate, or own loops
//! for thin shapes ([`skinny`]) and integers.

mod product;
mod skinny;
mod tile;

use crate::tensor::dtype::{DType, DTypeSet, Element, FIELD, FLOAT8, INTEGRAL, dispatch};
use crate::tensor::launch::{Launch, Scalar};
use crate::tensor::number::Number;
use crate::tensor::view::View;

/// The dtypes that matrices are multiplied in.
pub const DTYPES: DTypeSet = FIELD.and(INTEGRAL).and(FLOAT8);

/// A batch of matrices: the first element of the first one and the steps (bytes) to the next row, column and matrix.
#[derive(Clone, Copy, Debug)]
struct Matrices {
    address: usize,
    dtype: DType,
    row: isize,
    col: isize,
    batch: isize,
}

impl Matrices {
    fn new(view: &View<'_>) -> Self {
        let dims = view.ndim();
        let batch = if dims == 3 { view.stride(0) } else { 0 };
        Self { address: view.data() as usize, dtype: view.dtype(), row: view.stride(dims - 2), col: view.stride(dims - 1), batch }
    }

    /// The element at a place.
    fn at(&self, batch: usize, row: usize, col: usize) -> *mut u8 {
        let offset = batch as isize * self.batch + row as isize * self.row + col as isize * self.col;
        self.address.wrapping_add_signed(offset) as *mut u8
    }
}

/// out = beta * addend + alpha * lhs @ rhs, for every matrix of a batch.
#[derive(Clone, Copy, Debug)]
struct Problem {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    out: Matrices,
    /// None where beta is 0.
    addend: Option<Matrices>,
    lhs: Matrices,
    rhs: Matrices,
    beta: Scalar,
    alpha: Scalar,
    compute: DType,
}

impl Problem {
    fn new(launch: &Launch<'_>, ndim: usize, has_addend: bool) -> Result<Self, String> {
        let expected = if has_addend { 4 } else { 3 };
        if launch.num_operands() != expected {
            return Err(format!("{} operands where {expected} are needed", launch.num_operands()));
        }
        let views: Vec<View<'_>> = (0..expected).map(|index| launch.view(index)).collect();
        let (out, lhs, rhs) = (&views[0], &views[expected - 2], &views[expected - 1]);
        if let Some(view) = views.iter().find(|view| view.ndim() != ndim) {
            return Err(format!("a matrix operand has sizes {:?}; {ndim} dimensions are needed", view.sizes()));
        }
        let [(m, k), (inner, n)] = [lhs, rhs].map(|view| (view.size(ndim - 2), view.size(ndim - 1)));
        let batch = if ndim == 3 { lhs.size(0) } else { 1 };
        let fits = |view: &View<'_>, rows, cols| {
            view.size(ndim - 2) == rows && view.size(ndim - 1) == cols && (ndim == 2 || view.size(0) == batch)
        };
        let addend = has_addend.then(|| &views[1]);
        if inner != k || !fits(out, m, n) || !fits(rhs, k, n) || !addend.is_none_or(|view| fits(view, m, n)) {
            let sizes: Vec<_> = views.iter().map(View::sizes).collect();
            return Err(format!("matrices of sizes {sizes:?} do not fit"));
        }
        let scalar = |index| if has_addend { launch.scalar_or(index, Scalar::Long(1)) } else { Scalar::Long(1) };
        let beta = scalar(0);
        let is_zero = beta.to::<num_complex::Complex<f64>>() == num_complex::Complex::ZERO;
        Ok(Self {
            batch,
            m,
            n,
            k,
            out: Matrices::new(out),
            addend: addend.filter(|_| !is_zero).map(Matrices::new),
            lhs: Matrices::new(lhs),
            rhs: Matrices::new(rhs),
            beta,
            alpha: scalar(1),
            compute: launch.compute(),
        })
    }

    fn run(&self) -> Result<(), String> {
        if self.batch == 0 || self.m == 0 || self.n == 0 {
            return Ok(());
        }
        let dtype = self.compute;
        dispatch!(dtype in FLOATING | WIDE_COMPLEX | INTEGRAL | FLOAT8, T => {
            tile::run::<T>(self);
            Ok(())
        })
    }
}

/// Nanoseconds of one thread: two operations per inner product step, at some 50 billion a second, and the operands once.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let (out, rhs) = (launch.view(0), launch.view(launch.num_operands() - 1));
    let depth = if rhs.ndim() < 2 { 0 } else { rhs.size(rhs.ndim() - 2) };
    (out.numel() as f64 * (0.5 + 0.04 * depth as f64) + rhs.numel() as f64 * 0.1) as u64
}

/// `aten::mm`: lhs @ rhs. Operands [out (m, n), lhs (m, k), rhs (k, n)].
///
/// # Errors
/// Sizes that do not fit, or a dtype outside the table's.
pub fn mm(launch: &Launch<'_>) -> Result<(), String> {
    Problem::new(launch, 2, false)?.run()
}

/// `aten::addmm`: beta * self + alpha * lhs @ rhs; with beta 0, self is not read. Operands [out (m, n), self (m, n), lhs (m, k),
/// rhs (k, n)], self with stride 0 where it is broadcast; scalars [beta = 1, alpha = 1].
///
/// # Errors
/// Sizes that do not fit, or a dtype outside the table's.
pub fn addmm(launch: &Launch<'_>) -> Result<(), String> {
    Problem::new(launch, 2, true)?.run()
}

/// `aten::bmm`: a batch of [`mm`]. Operands [out (b, m, n), lhs (b, m, k), rhs (b, k, n)].
///
/// # Errors
/// Sizes that do not fit, or a dtype outside the table's.
pub fn bmm(launch: &Launch<'_>) -> Result<(), String> {
    Problem::new(launch, 3, false)?.run()
}

/// `aten::baddbmm`: a batch of [`addmm`]. Operands [out (b, m, n), self (b, m, n), lhs (b, m, k), rhs (b, k, n)]; scalars [beta = 1,
/// alpha = 1].
///
/// # Errors
/// Sizes that do not fit, or a dtype outside the table's.
pub fn baddbmm(launch: &Launch<'_>) -> Result<(), String> {
    Problem::new(launch, 3, true)?.run()
}

#[cfg(test)]
mod tests;
