//! Kernels that order elements: sorting, selection, search, and what is made of sorted elements.

mod key;
mod radix;
pub mod search;
pub mod select;
pub mod sort;
pub mod unique;

#[cfg(test)]
mod tests;
