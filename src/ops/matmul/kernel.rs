//! Matrix products: `out = beta * self + alpha * (a @ b)`.
//!
//! [`run`] chooses one of six implementations:
//! - `blocked`: f32 and bf16 on AMD processors with AVX-512 and its products of bfloat16;
//! - [`narrow`]: many rows with few columns of few terms;
//! - [`library`]: PyTorch's libraries, where they were measured to be faster;
//! - [`skinny`]: few rows or few columns, and integers: every element of the large operand is read once, without packing;
//! - [`direct`]: f32, f64 and complex numbers by the `gemm` crate, over the operands' own strides;
//! - [`widened`]: f16 and bf16, widened to f32 block by block, rounded once at the end.
//!
//! [`packed`] is for callers that multiply by one matrix many times: recurrent layers. [`register_tile`] is for callers with both
//! operands in the caches: attention.
//!
//! The tiles of the output depend on the shape alone, and the summed dimension is never cut, so that results do not depend on the
//! number of threads.

#[cfg(target_arch = "x86_64")]
mod avx2_tile;
#[cfg(target_arch = "x86_64")]
mod avx512_dots;
#[cfg(target_arch = "x86_64")]
mod avx512_tile;
#[cfg(target_arch = "x86_64")]
mod blocked;
mod direct;
pub mod library;
mod narrow;
pub mod packed;
mod problem;
pub mod register_tile;
mod skinny;
mod tile;
mod widened;

use crate::tensor::{Complex32, Complex64, DType, Element, Error, Launch, dispatch, signature};
use problem::Form;

pub use problem::{Matrix, Problem};
pub use skinny::Entry;

signature! {
    /// `aten::mm`: out = a @ b. Operands [out (m, n), a (m, k), b (k, n)], of one dtype; their conjugate and negative flags are
    /// honoured, here and in the other products.
    mm(out; a, b)[] in FIELD | INTEGRAL => |launch| plain(launch, Form::Matrix);
    /// `aten::addmm`: out = beta * self + alpha * (a @ b). Operands [out (m, n), self (m, n), a (m, k), b (k, n)], scalars [beta,
    /// alpha]. If beta is 0 self is not read; if alpha is 0 neither a nor b is.
    addmm(out; addend, a, b)[beta, alpha] in FIELD | INTEGRAL => |launch| with_addend(launch, Form::Matrix);
    /// `aten::bmm`: [`mm`] for each index of a first dimension.
    bmm(out; a, b)[] in FIELD | INTEGRAL => |launch| plain(launch, Form::Batch);
    /// `aten::baddbmm`: [`addmm`] for each index of a first dimension.
    baddbmm(out; addend, a, b)[beta, alpha] in FIELD | INTEGRAL => |launch| with_addend(launch, Form::Batch);
    /// `aten::addmv`: out = beta * self + alpha * (a @ b). Operands [out (m), self (m), a (m, k), b (k)], scalars as [`addmm`].
    addmv(out; addend, a, b)[beta, alpha] in FIELD | INTEGRAL => |launch| with_addend(launch, Form::Vector);
}

fn plain(launch: &Launch<'_>, form: Form) -> Result<(), Error> {
    let mm::Operands { out, a, b } = mm::Operands::of(launch)?;
    run(&Problem::new(form, &out, None, [a, b])?)
}

fn with_addend(launch: &Launch<'_>, form: Form) -> Result<(), Error> {
    let (addmm::Operands { out, addend, a, b }, scalars) = (addmm::Operands::of(launch)?, addmm::Scalars::of(launch)?);
    run(&Problem::new(form, &out, Some((addend, scalars.list())), [a, b])?)
}

/// `out = a @ b` of contiguous rows, with out (m, n), a (m, k), b (k, n). Panics if a slice has another length.
pub fn multiply<T: Element>([m, n, k]: [usize; 3], out: &mut [T], a: &[T], b: &[T]) -> Result<(), Error> {
    assert_eq!([out.len(), a.len(), b.len()], [m * n, m * k, k * n], "matrices of other sizes");
    let read = |matrix: &[T], cols: usize| Matrix::contiguous(matrix.as_ptr().cast_mut(), cols);
    let operands = [Matrix::contiguous(out.as_mut_ptr(), n), read(a, k), read(b, n)];
    // SAFETY: the assertion has checked the lengths; the slices are borrowed during the product, `out` exclusively.
    run(&unsafe { Problem::plain(T::DTYPE, [1, m, n, k], operands, None) })
}

/// Nanoseconds of one thread for a product.
pub fn cost(launch: &Launch<'_>) -> u64 {
    let [a, b] = [2, 1].map(|from_end| launch.num_operands() - from_end);
    let depth = launch.sizes(a).last().map_or(1, |&size| size as usize);
    problem::cost(launch.dtype(0), launch.numel(0), depth, launch.numel(a) + launch.numel(b)) as u64
}

/// Computes a product. Fails if its dtype has none.
pub fn run(problem: &Problem) -> Result<(), Error> {
    if problem.batch * problem.m * problem.n == 0 {
        return Ok(());
    }
    let dtype = problem.dtype;
    // Transposed if necessary, so that there are at least as many rows as columns.
    let upright = if problem.n > problem.m { problem.transposed() } else { *problem };
    #[cfg(target_arch = "x86_64")]
    if blocked::takes(problem) && (!narrow::takes(&upright) || blocked::beats_narrow(&upright)) {
        return run_blocked(problem);
    }
    if narrow::takes(&upright) {
        return dispatch!(dtype in FLOATING | WRAPPING, T => { narrow::run::<T>(&upright); Ok(()) });
    }
    if library::takes(problem) {
        return library::run(problem);
    }
    match dtype {
        _ if problem.is_skinny() && !problem.dtype.is_complex() => {
            return dispatch!(dtype in FLOATING | WRAPPING, T => { skinny::run::<T>(problem); Ok(()) });
        }
        DType::Float => direct::run::<f32>(problem),
        DType::Double => direct::run::<f64>(problem),
        DType::ComplexFloat => direct::run::<Complex32>(problem),
        DType::ComplexDouble => direct::run::<Complex64>(problem),
        DType::Half => widened::run::<half::f16>(problem),
        DType::BFloat16 => widened::run::<half::bf16>(problem),
        _ => return dispatch!(dtype in WRAPPING, T => { skinny::run::<T>(problem); Ok(()) }),
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn run_blocked(problem: &Problem) -> Result<(), Error> {
    match problem.dtype {
        DType::Float => blocked::run::<f32>(problem),
        DType::BFloat16 => blocked::run::<half::bf16>(problem),
        other => return Err(Error::new(format!("blocked products do not take {other:?}"))),
    }
    Ok(())
}
