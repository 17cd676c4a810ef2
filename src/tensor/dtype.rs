//! Element types: [`DType`] (PyTorch's number of a type), [`Element`] (a type as it is stored in memory) and [`dispatch!`], the one
//! place where a runtime dtype becomes a Rust type.
//!
//! Kernels compute in [`Element::Acc`], PyTorch's opmath type: `f32` for the 16 and 8 bit floats, the type itself otherwise. A
//! value is widened when it is loaded and rounded once when it is stored.

#![forbid(unsafe_code)]
#![allow(clippy::enum_glob_use, reason = "matches that name most dtypes")]

use std::fmt;

use half::{bf16, f16};
use num_complex::Complex;

use super::inlined::inlined;
use super::{Approximate, Float8E4M3Fn, Float8E4M3FnUz, Float8E5M2, Float8E5M2FnUz, Float8E8M0FnU, Number};
use crate::simd::{convert, halves, scalar_convert};

/// Single-precision complex number.
pub type Complex32 = Complex<f32>;
/// Double-precision complex number.
pub type Complex64 = Complex<f64>;

/// A boolean as PyTorch stores it: one byte, true if it is not 0 (any bit pattern is valid, unlike in `bool`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    #[inline(always)]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    #[inline(always)]
    fn from(value: bool) -> Self {
        Self(value as u8)
    }
}

impl PartialEq for Bool {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// A half-precision complex number in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct ComplexHalf {
    pub re: f16,
    pub im: f16,
}

/// A complex number of two BFloat16 in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct ComplexBFloat16 {
    pub re: bf16,
    pub im: bf16,
}

/// Defines the dtypes: the name, that in PyTorch's error texts if it differs, the number, and the name in PyTorch if it has
/// arithmetic.
macro_rules! dtypes {
    (@first $text:expr) => { $text };
    (@first $text:expr, $other:expr) => { $text };
    ($($name:ident $($text:literal)? = $number:literal $(, $torch:literal)?;)*) => {
        /// A dtype, numbered as `c10::ScalarType`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DType {
            $($name = $number,)*
        }

        /// Every dtype, at the index of its number.
        const DTYPES: [DType; [$($number),*].len()] = [$(DType::$name),*];

        /// Formats as `c10::toString`.
        impl fmt::Debug for DType {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self {
                    $(Self::$name => dtypes!(@first $($text,)? stringify!($name)),)*
                })
            }
        }

        impl DType {
            /// The name in `PyTorch`, for reports; one common name for all dtypes without arithmetic.
            pub const fn torch_name(self) -> &'static str {
                match self {
                    $(Self::$name => dtypes!(@first $($torch,)? "elements"),)*
                }
            }
        }
    };
}

dtypes! {
    Byte = 0, "uint8";
    Char = 1, "int8";
    Short = 2, "int16";
    Int = 3, "int32";
    Long = 4, "int64";
    Half = 5, "float16";
    Float = 6, "float32";
    Double = 7, "float64";
    ComplexHalf = 8, "complex32";
    ComplexFloat = 9, "complex64";
    ComplexDouble = 10, "complex128";
    Bool = 11, "bool";
    QInt8 = 12;
    QUInt8 = 13;
    QInt32 = 14;
    BFloat16 = 15, "bfloat16";
    QUInt4x2 = 16;
    QUInt2x4 = 17;
    Bits1x8 = 18;
    Bits2x4 = 19;
    Bits4x2 = 20;
    Bits8 = 21;
    Bits16 = 22;
    Float8E5M2 "Float8_e5m2" = 23, "float8";
    Float8E4M3Fn "Float8_e4m3fn" = 24, "float8";
    Float8E5M2FnUz "Float8_e5m2fnuz" = 25, "float8";
    Float8E4M3FnUz "Float8_e4m3fnuz" = 26, "float8";
    UInt16 = 27, "uint16";
    UInt32 = 28, "uint32";
    UInt64 = 29, "uint64";
    UInt1 = 30;
    UInt2 = 31;
    UInt3 = 32;
    UInt4 = 33;
    UInt5 = 34;
    UInt6 = 35;
    UInt7 = 36;
    Int1 = 37;
    Int2 = 38;
    Int3 = 39;
    Int4 = 40;
    Int5 = 41;
    Int6 = 42;
    Int7 = 43;
    Float8E8M0FnU "Float8_e8m0fnu" = 44, "float8";
    Float4E2M1FnX2 "Float4_e2m1fn_x2" = 45;
    ComplexBFloat16 "BComplex32" = 46;
}

/// [`DType::size`] by number: a table lookup is cheaper than a jump.
static SIZES: [u8; DTYPES.len()] = {
    let mut sizes = [0; DTYPES.len()];
    let mut number = 0;
    while number < sizes.len() {
        sizes[number] = DTYPES[number].bytes();
        number += 1;
    }
    sizes
};

impl DType {
    /// The dtype of a `c10::ScalarType` number.
    #[inline]
    pub const fn from_number(number: i32) -> Option<Self> {
        if number >= 0 && (number as usize) < DTYPES.len() { Some(DTYPES[number as usize]) } else { None }
    }

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        SIZES[self as usize] as usize
    }

    const fn bytes(self) -> u8 {
        use DType::*;
        match self {
            Short | Half | BFloat16 | Bits16 | UInt16 => 2,
            Int | Float | ComplexHalf | ComplexBFloat16 | QInt32 | UInt32 => 4,
            Long | Double | ComplexFloat | UInt64 => 8,
            ComplexDouble => 16,
            _ => 1,
        }
    }

    /// [`DType::size`] as the strides of one contiguous dimension.
    #[inline]
    pub const fn size_word(self) -> &'static [i64] {
        match self.size() {
            1 => &[1],
            2 => &[2],
            4 => &[4],
            8 => &[8],
            _ => &[16],
        }
    }

    /// The dtype that kernels compute this one in.
    #[inline]
    pub const fn opmath(self) -> Self {
        use DType::*;
        match self {
            Half | BFloat16 | Float8E5M2 | Float8E4M3Fn | Float8E5M2FnUz | Float8E4M3FnUz | Float8E8M0FnU => Float,
            ComplexHalf | ComplexBFloat16 => ComplexFloat,
            other => other,
        }
    }

    /// The dtype of the parts of a complex dtype; any other dtype itself.
    pub const fn real(self) -> Self {
        match self {
            Self::ComplexHalf => Self::Half,
            Self::ComplexBFloat16 => Self::BFloat16,
            Self::ComplexFloat => Self::Float,
            Self::ComplexDouble => Self::Double,
            other => other,
        }
    }

    /// True if values have an imaginary part.
    #[inline]
    pub const fn is_complex(self) -> bool {
        COMPLEX.contains(self) || matches!(self, Self::ComplexBFloat16)
    }

    /// True if values can be converted to and from other dtypes; values of the others can only be copied.
    #[inline]
    pub const fn is_convertible(self) -> bool {
        EVERY.contains(self)
    }
}

/// A set of dtypes: bit `n` is `c10::ScalarType` `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DTypeSet(pub u64);

impl DTypeSet {
    /// The set of the given dtypes.
    pub const fn of(dtypes: &[DType]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < dtypes.len() {
            bits |= 1 << dtypes[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// The union of both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if `dtype` is in the set.
    #[inline]
    pub const fn contains(self, dtype: DType) -> bool {
        self.0 >> dtype as u8 & 1 != 0
    }

    /// The dtypes of the set, by number.
    #[cfg(test)]
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DTYPES.into_iter().filter(move |&dtype| self.contains(dtype))
    }
}

pub const FLOATING: DTypeSet = DTypeSet::of(&[DType::Half, DType::BFloat16, DType::Float, DType::Double]);
pub const HALVES: DTypeSet = DTypeSet::of(&[DType::Half, DType::BFloat16]);
pub const WIDE: DTypeSet = DTypeSet::of(&[DType::Float, DType::Double]);
/// The complex dtypes, including ComplexHalf.
pub const COMPLEX: DTypeSet = DTypeSet::of(&[DType::ComplexHalf, DType::ComplexFloat, DType::ComplexDouble]);
/// Floating point and complex without ComplexHalf: the dtypes for which PyTorch has real and complex math.
pub const FIELD: DTypeSet = FLOATING.and(WIDE_COMPLEX);
/// The integers that every CPU kernel of PyTorch supports: Byte, Char, Short, Int, Long.
pub const INTEGRAL: DTypeSet = DTypeSet::of(&[DType::Byte, DType::Char, DType::Short, DType::Int, DType::Long]);
pub const UNSIGNED: DTypeSet = DTypeSet::of(&[DType::UInt16, DType::UInt32, DType::UInt64]);
pub const BOOL: DTypeSet = DTypeSet::of(&[DType::Bool]);
pub const BYTE: DTypeSet = DTypeSet::of(&[DType::Byte]);
pub const LONG: DTypeSet = DTypeSet::of(&[DType::Long]);
/// 32 bit integers.
pub const INT: DTypeSet = DTypeSet::of(&[DType::Int]);
pub const FLOAT: DTypeSet = DTypeSet::of(&[DType::Float]);
/// The dtypes of real and imaginary parts: Half, Float, Double.
pub const COMPONENTS: DTypeSet = DTypeSet::of(&[DType::Half, DType::Float, DType::Double]);
/// [`FLOATING`], for which [`dispatch!`] computes 16 bit floats as `f32`.
pub const WIDENED: DTypeSet = FLOATING;
pub const COMPLEX_HALF: DTypeSet = DTypeSet::of(&[DType::ComplexHalf]);
pub const WIDE_COMPLEX: DTypeSet = DTypeSet::of(&[DType::ComplexFloat, DType::ComplexDouble]);
pub const REAL: DTypeSet = INTEGRAL.and(FLOATING);
/// [`REAL`], [`UNSIGNED`] and Bool: every dtype with an order.
pub const ORDERED: DTypeSet = REAL.and(UNSIGNED).and(BOOL);
/// [`REAL`] and [`COMPLEX`]: the dtypes that can be negated, and Byte, which wraps.
pub const SIGNED: DTypeSet = REAL.and(COMPLEX);
pub const ALL: DTypeSet = ORDERED.and(COMPLEX);
/// The 8 bit floats.
pub const FLOAT8: DTypeSet =
    DTypeSet::of(&[DType::Float8E5M2, DType::Float8E4M3Fn, DType::Float8E5M2FnUz, DType::Float8E4M3FnUz, DType::Float8E8M0FnU]);
/// Every dtype whose values can be converted.
pub const EVERY: DTypeSet = ALL.and(FLOAT8).and(DTypeSet::of(&[DType::ComplexBFloat16]));

/// Every dtype, including those whose values can only be copied.
pub const ANY: DTypeSet = DTypeSet((1 << DTYPES.len()) - 1);

/// A type as it is stored in memory.
pub trait Element: Copy + Send + Sync + Default + 'static {
    /// The dtype of these elements.
    const DTYPE: DType;
    /// The computing type of kernels (opmath).
    type Acc: Number + Element<Acc = Self::Acc>;
    /// The computing type of functions whose results are rounded to this type: `Acc` or, for 16 bit floats, [`Approximate`].
    type Approximate: Number + From<Self::Acc> + Into<Self::Acc>;

    /// The value, widened.
    fn load(self) -> Self::Acc;
    /// The value rounded to this type, once.
    fn store(value: Self::Acc) -> Self;

    /// True if [`Self::load_run`] and [`Self::store_run`] are faster than a loop.
    const IS_CONVERTED_IN_RUNS: bool = false;

    /// Loads as many elements as both slices have.
    #[inline(always)]
    fn load_run(elements: &[Self], values: &mut [Self::Acc]) {
        for (value, element) in values.iter_mut().zip(elements) {
            *value = element.load();
        }
    }

    /// Stores as many values as both slices have, rounded to this type.
    #[inline(always)]
    fn store_run(values: &[Self::Acc], elements: &mut [Self]) {
        for (element, &value) in elements.iter_mut().zip(values) {
            *element = Self::store(value);
        }
    }

    /// [`Self::load`] for a single element outside a vectorised loop.
    #[inline(always)]
    fn load_single(self) -> Self::Acc {
        self.load()
    }

    /// [`Self::store`] for a single element outside a vectorised loop.
    #[inline(always)]
    fn store_single(value: Self::Acc) -> Self {
        Self::store(value)
    }
}

macro_rules! element {
    ($($type:ty, $dtype:ident;)*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            type Acc = $type;
            type Approximate = $type;

            inlined! {
                fn load(self) -> Self = self;
                fn store(value: Self) -> Self = value;
            }
        }
    )*};
}

element! {
    u8, Byte;
    i8, Char;
    i16, Short;
    i32, Int;
    i64, Long;
    f32, Float;
    f64, Double;
    Complex32, ComplexFloat;
    Complex64, ComplexDouble;
    Bool, Bool;
    u16, UInt16;
    u32, UInt32;
    u64, UInt64;
}

macro_rules! element_f32 {
    ($($type:ty, $dtype:ident, $approximate:ty, $load:expr, $store:expr;)*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            type Acc = f32;
            type Approximate = $approximate;

            inlined! {
                fn load(self) -> f32 = ($load)(self);
                fn store(value: f32) -> Self = ($store)(value);
            }
        }
    )*};
}

element_f32! {
    Float8E5M2, Float8E5M2, f32, Float8E5M2::to_f32, Float8E5M2::from_f32;
    Float8E4M3Fn, Float8E4M3Fn, f32, Float8E4M3Fn::to_f32, Float8E4M3Fn::from_f32;
    Float8E5M2FnUz, Float8E5M2FnUz, f32, Float8E5M2FnUz::to_f32, Float8E5M2FnUz::from_f32;
    Float8E4M3FnUz, Float8E4M3FnUz, f32, Float8E4M3FnUz::to_f32, Float8E4M3FnUz::from_f32;
    Float8E8M0FnU, Float8E8M0FnU, f32, Float8E8M0FnU::to_f32, Float8E8M0FnU::from_f32;
}

impl Element for f16 {
    const DTYPE: DType = DType::Half;
    const IS_CONVERTED_IN_RUNS: bool = true;
    type Acc = f32;
    type Approximate = Approximate;

    inlined! {
        fn load(self) -> f32 = convert::f16_to_f32(self.to_bits());
        fn store(value: f32) -> Self = Self::from_bits(convert::f32_to_f16(value));
    }

    fn load_run(elements: &[Self], values: &mut [f32]) {
        halves::widen_slice(elements, values);
    }

    fn store_run(values: &[f32], elements: &mut [Self]) {
        halves::narrow_slice(values, elements);
    }
}

impl Element for bf16 {
    const DTYPE: DType = DType::BFloat16;
    type Acc = f32;
    type Approximate = Approximate;

    inlined! {
        fn load(self) -> f32 = convert::bf16_to_f32(self.to_bits());
        fn store(value: f32) -> Self = Self::from_bits(convert::f32_to_bf16(value));
        fn load_single(self) -> f32 = scalar_convert::bf16_to_f32(self.to_bits());
        fn store_single(value: f32) -> Self = Self::from_bits(scalar_convert::f32_to_bf16(value));
    }
}

/// The bits of a 16 bit float, for functions of the sign alone: BFloat16 with `BRAIN`, else Half.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct HalfBits<const BRAIN: bool>(u16);

impl<const BRAIN: bool> Element for HalfBits<BRAIN> {
    const DTYPE: DType = if BRAIN { DType::BFloat16 } else { DType::Half };
    type Acc = u16;
    type Approximate = u16;

    inlined! {
        fn load(self) -> u16 = self.0;
        fn store(value: u16) -> Self = Self(value);
    }
}

/// Complex numbers of two 16 bit floats.
macro_rules! complex_of_halves {
    ($($complex:ident: $part:ident,)*) => {$(
        impl Element for $complex {
            const DTYPE: DType = DType::$complex;
            type Acc = Complex32;
            type Approximate = Complex32;

            inlined! {
                fn load(self) -> Complex32 = Complex32::new(self.re.load(), self.im.load());
                fn store(value: Complex32) -> Self = Self { re: $part::store(value.re), im: $part::store(value.im) };
            }
        }
    )*};
}

complex_of_halves! {
    ComplexHalf: f16,
    ComplexBFloat16: bf16,
}

/// Runs `$body` with `$T` as the [`Element`] type of `$dtype`, if the dtype is in the named set; else returns an error that names
/// it.
///
/// `WIDENED` is `FLOATING` with `f32` for the 16 bit floats, to which the loop casts: slower, but half the code. `HALF_BITS` is the
/// 16 bit floats as [`HalfBits`], `WRAPPING` is `INTEGRAL` for sums and products, whose bits are the same with and without a sign.
///
/// `dispatch!(dtype in FLOATING, T => kernel::<T>(launch))`. `$body` is a `Result<_, Error>`.
macro_rules! dispatch {
    (@ ($dtype:expr, $T:ident, $body:expr) [$($name:ident: $type:ty,)*]) => {
        match $dtype {
            $($crate::tensor::dtype::DType::$name => { type $T = $type; $body })*
            other => Err($crate::tensor::kernel_error::Error::new(format!("this kernel does not take {other:?}"))),
        }
    };
    (@ $head:tt [$($done:tt)*] { $($more:tt)* } $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head [$($done)* $($more)*,] $($rest)*)
    };
    (@ $head:tt $done:tt FLOAT $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { Float: f32 } $($rest)*)
    };
    (@ $head:tt $done:tt WIDE $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { Float: f32, Double: f64 } $($rest)*)
    };
    (@ $head:tt $done:tt HALVES $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { Half: half::f16, BFloat16: half::bf16 } $($rest)*)
    };
    (@ $head:tt $done:tt FLOATING $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done HALVES WIDE $($rest)*)
    };
    (@ $head:tt $done:tt WIDENED $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { Half: f32, BFloat16: f32 } WIDE $($rest)*)
    };
    (@ $head:tt $done:tt HALF_BITS $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done
            { Half: $crate::tensor::dtype::HalfBits<false>, BFloat16: $crate::tensor::dtype::HalfBits<true> } $($rest)*)
    };
    (@ $head:tt $done:tt WIDE_COMPLEX $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done
            { ComplexFloat: $crate::tensor::dtype::Complex32, ComplexDouble: $crate::tensor::dtype::Complex64 } $($rest)*)
    };
    (@ $head:tt $done:tt COMPLEX_HALF $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { ComplexHalf: $crate::tensor::dtype::ComplexHalf } $($rest)*)
    };
    (@ $head:tt $done:tt INTEGRAL $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { Byte: u8, Char: i8, Short: i16, Int: i32, Long: i64 } $($rest)*)
    };
    (@ $head:tt $done:tt WRAPPING $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { Byte: u8, Char: u8, Short: i16, Int: i32, Long: i64 } $($rest)*)
    };
    (@ $head:tt $done:tt UNSIGNED $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { UInt16: u16, UInt32: u32, UInt64: u64 } $($rest)*)
    };
    (@ $head:tt $done:tt BOOL $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done { Bool: $crate::tensor::dtype::Bool } $($rest)*)
    };
    (@ $head:tt $done:tt FLOAT8 $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done {
            Float8E5M2: $crate::tensor::float8::Float8E5M2, Float8E4M3Fn: $crate::tensor::float8::Float8E4M3Fn,
            Float8E5M2FnUz: $crate::tensor::float8::Float8E5M2FnUz, Float8E4M3FnUz: $crate::tensor::float8::Float8E4M3FnUz,
            Float8E8M0FnU: $crate::tensor::float8::Float8E8M0FnU
        } $($rest)*)
    };
    (@ $head:tt $done:tt FIELD $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done FLOATING WIDE_COMPLEX $($rest)*)
    };
    (@ $head:tt $done:tt REAL $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done FLOATING INTEGRAL $($rest)*)
    };
    (@ $head:tt $done:tt ORDERED $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done REAL UNSIGNED BOOL $($rest)*)
    };
    (@ $head:tt $done:tt SIGNED $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done REAL WIDE_COMPLEX COMPLEX_HALF $($rest)*)
    };
    (@ $head:tt $done:tt ALL $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done ORDERED WIDE_COMPLEX COMPLEX_HALF $($rest)*)
    };
    (@ $head:tt $done:tt EVERY $($rest:tt)*) => {
        $crate::tensor::dtype::dispatch!(@ $head $done
            ALL FLOAT8 { ComplexBFloat16: $crate::tensor::dtype::ComplexBFloat16 } $($rest)*)
    };
    ($dtype:ident in $($set:ident)|+, $T:ident => $body:expr) => {
        $crate::tensor::dtype::dispatch!(@ ($dtype, $T, $body) [] $($set)+)
    };
}
pub(crate) use dispatch;

/// Runs `$body` with `$T` as an unsigned integer of `$size` bytes, for elements that are only moved.
macro_rules! dispatch_size {
    ($size:expr, $T:ident => $body:expr) => {
        match $size {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = u128;
                $body
            }
        }
    };
}
pub(crate) use dispatch_size;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Error;

    #[test]
    fn numbers_are_those_of_c10() {
        for (number, dtype) in DTYPES.into_iter().enumerate() {
            assert_eq!(dtype as usize, number);
            assert_eq!(DType::from_number(number as i32), Some(dtype));
        }
        assert_eq!(DType::from_number(-1), None);
        assert_eq!(DType::from_number(47), None);
        assert_eq!(format!("{:?} {:?}", DType::Half, DType::Float8E4M3Fn), "Half Float8_e4m3fn");
        assert_eq!(DType::BFloat16 as u8, 15);
        assert_eq!(DType::Float8E8M0FnU as u8, 44);
    }

    #[test]
    fn dispatch_gives_the_type_of_the_dtype() {
        for dtype in EVERY.iter() {
            let found = dispatch!(dtype in EVERY, T => Ok::<_, Error>((T::DTYPE, size_of::<T>(), <T as Element>::Acc::DTYPE)));
            assert_eq!(found.unwrap(), (dtype, dtype.size(), dtype.opmath()));
        }
        let long = DType::Long;
        assert!(dispatch!(long in FLOATING | BOOL, T => Ok::<_, Error>(size_of::<T>())).is_err());
    }

    #[test]
    fn any_byte_but_zero_is_true() {
        assert!(Bool(2).get() && Bool(255) == Bool(1) && !Bool(0).get());
    }
}
