//! `count_nonzero`, `any` and `all`. Operands: [out, input].
//!
//! Elements are read as integers of their size: an element is 0 if all bits but the signs of floats are 0.

#![forbid(unsafe_code)]

use std::ops::{BitAnd, BitOr};

use crate::kernels::signature::signature;
use crate::tensor::dtype::{Bool, Complex64, DType};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduction::fold::{self, Fold};
use crate::tensor::number::Number;

signature! {
    count_nonzero(out, input)[] in REAL | BOOL | COMPLEX;
    any(out, input)[] in BOOL | BYTE;
    all(out, input)[] in BOOL | BYTE;
}

/// The representation of 0: an element is 0 if `element & mask == bits`.
#[derive(Clone, Copy)]
struct Zero<V> {
    mask: V,
    bits: V,
}

/// The type as which elements are read.
trait Bits: Number {
    /// An integer that holds 0 or 1, of this type's width if there is one.
    type Truth: Copy + Default + Send + Sync + From<bool> + PartialEq + BitAnd<Output = Self::Truth> + BitOr<Output = Self::Truth>;

    /// Whether it is not 0.
    fn is_nonzero(self, zero: Zero<Self>) -> bool;
}

macro_rules! bits {
    ($($integer:ident)*) => {$(
        impl Bits for $integer {
            type Truth = $integer;

            #[inline(always)]
            fn is_nonzero(self, zero: Zero<Self>) -> bool {
                self & zero.mask != zero.bits
            }
        }
    )*};
}

bits!(u8 i16 i32 i64);

impl Bits for Complex64 {
    type Truth = u64;

    #[inline(always)]
    fn is_nonzero(self, _: Zero<Self>) -> bool {
        self != Self::ZERO
    }
}

/// Counts elements that are not 0.
#[derive(Clone, Copy)]
struct CountNonzero<V>(Zero<V>);

impl<V: Bits> Fold<V> for CountNonzero<V> {
    type State = i64;
    type Output = i64;
    const TAKES_BITS: bool = true;

    #[inline(always)]
    fn start(self, _: V) -> i64 {
        0
    }

    #[inline(always)]
    fn lift(self, value: V) -> i64 {
        value.is_nonzero(self.0).into()
    }

    #[inline(always)]
    fn merge(self, left: i64, right: i64) -> i64 {
        left + right
    }

    #[inline(always)]
    fn finish(self, count: i64, _: usize) -> i64 {
        count
    }
}

/// Whether any value is not 0 or, with `ALL`, no value is 0. The state is 0 or 1 in an integer of the values' width, so that vector
/// lanes keep their width.
#[derive(Clone, Copy)]
struct Truth<const ALL: bool, V>(Zero<V>);

impl<V: Bits, const ALL: bool> Fold<V> for Truth<ALL, V> {
    type State = V::Truth;
    type Output = Bool;
    const IDEMPOTENT: bool = true;
    const TAKES_BITS: bool = true;

    #[inline(always)]
    fn start(self, _: V) -> V::Truth {
        ALL.into()
    }

    #[inline(always)]
    fn lift(self, value: V) -> V::Truth {
        value.is_nonzero(self.0).into()
    }

    #[inline(always)]
    fn merge(self, left: V::Truth, right: V::Truth) -> V::Truth {
        if ALL { left & right } else { left | right }
    }

    #[inline(always)]
    fn finish(self, state: V::Truth, _: usize) -> Bool {
        (state != false.into()).into()
    }
}

/// Runs a fold over the bits of the input: `$V` is the type that they are read as, `$zero` a [`Zero`].
macro_rules! over_bits {
    ($launch:expr, $V:ident, $zero:ident => $run:expr) => {{
        match $launch.view($launch.num_outputs()).dtype() {
            DType::Half | DType::BFloat16 => over_bits!(@run $V: i16, i16::MAX, $zero => $run),
            DType::Float => over_bits!(@run $V: i32, i32::MAX, $zero => $run),
            DType::ComplexHalf => over_bits!(@run $V: i32, 0x7fff_7fff, $zero => $run),
            DType::Double => over_bits!(@run $V: i64, i64::MAX, $zero => $run),
            DType::ComplexFloat => over_bits!(@run $V: i64, 0x7fff_ffff_7fff_ffff, $zero => $run),
            DType::ComplexDouble => over_bits!(@run $V: Complex64, Complex64::ZERO, $zero => $run),
            DType::Float8E5M2 | DType::Float8E4M3Fn => over_bits!(@run $V: u8, 0x7f, $zero => $run),
            // This dtype has no 0: no element is equal to `bits` after the mask.
            DType::Float8E8M0FnU => over_bits!(@run $V: u8, 0, 1, $zero => $run),
            DType::Short | DType::UInt16 => over_bits!(@run $V: i16, -1, $zero => $run),
            DType::Int | DType::UInt32 => over_bits!(@run $V: i32, -1, $zero => $run),
            DType::Long | DType::UInt64 => over_bits!(@run $V: i64, -1, $zero => $run),
            other if other.size() == 1 => over_bits!(@run $V: u8, 0xff, $zero => $run),
            other => Err(Error::dtype(other, format!("this kernel does not take {other:?}"))),
        }
    }};
    (@run $V:ident: $type:ty, $mask:expr, $zero:ident => $run:expr) => {
        over_bits!(@run $V: $type, $mask, <$type>::ZERO, $zero => $run)
    };
    (@run $V:ident: $type:ty, $mask:expr, $bits:expr, $zero:ident => $run:expr) => {{
        type $V = $type;
        let $zero = Zero::<$V> { mask: $mask, bits: $bits };
        $run
    }};
}

/// `aten::count_nonzero`. The output is Long.
pub fn count_nonzero(launch: &Launch<'_>) -> Result<(), Error> {
    over_bits!(launch, V, zero => fold::run::<V, i64, _>(launch, CountNonzero(zero)))
}

/// `aten::any`: whether any value is not 0, as Bool or as Byte 0 or 1.
pub fn any(launch: &Launch<'_>) -> Result<(), Error> {
    truth::<false>(launch)
}

/// `aten::all`: whether no value is 0, as Bool or as Byte 0 or 1.
pub fn all(launch: &Launch<'_>) -> Result<(), Error> {
    truth::<true>(launch)
}

fn truth<const ALL: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    over_bits!(launch, V, zero => fold::run::<V, Bool, _>(launch, Truth::<ALL, V>(zero)))
}
