//! Systems, factorisations, distances (`_cdist_forward`, `renorm`) and other operators of matrices or rows that are tasks of
//! PyTorch's kernels: margin losses, `_ctc_loss`, `segment_reduce`, `_weight_norm_interface`. Products are in
//! [`matmul`](super::matmul), norms in [`reductions`](super::reductions).

#![forbid(unsafe_code)]

pub(crate) mod operator;
