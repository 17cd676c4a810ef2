//! The tile of [`super::register_tile`] with AVX2. The code uses intrinsics because the compiler makes vectors across rows and
//! columns of the loops for 16 registers, which takes three times as long.

use std::any::TypeId;
use std::arch::x86_64::{
    _mm256_broadcast_sd, _mm256_broadcast_ss, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_ps,
    _mm256_setzero_pd, _mm256_setzero_ps, _mm256_storeu_pd, _mm256_storeu_ps,
};

use crate::simd::{self, Isa};

/// Computes a tile as [`super::register_tile::tile`] describes and returns true, if the processor's best instructions are AVX2 and
/// there is a tile for `T` and `W`.
///
/// # Safety
/// The promises are those of [`super::register_tile::tile`].
#[inline(always)]
pub unsafe fn tile<T: 'static, const R: usize, const W: usize>(
    (a, a_steps): (*const T, [usize; 2]),
    (b, b_rows): (*const T, usize),
    k: usize,
    (out, out_rows): (*mut T, usize),
    adds: bool,
) -> bool {
    if simd::isa() != Isa::Avx2 {
        return false;
    }
    if TypeId::of::<T>() == TypeId::of::<f32>() && W == 16 {
        // SAFETY: the caller's promise; the processor has the instructions, and `T` is f32.
        unsafe { of_f32::<R, 2>((a.cast(), a_steps), (b.cast(), b_rows), k, (out.cast(), out_rows), adds) };
        return true;
    }
    if TypeId::of::<T>() == TypeId::of::<f64>() && W == 8 {
        // SAFETY: as above, with f64.
        unsafe { of_f64::<R, 2>((a.cast(), a_steps), (b.cast(), b_rows), k, (out.cast(), out_rows), adds) };
        return true;
    }
    false
}

macro_rules! tiles {
    ($name:ident, $type:ty, $lanes:literal, $zero:ident, $load:ident, $broadcast:ident, $fuse:ident, $store:ident) => {
        /// A tile of `V` registers of columns.
        ///
        /// # Safety
        /// The promises are those of [`tile`], and the processor must have AVX2.
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        #[allow(clippy::needless_range_loop, reason = "the rows and registers of all arrays are numbered alike")]
        unsafe fn $name<const R: usize, const V: usize>(
            (a, [a_rows, a_cols]): (*const $type, [usize; 2]),
            (b, b_rows): (*const $type, usize),
            k: usize,
            (out, out_rows): (*mut $type, usize),
            adds: bool,
        ) {
            let mut sums = [[$zero(); V]; R];
            if adds {
                for row in 0..R {
                    for register in 0..V {
                        // SAFETY: R x V registers of out, as the caller promises.
                        sums[row][register] = unsafe { $load(out.wrapping_add(row * out_rows + register * $lanes)) };
                    }
                }
            }
            for index in 0..k {
                let mut terms = [$zero(); V];
                for register in 0..V {
                    // SAFETY: k x V registers of b, as the caller promises.
                    terms[register] = unsafe { $load(b.wrapping_add(index * b_rows + register * $lanes)) };
                }
                for row in 0..R {
                    // SAFETY: R x k elements of a, as the caller promises.
                    let factor = $broadcast(unsafe { &*a.wrapping_add(row * a_rows + index * a_cols) });
                    for register in 0..V {
                        sums[row][register] = $fuse(terms[register], factor, sums[row][register]);
                    }
                }
            }
            for row in 0..R {
                for register in 0..V {
                    // SAFETY: R x V registers of out, as the caller promises.
                    unsafe { $store(out.wrapping_add(row * out_rows + register * $lanes), sums[row][register]) };
                }
            }
        }
    };
}

tiles!(of_f32, f32, 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_storeu_ps);
tiles!(of_f64, f64, 4, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_broadcast_sd, _mm256_fmadd_pd, _mm256_storeu_pd);
