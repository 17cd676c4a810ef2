//! Operators that order elements: `sort`, `topk`, `kthvalue`, `median`, `mode`, `searchsorted`, `isin`; `unique` and its variants
//! (`operator/unique.rs`).

pub mod kernel {
    mod key;
    mod radix;
    pub mod searchsorted;
    pub mod sort;
    pub mod topk;
    pub mod unique;
}
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
