//! The operators that PyTorch's CPU kernels compute as tasks of the stream (tier `aten`). Variants with `out=` stay with the
//! fallback.
//!
//! Operators that report to the caller whether they converged stay with the fallback, too: eigenvalues, singular values, least
//! squares, `cholesky_inverse`.

use std::ffi::CStr;

use crate::call::operator::{Batch, Kernel, Operator, Task, plain, structured};
use crate::call::tasks::{OF_META, OF_META_UNCHECKED, like};
use crate::call::typed;
use crate::ops::fourier::operator as fourier;
use crate::ops::linalg::operator as linalg;
use crate::ops::pooling::operator::aten as pooling;
use crate::tensor::{BYTE, DType, DTypeSet, FIELD, FLOATING, INTEGRAL, LONG, REAL, WIDE, WIDE_COMPLEX};

/// The dtypes of LAPACK.
const LAPACK: DTypeSet = WIDE.and(WIDE_COMPLEX);
const PIXELS: DTypeSet = FLOATING.and(BYTE);
const WIDE_PIXELS: DTypeSet = WIDE.and(BYTE);
const NORMED: DTypeSet = WIDE.and(DTypeSet::of(&[DType::BFloat16]));

/// The overload that a task runs, if it is not the functional one.
macro_rules! out {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

/// One line per operator: the functional overload, the overload that the task runs if it is another one, the dtypes of the
/// first operand, the kind of batch, the function of a call, and the fields of [`Task`] that are true.
macro_rules! tasks {
    ($($name:literal $(=> $out:literal)?: $dtypes:expr, $batch:ident, $prepare:expr $(, $fact:ident)*;)*) => {
        /// The operators of the table.
        pub static TASKS: [Operator; [$($name),*].len()] = [$(Operator {
            names: &[$name],
            kernel: Kernel::Task(Task { $($fact: true,)* ..task(out!($($out)?), $dtypes, Batch::$batch) }),
            prepare: $prepare,
        }),*];
    };
}

const fn task(out: Option<&'static CStr>, dtypes: DTypeSet, batch: Batch) -> Task {
    Task { out, dtypes, batch, widens: false, guarded: false }
}

tasks! {
    // pooling
    c"avg_pool2d" => c"avg_pool2d.out": FLOATING.and(LONG), Images, OF_META;
    c"avg_pool2d_backward" => c"avg_pool2d_backward.grad_input": WIDE, Images, OF_META, widens;
    c"avg_pool3d" => c"avg_pool3d.out": WIDE.and(LONG), Images, OF_META, widens;
    c"avg_pool3d_backward" => c"avg_pool3d_backward.grad_input": WIDE, Images, OF_META, widens;
    c"_adaptive_avg_pool2d" => c"adaptive_avg_pool2d.out": FLOATING, Images, plain(pooling::adaptive_average::<2>);
    c"_adaptive_avg_pool3d" => c"adaptive_avg_pool3d.out": WIDE, Images, plain(pooling::adaptive_average::<3>), widens;
    c"_adaptive_avg_pool2d_backward": WIDE, Images, plain(pooling::adaptive_average_backward::<2>), widens;
    c"_adaptive_avg_pool3d_backward" => c"adaptive_avg_pool3d_backward.grad_input": WIDE, Images, plain(pooling::adaptive_average_backward::<3>), widens;
    c"adaptive_max_pool2d" => c"adaptive_max_pool2d.out": FLOATING, Images, OF_META;
    c"adaptive_max_pool2d_backward" => c"adaptive_max_pool2d_backward.grad_input": WIDE, Images, OF_META, guarded, widens;
    c"adaptive_max_pool3d" => c"adaptive_max_pool3d.out": NORMED, Images, OF_META, widens;
    c"adaptive_max_pool3d_backward" => c"adaptive_max_pool3d_backward.grad_input": WIDE, Images, OF_META, guarded, widens;
    c"fractional_max_pool2d" => c"fractional_max_pool2d.output": FLOATING, Images, OF_META;
    c"fractional_max_pool2d_backward" => c"fractional_max_pool2d_backward.grad_input": WIDE, Images, OF_META, guarded, widens;
    c"fractional_max_pool3d" => c"fractional_max_pool3d.output": FLOATING, Images, OF_META;
    c"fractional_max_pool3d_backward" => c"fractional_max_pool3d_backward.grad_input": WIDE, Images, plain(like::<1>), guarded, widens;
    c"max_pool3d_with_indices" => c"max_pool3d_with_indices.out": REAL, Images, plain(pooling::max_pool3d);
    c"max_pool3d_with_indices_backward" => c"max_pool3d_with_indices_backward.grad_input":
        WIDE, Images, plain(pooling::max_pool3d_backward), guarded, widens;
    c"max_unpool2d" => c"max_unpool2d.out": FLOATING, Images, plain(pooling::max_unpool::<2>);
    c"max_unpool3d" => c"max_unpool3d.out": FLOATING, Images, plain(pooling::max_unpool::<3>);
    // resampling
    c"upsample_nearest1d" => c"upsample_nearest1d.out": PIXELS, Images, OF_META;
    c"upsample_nearest1d_backward" => c"upsample_nearest1d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_nearest2d" => c"upsample_nearest2d.out": PIXELS, Images, OF_META;
    c"upsample_nearest2d_backward" => c"upsample_nearest2d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_nearest3d" => c"upsample_nearest3d.out": PIXELS, Images, OF_META;
    c"upsample_nearest3d_backward" => c"upsample_nearest3d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_nearest_exact1d" => c"_upsample_nearest_exact1d.out": PIXELS, Images, OF_META;
    c"_upsample_nearest_exact1d_backward" => c"_upsample_nearest_exact1d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_nearest_exact2d" => c"_upsample_nearest_exact2d.out": PIXELS, Images, OF_META;
    c"_upsample_nearest_exact2d_backward" => c"_upsample_nearest_exact2d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_nearest_exact3d" => c"_upsample_nearest_exact3d.out": PIXELS, Images, OF_META;
    c"_upsample_nearest_exact3d_backward" => c"_upsample_nearest_exact3d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_bilinear2d" => c"upsample_bilinear2d.out": PIXELS, Images, OF_META;
    c"upsample_bilinear2d_backward" => c"upsample_bilinear2d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_bicubic2d" => c"upsample_bicubic2d.out": PIXELS, Images, OF_META;
    c"upsample_bicubic2d_backward" => c"upsample_bicubic2d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_linear1d" => c"upsample_linear1d.out": WIDE, Images, OF_META, widens;
    c"upsample_linear1d_backward" => c"upsample_linear1d_backward.grad_input": FLOATING, Images, OF_META;
    c"upsample_trilinear3d" => c"upsample_trilinear3d.out": FLOATING, Images, OF_META;
    c"upsample_trilinear3d_backward" => c"upsample_trilinear3d_backward.grad_input": FLOATING, Images, OF_META;
    c"_upsample_bilinear2d_aa" => c"_upsample_bilinear2d_aa.out": WIDE_PIXELS, Images, OF_META, widens;
    c"_upsample_bilinear2d_aa_backward" => c"_upsample_bilinear2d_aa_backward.grad_input": WIDE, Images, OF_META, widens;
    c"_upsample_bicubic2d_aa" => c"_upsample_bicubic2d_aa.out": WIDE_PIXELS, Images, OF_META, widens;
    c"_upsample_bicubic2d_aa_backward" => c"_upsample_bicubic2d_aa_backward.grad_input": WIDE, Images, OF_META, widens;
    c"grid_sampler_2d" => c"grid_sampler_2d.out": WIDE, Images, plain(pooling::grid_sampler::<2>), widens;
    c"grid_sampler_3d" => c"grid_sampler_3d.out": WIDE, Images, plain(pooling::grid_sampler::<3>), widens;
    c"grid_sampler_2d_backward": WIDE, Images, plain(pooling::grid_sampler_backward), guarded, widens;
    c"grid_sampler_3d_backward": WIDE, Images, plain(pooling::grid_sampler_backward), guarded, widens;
    // matrices
    c"linalg_inv_ex" => c"linalg_inv_ex.inverse": LAPACK, Matrices, OF_META_UNCHECKED;
    c"linalg_cholesky_ex" => c"linalg_cholesky_ex.L": LAPACK, Matrices, OF_META_UNCHECKED;
    c"linalg_lu_factor_ex" => c"linalg_lu_factor_ex.out": LAPACK, Matrices, OF_META_UNCHECKED;
    c"linalg_lu" => c"linalg_lu.out": LAPACK, Matrices, OF_META;
    // Real only: for complex numbers the result may have its conjugate bit set.
    c"linalg_lu_solve" => c"linalg_lu_solve.out": WIDE, Matrices, OF_META;
    c"linalg_qr" => c"linalg_qr.out": LAPACK, Matrices, OF_META;
    c"linalg_ldl_factor_ex" => c"linalg_ldl_factor_ex.out": LAPACK, Matrices, OF_META_UNCHECKED;
    c"_linalg_det" => c"_linalg_det.result": LAPACK, Matrices, OF_META;
    c"_linalg_slogdet" => c"_linalg_slogdet.sign": LAPACK, Matrices, OF_META;
    c"_linalg_solve_ex" => c"_linalg_solve_ex.result": LAPACK, Matrices, OF_META_UNCHECKED;
    c"triangular_solve" => c"triangular_solve.X": LAPACK, Matrices, OF_META;
    c"lu_unpack" => c"lu_unpack.out": LAPACK, Matrices, OF_META;
    c"linalg_ldl_solve" => c"linalg_ldl_solve.out": LAPACK, Matrices, OF_META, guarded;
    c"linalg_solve_triangular" => c"linalg_solve_triangular.out": LAPACK, Matrices, plain(linalg::solve_triangular);
    c"linalg_householder_product" => c"linalg_householder_product.out": LAPACK, Matrices, plain(linalg::householder_product);
    c"ormqr" => c"ormqr.out": LAPACK, Matrices, plain(linalg::ormqr);
    c"_cholesky_solve_helper": LAPACK, Matrices, plain(linalg::cholesky_solve);
    c"linalg_matrix_exp": LAPACK, Matrices, plain(linalg::matrix_exponential), widens;
    c"linalg_cross" => c"linalg_cross.out": LAPACK.and(INTEGRAL), None, OF_META, widens;
    c"addbmm": LAPACK.and(INTEGRAL), None, plain(linalg::sum_of_products), widens;
    // distances
    c"renorm" => c"renorm.out": FIELD, None, structured(linalg::renorm);
    c"_cdist_forward": WIDE, Matrices, plain(linalg::of_rows);
    c"_cdist_backward": WIDE, None, plain(linalg::of_rows_backward);
    c"_pdist_forward": WIDE, None, plain(linalg::of_pairs);
    c"_pdist_backward": WIDE, None, plain(like::<1>);
    // Fourier transforms
    c"_fft_c2c" => c"_fft_c2c.out": WIDE_COMPLEX, None, plain(typed!(fourier::complex_to_complex));
    c"_fft_r2c" => c"_fft_r2c.out": WIDE, None, plain(typed!(fourier::real_to_complex));
    c"_fft_c2r" => c"_fft_c2r.out": WIDE_COMPLEX, None, plain(typed!(fourier::complex_to_real));
    // losses
    c"multi_margin_loss" => c"multi_margin_loss.out": WIDE, None, plain(linalg::multi_margin), widens;
    c"multi_margin_loss_backward" => c"multi_margin_loss_backward.grad_input": WIDE, None, plain(like::<1>), widens;
    c"multilabel_margin_loss_forward" => c"multilabel_margin_loss_forward.output": WIDE, None, plain(linalg::multilabel_margin), widens;
    c"multilabel_margin_loss_backward" => c"multilabel_margin_loss_backward.grad_input": WIDE, None, plain(like::<1>), widens;
    // sequences
    c"_ctc_loss": WIDE, None, plain(linalg::ctc_loss), guarded;
    c"_ctc_loss_backward": WIDE, None, plain(like::<1>), guarded;
    c"segment_reduce": WIDE, None, plain(linalg::segment_reduce), guarded, widens;
    c"_segment_reduce_backward": FLOATING, None, plain(like::<2>), guarded;
    // normalisation of weights
    c"_weight_norm_interface": NORMED, None, plain(linalg::weight_norm), widens;
    c"_weight_norm_interface_backward": NORMED, None, plain(linalg::weight_norm_backward), widens;
}
