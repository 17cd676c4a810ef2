//! Numbers and dtypes in messages, spelled as in C++.

use std::fmt;

use crate::tensor::dtype::DType;

/// A number with six digits, formatted like C's `%g`.
pub struct NumberText(pub f64);

const DIGITS: i32 = 6;

fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

impl fmt::Display for NumberText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if value.is_nan() {
            return f.write_str(if value.is_sign_negative() { "-nan" } else { "nan" });
        }
        if value.is_infinite() {
            return f.write_str(if value < 0.0 { "-inf" } else { "inf" });
        }
        let rounded = format!("{value:.*e}", DIGITS as usize - 1);
        let Some((mantissa, exponent)) = rounded.split_once('e') else { return f.write_str(&rounded) };
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..DIGITS).contains(&exponent) {
            let fixed = format!("{value:.*}", (DIGITS - 1 - exponent) as usize);
            return f.write_str(without_zeros(&fixed));
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
    }
}

/// The C++ name of a dtype, as in PyTorch's messages.
pub fn type_name(dtype: DType) -> String {
    let name = match dtype {
        DType::Byte => "unsigned char",
        DType::Char => "signed char",
        DType::Short => "short int",
        DType::Int => "int",
        DType::Long => "long int",
        DType::UInt16 => "short unsigned int",
        DType::UInt32 => "unsigned int",
        DType::UInt64 => "long unsigned int",
        DType::Float => "float",
        DType::Double => "double",
        DType::Bool => "bool",
        DType::ComplexFloat => "c10::complex<float>",
        DType::ComplexDouble => "c10::complex<double>",
        other => return format!("c10::{other:?}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_in_c() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (-1.5, "-1.5"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (999_999.5, "1e+06"),
            (123_456.7, "123457"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1e-300, "1e-300"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ];
        for (value, text) in cases {
            assert_eq!(NumberText(value).to_string(), text);
        }
    }
}
