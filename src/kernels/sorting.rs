//! Kernels that order elements: sorting, selection (`topk`, `kthvalue`), `searchsorted` and `unique`.

mod key;
mod radix;
pub mod searchsorted;
pub mod sort;
pub mod topk;
pub mod unique;

#[cfg(test)]
mod sorting_tests;
