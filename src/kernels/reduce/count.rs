//! `count_nonzero`, `any` and `all`. Operands: [out, input].

#![forbid(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr};

use crate::kernels::signature::signature;
use crate::tensor::dtype::{Bool, Complex32, Complex64, DType, dispatch};
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::Launch;
use crate::tensor::loops::reduction::fold::{self, Fold, fold};
use crate::tensor::number::Number;

signature! {
    count_nonzero(out, input)[] in REAL | BOOL | COMPLEX;
    any(out, input)[] in BOOL | BYTE;
    all(out, input)[] in BOOL | BYTE;
}

fold! {
    /// Counts values that are not 0.
    CountNonzero: [V: Number] V => i64 => i64,
    0, |value| i64::from(value != V::ZERO), |left, right| left + right, |count, _| count;
}

/// Whether any value is not 0 or, with `ALL`, no value is 0. The state is 0 or 1 in an integer of the values' width, so that vector
/// lanes keep their width.
#[derive(Clone, Copy)]
struct Truth<const ALL: bool, W>(PhantomData<W>);

impl<V, W, const ALL: bool> Fold<V> for Truth<ALL, W>
where
    V: Number,
    W: Copy + Default + Send + Sync + From<bool> + PartialEq + BitAnd<Output = W> + BitOr<Output = W>,
{
    type State = W;
    type Output = Bool;
    const IDEMPOTENT: bool = true;

    #[inline(always)]
    fn start(self, _: V) -> W {
        W::from(ALL)
    }

    #[inline(always)]
    fn lift(self, value: V) -> W {
        W::from(value != V::ZERO)
    }

    #[inline(always)]
    fn merge(self, left: W, right: W) -> W {
        if ALL { left & right } else { left | right }
    }

    #[inline(always)]
    fn finish(self, state: W, _: usize) -> Bool {
        Bool::from(state != W::from(false))
    }
}

/// `aten::count_nonzero`. The compute dtype is the input's, the output is Long.
pub fn count_nonzero(launch: &Launch<'_>) -> Result<(), Error> {
    let dtype = launch.compute();
    dispatch!(dtype in REAL | BOOL | WIDE_COMPLEX | COMPLEX_HALF, T => fold::run::<T, i64, _>(launch, CountNonzero))
}

/// `aten::any`: whether any value is not 0, as Bool or as Byte 0 or 1. The input is not cast.
pub fn any(launch: &Launch<'_>) -> Result<(), Error> {
    truth::<false>(launch)
}

/// `aten::all`: whether no value is 0, as Bool or as Byte 0 or 1. The input is not cast.
pub fn all(launch: &Launch<'_>) -> Result<(), Error> {
    truth::<true>(launch)
}

fn truth<const ALL: bool>(launch: &Launch<'_>) -> Result<(), Error> {
    match launch.view(1).dtype() {
        DType::Float => fold::run::<f32, Bool, _>(launch, Truth::<ALL, u32>(PhantomData)),
        DType::Double => fold::run::<f64, Bool, _>(launch, Truth::<ALL, u64>(PhantomData)),
        DType::BFloat16 => fold::run::<half::bf16, Bool, _>(launch, Truth::<ALL, u32>(PhantomData)),
        DType::Half => fold::run::<half::f16, Bool, _>(launch, Truth::<ALL, u32>(PhantomData)),
        DType::Int => fold::run::<i32, Bool, _>(launch, Truth::<ALL, u32>(PhantomData)),
        DType::Long => fold::run::<i64, Bool, _>(launch, Truth::<ALL, u64>(PhantomData)),
        DType::ComplexFloat => fold::run::<Complex32, Bool, _>(launch, Truth::<ALL, u64>(PhantomData)),
        DType::ComplexDouble => fold::run::<Complex64, Bool, _>(launch, Truth::<ALL, u64>(PhantomData)),
        _ => fold::run::<Bool, Bool, _>(launch, Truth::<ALL, u8>(PhantomData)),
    }
}
