//! Names of dtypes in messages, spelled as in C++.

use crate::tensor::dtype::DType;

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
