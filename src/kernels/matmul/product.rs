//! One product of matrices of one type, by the method that suits its shape.

use super::skinny;
use crate::simd::{Isa, Leaf, isa, vectorize};
use crate::tensor::dtype::{Complex32, Complex64, Element};
use crate::tensor::number::Number;

/// A matrix: its first element and the steps (elements) to the next row and column.
#[derive(Clone, Copy, Debug)]
pub struct Operand<T> {
    pub data: *mut T,
    pub row: isize,
    pub col: isize,
}

impl<T> Operand<T> {
    /// The same matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self { data: self.data, row: self.col, col: self.row }
    }
}

/// A type that matrices are multiplied in.
pub trait Multiply: Number + Element<Acc = Self> {
    /// Whether operands are multiplied where they are, whatever their strides; else they are packed first.
    const IN_PLACE: bool;

    /// out = scale * out (nothing for `None`) + factor * lhs @ rhs.
    ///
    /// # Safety
    /// The operands have m × n, m × k and k × n elements, and out overlaps neither of the others.
    #[expect(clippy::too_many_arguments, reason = "a product has three sizes, three operands and two factors")]
    unsafe fn multiply(
        m: usize,
        n: usize,
        k: usize,
        out: Operand<Self>,
        scale: Option<Self>,
        lhs: Operand<Self>,
        rhs: Operand<Self>,
        factor: Self,
    );
}

/// out = scale * out (nothing for `None`) + factor * lhs @ rhs; for k = 0 the product is 0.
///
/// # Safety
/// The operands have m × n, m × k and k × n elements, and out overlaps neither of the others.
#[expect(clippy::too_many_arguments, reason = "a product has three sizes, three operands and two factors")]
pub unsafe fn product<T: Multiply>(
    m: usize,
    n: usize,
    k: usize,
    out: Operand<T>,
    scale: Option<T>,
    lhs: Operand<T>,
    rhs: Operand<T>,
    factor: T,
) {
    if k > 0 {
        // SAFETY: passed on.
        unsafe { T::multiply(m, n, k, out, scale, lhs, rhs, factor) };
        return;
    }
    for row in 0..m as isize {
        for col in 0..n as isize {
            let element = out.data.wrapping_offset(row * out.row + col * out.col);
            // SAFETY: the caller promises m × n elements.
            let value = scale.map_or(T::ZERO, |scale| scale.mul(unsafe { element.read_unaligned() }));
            // SAFETY: as above.
            unsafe { element.write_unaligned(value) };
        }
    }
}

/// The product by the `gemm` crate, on this thread.
macro_rules! by_gemm {
    ($type:ty) => {
        /// # Safety
        /// As [`Multiply::multiply`].
        #[expect(clippy::too_many_arguments, reason = "as `Multiply::multiply`")]
        unsafe fn gemm(
            m: usize,
            n: usize,
            k: usize,
            out: Operand<$type>,
            scale: Option<$type>,
            lhs: Operand<$type>,
            rhs: Operand<$type>,
            factor: $type,
        ) {
            let (read, scale) = (scale.is_some(), scale.unwrap_or(<$type>::ZERO));
            // SAFETY: the caller promises the operands.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    out.data,
                    out.col,
                    out.row,
                    read,
                    lhs.data,
                    lhs.col,
                    lhs.row,
                    rhs.data,
                    rhs.col,
                    rhs.row,
                    scale,
                    factor,
                    false,
                    false,
                    false,
                    gemm::Parallelism::None,
                )
            };
        }
    };
}

macro_rules! real {
    ($($type:ty)*) => {$(
        impl Multiply for $type {
            const IN_PLACE: bool = true;

            unsafe fn multiply(
                m: usize,
                n: usize,
                k: usize,
                out: Operand<Self>,
                scale: Option<Self>,
                lhs: Operand<Self>,
                rhs: Operand<Self>,
                factor: Self,
            ) {
                by_gemm!($type);
                // Few columns are few rows of the transposed product.
                let turn = n < m;
                let (rows, cols, target) = if turn { (n, m, out.transposed()) } else { (m, n, out) };
                let (thin, wide) = if turn { (rhs.transposed(), lhs.transposed()) } else { (lhs, rhs) };
                let suits = skinny::suits(rows, cols, k, wide) && isa() != Isa::Portable;
                if suits {
                    // SAFETY: the caller promises the operands.
                    unsafe { skinny::multiply(rows, cols, k, target, scale, thin, wide, factor) };
                } else {
                    // SAFETY: the caller promises the operands.
                    unsafe { gemm(m, n, k, out, scale, lhs, rhs, factor) };
                }
            }
        }
    )*};
}

real!(f32 f64);

macro_rules! complex {
    ($($type:ty)*) => {$(
        impl Multiply for $type {
            const IN_PLACE: bool = true;

            unsafe fn multiply(
                m: usize,
                n: usize,
                k: usize,
                out: Operand<Self>,
                scale: Option<Self>,
                lhs: Operand<Self>,
                rhs: Operand<Self>,
                factor: Self,
            ) {
                by_gemm!($type);
                // SAFETY: the caller promises the operands.
                unsafe { gemm(m, n, k, out, scale, lhs, rhs, factor) };
            }
        }
    )*};
}

complex!(Complex32 Complex64);

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Multiply for $type {
            const IN_PLACE: bool = false;

            unsafe fn multiply(
                m: usize,
                n: usize,
                k: usize,
                out: Operand<Self>,
                scale: Option<Self>,
                lhs: Operand<Self>,
                rhs: Operand<Self>,
                factor: Self,
            ) {
                vectorize(Blocked { sizes: [m, n, k], out, scale, lhs, rhs, factor });
            }
        }
    )*};
}

integer!(u8 i8 i16 i32 i64);

/// A product with wrapping arithmetic: rows of the output in strips, each advanced by one row of rhs at a time.
struct Blocked<T> {
    sizes: [usize; 3],
    out: Operand<T>,
    scale: Option<T>,
    lhs: Operand<T>,
    rhs: Operand<T>,
    factor: T,
}

/// Columns of a strip.
const STRIP: usize = 64;

impl<T: Multiply> Leaf for Blocked<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let [m, n, k] = self.sizes;
        let (out, lhs, rhs) = (self.out, self.lhs, self.rhs);
        for start in (0..n).step_by(STRIP) {
            let width = STRIP.min(n - start);
            for row in 0..m as isize {
                let mut sums = [T::ZERO; STRIP];
                for depth in 0..k as isize {
                    // SAFETY: `multiply`'s caller promises m × k elements.
                    let left = unsafe { lhs.data.wrapping_offset(row * lhs.row + depth * lhs.col).read() };
                    let line = rhs.data.wrapping_offset(depth * rhs.row + start as isize * rhs.col);
                    for (col, sum) in sums.iter_mut().enumerate().take(width) {
                        // SAFETY: as above, k × n elements.
                        let right = unsafe { line.wrapping_offset(col as isize * rhs.col).read() };
                        *sum = sum.add(left.mul(right));
                    }
                }
                for (col, sum) in sums.iter().enumerate().take(width) {
                    let target = out.data.wrapping_offset(row * out.row + (start + col) as isize * out.col);
                    // SAFETY: as above, m × n elements.
                    let before = self.scale.map_or(T::ZERO, |scale| scale.mul(unsafe { target.read() }));
                    // SAFETY: as above.
                    unsafe { target.write(before.add(self.factor.mul(*sum))) };
                }
            }
        }
    }
}
