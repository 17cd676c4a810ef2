//! `_weight_int8pack_mm`, `_weight_int4pack_mm_for_cpu`, `_convert_weight_to_int4pack_for_cpu`, `_int_mm`.

pub mod kernel;
#[forbid(unsafe_code)]
pub(crate) mod operator;
#[cfg(test)]
mod tests;
