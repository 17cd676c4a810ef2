//! Conversions of floats to integers with the results of x86-64's instructions: truncated, and the least integer if out of range.
//!
//! Rust's own conversions saturate, and loops over them do not vectorise.

macro_rules! conversion {
    ($name:ident, $float:ty, $int:ty) => {
        /// The integral part, or the least integer if it is out of range.
        #[inline(always)]
        pub fn $name(value: $float) -> $int {
            const LEAST: $float = <$int>::MIN as $float;
            let fits = (LEAST..-LEAST).contains(&value);
            // SAFETY: the value is at least the least integer and below the first that is too great, so its integral part fits.
            unsafe { (if fits { value } else { LEAST }).to_int_unchecked() }
        }
    };
}

conversion!(f32_to_i32, f32, i32);
conversion!(f64_to_i32, f64, i32);
conversion!(f32_to_i64, f32, i64);
conversion!(f64_to_i64, f64, i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_the_least_integer() {
        let limit = 2_147_483_648f32;
        let values = [-1.9, 1.9, limit - 128.0, limit, -limit, -limit - 256.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let (least, narrow) = (i32::MIN, [-1, 1, 2_147_483_520]);
        let wide = [-1, 1, 2_147_483_520, 1 << 31, -1 << 31, -(1 << 31) - 256];
        assert_eq!(values.map(f32_to_i32)[..3], narrow);
        assert_eq!(values.map(f32_to_i32)[3..], [least; 6]);
        assert_eq!(values.map(f32_to_i64)[..6], wide);
        assert_eq!(values.map(f32_to_i64)[6..], [i64::MIN; 3]);
        let values = values.map(f64::from);
        assert_eq!((values.map(f64_to_i32)[..3].to_vec(), values.map(f64_to_i64)[..6].to_vec()), (narrow.to_vec(), wide.to_vec()));
        assert_eq!([f64_to_i32(2_147_483_647.9), f64_to_i32(2_147_483_648.0), f64_to_i32(f64::NAN)], [i32::MAX, least, least]);
        assert_eq!([f64_to_i64(9.3e18), f64_to_i64(-9.3e18), f64_to_i64(f64::NAN)], [i64::MIN; 3]);
    }
}
