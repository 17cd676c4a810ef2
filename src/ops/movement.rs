//! Operators that move elements: `cat`, `flip`, `roll`, `tril`, `triu`, `channel_shuffle`, paddings; `im2col`, `col2im` and
//! `unfold_backward` (`operator/unfold.rs`).

#![forbid(unsafe_code)]

pub mod kernel {
    pub mod cat_flip_roll;
    pub mod pad;
    pub mod triangle;
    pub mod unfold;
}
pub(crate) mod operator;
