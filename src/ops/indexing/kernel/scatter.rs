//! Scatters: how a target element is combined with its source.

use crate::tensor::loops::cast;
use crate::tensor::loops::indexed::{Folding, Indexed, Rules, Update, store};
use crate::tensor::loops::reduction::fold::Fold;
use crate::tensor::loops::reduction::minmax_fold::MinMax;
use crate::tensor::{Element, Error, Flags, Launch, Number, Operand, Ordered, Scalar, dispatch, signature};

signature! {
    /// Every scatter along dimensions (`aten::scatter`, `scatter_add`, `scatter_reduce`, `index_add`, `index_copy`, `index_reduce`,
    /// `embedding_dense_backward`): replaces the elements of self at nonnegative indices by those of the source, or
    /// combines them. Operands [self, source, indices...]; scalars [operation, whether the old values are excluded, factor of the
    /// source in a sum, the index to skip or a negative number], then [slots, bytes between them] for each index.
    scatter(out; source, ..indices)[operation, excludes_self, factor, skipped, ..slots] in ANY => |launch| run(launch, false);
    /// `aten::index_put_`, `aten::index_fill_`, `aten::put_`: as [`scatter`], with indices below 0 counted from the end.
    scatter_wrapped(out; source, ..indices)[operation, excludes_self, factor, skipped, ..slots] in ANY => |launch| run(launch, true);
}

/// The position of the first index's scalars.
const FIRST_PAIR: usize = 4;

/// The operations of a scatter, with the numbers of `call::addressing::Operation`.
const STORE: i64 = 0;
const ADD: i64 = 1;
const MULTIPLY: i64 = 2;
const MAXIMUM: i64 = 3;
const MINIMUM: i64 = 4;

fn run(launch: &Launch<'_>, wraps: bool) -> Result<(), Error> {
    let scatter::Scalars { operation, excludes_self, factor, skipped } = scatter::Scalars::of(launch)?;
    let skipped = skipped.to::<i64>();
    let indexed = Indexed::new(launch, FIRST_PAIR, Rules { wraps, skipped: (skipped >= 0).then_some(skipped) })?;
    let operation = operation.to::<i64>();
    let value = value(launch)?;
    if operation == STORE {
        return store(&indexed, value);
    }
    if excludes_self.is_true() {
        store(&indexed, Some(neutral(launch, operation)?))?;
    }
    let dtype = launch.dtype(0);
    match operation {
        ADD => dispatch!(dtype in ALL, T => {
            let factor = factor.to::<<T as Element>::Acc>();
            if factor == <T as Element>::Acc::ONE {
                combine::<T, _>(&indexed, value, Add)
            } else {
                combine::<T, _>(&indexed, value, AddScaled(factor))
            }
        }),
        MULTIPLY => dispatch!(dtype in ALL, T => combine::<T, _>(&indexed, value, Multiply)),
        MAXIMUM => dispatch!(dtype in ORDERED, T => indexed.update::<T, _>(value, Combine(Maximum))),
        MINIMUM => dispatch!(dtype in ORDERED, T => indexed.update::<T, _>(value, Combine(Minimum))),
        other => Err(Error::new(format!("there is no operation {other}"))),
    }
}

/// Combines old values with new ones and rounds each result once, however many sources an element has.
fn combine<E: Element, F: Folding<E::Acc>>(indexed: &Indexed<'_>, value: Option<u128>, function: F) -> Result<(), Error> {
    if const { size_of::<E>() == size_of::<E::Acc>() } {
        indexed.update::<E, _>(value, Combine(function))
    } else {
        indexed.fold::<E, _>(value, function)
    }
}

/// The value of an immediate source, in self's dtype.
fn value(launch: &Launch<'_>) -> Result<Option<u128>, Error> {
    if !launch.flags(1).has(Flags::IMMEDIATE) {
        return Ok(None);
    }
    cast::element(&Operand::of(launch, 1)?, launch.dtype(0)).map(Some)
}

/// The neutral element of the operation, in self's dtype.
fn neutral(launch: &Launch<'_>, operation: i64) -> Result<u128, Error> {
    let dtype = launch.dtype(0);
    match operation {
        MAXIMUM => dispatch!(dtype in ORDERED, T => Ok(cast::word(T::store(<T as Element>::Acc::LOWEST)))),
        MINIMUM => dispatch!(dtype in ORDERED, T => Ok(cast::word(T::store(<T as Element>::Acc::HIGHEST)))),
        _ => {
            let start = Scalar::Long((operation == MULTIPLY) as i64);
            dispatch!(dtype in ALL, T => Ok(cast::word(T::store(start.to()))))
        }
    }
}

macro_rules! functions {
    ($($name:ident: $bound:ident, |$old:ident, $new:ident| $result:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;

        impl<T: $bound> Folding<T> for $name {
            #[inline(always)]
            fn fold(self, $old: T, $new: T) -> T {
                $result
            }
        }
    )*};
}

functions! {
    Add: Number, |old, new| old.add(new);
    Multiply: Number, |old, new| old.mul(new);
    // An arithmetic maximum, because the compiler would compile a conditional one into a branch around the store.
    Maximum: Ordered, |old, new| MinMax::<true>.merge(old, new);
    Minimum: Ordered, |old, new| MinMax::<false>.merge(old, new);
}

/// The function old + factor * new.
#[derive(Clone, Copy)]
struct AddScaled<T>(T);

impl<T: Number> Folding<T> for AddScaled<T> {
    #[inline(always)]
    fn fold(self, old: T, new: T) -> T {
        old.add_scaled(self.0, new)
    }
}

/// An update by a function of the old and the new value, which rounds each time.
#[derive(Clone, Copy)]
struct Combine<F>(F);

impl<E: Element, F: Folding<E::Acc>> Update<E> for Combine<F> {
    #[inline(always)]
    fn apply(self, old: E, new: E) -> E {
        E::store(self.0.fold(old.load(), new.load()))
    }

    #[inline(always)]
    fn apply_single(self, old: E, new: E) -> E {
        E::store_single(self.0.fold(old.load_single(), new.load_single()))
    }
}
