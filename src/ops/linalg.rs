//! Systems, factorisations, distances and other operators of matrices or rows that are tasks of PyTorch's kernels. Products are in
//! [`matmul`](super::matmul), norms in [`reductions`](super::reductions).

#[forbid(unsafe_code)]
pub(crate) mod operator;
