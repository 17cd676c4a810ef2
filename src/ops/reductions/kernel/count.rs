//! `count_nonzero`, `any` and `all`. Operands: [out, input].
//!
//! Elements are read as integers of their size: an element is 0 if all bits but the signs of floats are 0.

use std::ops::{BitAnd, BitOr};

use crate::tensor::inlined::inlined;
use crate::tensor::loops::reduction::fold::{self, Fold};
use crate::tensor::{Bool, Complex64, DType, Error, Launch, Number, signature};

signature! {
    /// `aten::count_nonzero`. The output is Long.
    count_nonzero(out; input)[] in REAL | BOOL | COMPLEX => |launch| counted(launch);
    /// `aten::any`: whether any value is not 0, as Bool or as Byte 0 or 1.
    any(out; input)[] in BOOL | BYTE => |launch| truth::<false>(launch);
    /// `aten::all`: whether no value is 0, as Bool or as Byte 0 or 1.
    all(out; input)[] in BOOL | BYTE => |launch| truth::<true>(launch);
}

/// The type as which elements are read.
trait Readable: Number {
    /// True if elements of other dtypes are read as this type, and not cast to it.
    const ARE_BITS: bool;
    /// An integer that holds 0 or 1, of this type's width if there is one.
    type Truth: Copy + Default + Send + Sync + From<bool> + PartialEq + BitAnd<Output = Self::Truth> + BitOr<Output = Self::Truth>;

    /// True if it is not 0. `mask`: the bits that are not signs of floats.
    fn is_nonzero(self, mask: Self) -> bool;
}

macro_rules! readable {
    ($($type:ty: $are_bits:expr, $truth:ty, |$value:ident, $mask:pat_param| $is_nonzero:expr;)*) => {$(
        impl Readable for $type {
            const ARE_BITS: bool = $are_bits;
            type Truth = $truth;

            #[inline(always)]
            fn is_nonzero(self, $mask: Self) -> bool {
                let $value = self;
                $is_nonzero
            }
        }
    )*};
}

readable! {
    u8: true, u8, |value, _| value != 0;
    i16: true, i16, |value, mask| value & mask != 0;
    i32: true, i32, |value, mask| value & mask != 0;
    i64: true, i64, |value, mask| value & mask != 0;
    Complex64: true, u64, |value, _| value != Self::ZERO;
    Bool: false, u8, |value, _| value.get();
}

/// Counts elements that are not 0.
#[derive(Clone, Copy)]
struct CountNonzero<V> {
    mask: V,
}

impl<V: Readable> Fold<V> for CountNonzero<V> {
    type State = i64;
    type Output = i64;
    const TAKES_BITS: bool = V::ARE_BITS;

    inlined! {
        fn start(self, _: V) -> i64 = 0;
        fn lift(self, value: V) -> i64 = value.is_nonzero(self.mask).into();
        fn merge(self, left: i64, right: i64) -> i64 = left + right;
        fn finish(self, count: i64, _: usize) -> i64 = count;
    }
}

/// True if any value is not 0 or, with `ALL`, no value is 0. The state is 0 or 1 in an integer of the values' width, so that vector
/// lanes keep their width.
#[derive(Clone, Copy)]
struct Truth<const ALL: bool, V> {
    mask: V,
}

impl<V: Readable, const ALL: bool> Fold<V> for Truth<ALL, V> {
    type State = V::Truth;
    type Output = Bool;
    const IDEMPOTENT: bool = true;
    const TAKES_BITS: bool = V::ARE_BITS;

    inlined! {
        fn start(self, _: V) -> V::Truth = ALL.into();
        fn lift(self, value: V) -> V::Truth = value.is_nonzero(self.mask).into();
        fn merge(self, left: V::Truth, right: V::Truth) -> V::Truth = if ALL { left & right } else { left | right };
        fn finish(self, state: V::Truth, _: usize) -> Bool = (state != false.into()).into();
    }
}

/// Runs a fold over the bits of the input: `$V` is the type that they are read as, `$mask` its bits that are not signs of floats.
macro_rules! over_bits {
    ($launch:expr, $V:ident, $mask:ident => $run:expr) => {{
        match $launch.dtype($launch.num_outputs()) {
            DType::Byte | DType::Char | DType::Bool => over_bits!(@run $V: u8, 0, $mask => $run),
            DType::Short | DType::UInt16 => over_bits!(@run $V: i16, -1, $mask => $run),
            DType::Int | DType::UInt32 => over_bits!(@run $V: i32, -1, $mask => $run),
            DType::Long | DType::UInt64 => over_bits!(@run $V: i64, -1, $mask => $run),
            DType::Half | DType::BFloat16 => over_bits!(@run $V: i16, i16::MAX, $mask => $run),
            DType::Float => over_bits!(@run $V: i32, i32::MAX, $mask => $run),
            DType::Double => over_bits!(@run $V: i64, i64::MAX, $mask => $run),
            DType::ComplexHalf => over_bits!(@run $V: i32, 0x7fff_7fff, $mask => $run),
            DType::ComplexFloat => over_bits!(@run $V: i64, 0x7fff_ffff_7fff_ffff, $mask => $run),
            DType::ComplexDouble => over_bits!(@run $V: Complex64, Complex64::ZERO, $mask => $run),
            _ => over_bits!(@run $V: Bool, Bool::ZERO, $mask => $run),
        }
    }};
    (@run $V:ident: $type:ty, $value:expr, $mask:ident => $run:expr) => {{
        type $V = $type;
        let $mask: $V = $value;
        $run
    }};
}

fn counted(launch: &Launch<'_>) -> Result<(), Error> {
    over_bits!(launch, V, mask => fold::run::<V, i64, _>(launch, CountNonzero { mask }))
}

fn truth<const ALL: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    over_bits!(launch, V, mask => fold::run::<V, Bool, _>(launch, Truth::<ALL, V> { mask }))
}
