//! Kernels and the operator table.
