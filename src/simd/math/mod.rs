//! Elementary functions without branches, so that loops over them vectorise.
//!
//! One module per type, with the same names. Accuracy is stated with each function, as the greatest error found against a wider
//! computation, in units in the last place (ulp). NaN gives NaN, infinities and subnormal values give what IEEE 754 says.

pub mod f32;
pub mod f64;
