//! Casts of contiguous elements from one dtype to another.
//!
//! Every cast goes through a *hub*, a type that holds all values of a class of dtypes exactly ([`Number::Hub`]): one step from the
//! source to its hub, one from the hub to the target. A step is omitted if source or target is the hub itself.

use std::any::TypeId;

use half::f16;

use super::Buffer;
use super::strided::copy_run;
use crate::simd::nontemporal::Stores;
use crate::simd::{halves, leaf};
use crate::tensor::{DType, Element, Error, Hub, Number, View, dispatch};
use crate::tuning::caches::CAST_RUN;

/// Casts `count` elements.
///
/// # Safety
/// `from` must have `count` readable elements of dtype `source`, and `to` as many writable ones of `target`; they must not overlap.
pub unsafe fn cast(from: *const u8, source: DType, to: *mut u8, target: DType, count: usize) -> Result<(), Error> {
    if source == target {
        // SAFETY: the caller promises both runs, and that they do not overlap.
        unsafe { copy_run(from, to, count * source.size(), Stores::Cached) };
        return Ok(());
    }
    dispatch!(source in EVERY, S => from_source::<S>(from.cast(), to, target, count))
}

/// The first element of an operand, cast to `target`, in the first bytes of a word. The rest of the word is 0.
pub fn element(view: &View<'_>, target: DType) -> Result<u128, Error> {
    if view.numel() == 0 {
        return Err(Error::new("an operand has no elements"));
    }
    let mut word = 0u128;
    // SAFETY: the operand has an element, which the launch guarantees to be readable, and no element is larger than a word.
    unsafe { cast(view.data(), view.dtype(), (&raw mut word).cast(), target, 1) }?;
    Ok(word)
}

/// The first element of an operand, cast.
pub fn read<T: Element>(view: &View<'_>) -> Result<T, Error> {
    let word = element(view, T::DTYPE)?;
    // SAFETY: the first bytes of the word are an element of that dtype.
    Ok(unsafe { (&raw const word).cast::<T>().read_unaligned() })
}

/// An element in the first bytes of a word. The rest of the word is 0.
pub fn word<T: Element>(element: T) -> u128 {
    let mut word = 0u128;
    // SAFETY: no element is larger than a word.
    unsafe { (&raw mut word).cast::<T>().write_unaligned(element) };
    word
}

type HubOf<S> = <<S as Element>::Acc as Number>::Hub;

fn from_source<S: Element>(from: *const S, to: *mut u8, target: DType, count: usize) -> Result<(), Error> {
    if TypeId::of::<S>() == TypeId::of::<HubOf<S>>() {
        return to_target(from.cast::<HubOf<S>>(), to, target, count);
    }
    if target == HubOf::<S>::DTYPE {
        widen(from, to.cast(), count);
        return Ok(());
    }
    let mut buffer = Buffer::new();
    let hub = buffer.data().cast::<HubOf<S>>();
    for start in (0..count).step_by(CAST_RUN) {
        let count = CAST_RUN.min(count - start);
        widen(from.wrapping_add(start), hub, count);
        to_target(hub, to.wrapping_add(start * target.size()), target, count)?;
    }
    Ok(())
}

fn to_target<H: Hub>(from: *const H, to: *mut u8, target: DType, count: usize) -> Result<(), Error> {
    dispatch!(target in EVERY, D => {
        narrow::<H, D>(from, to.cast(), count);
        Ok(())
    })
}

leaf! {
    fn widen<S: Element>(from: *const S, to: *mut HubOf<S>, count: usize) {
        if TypeId::of::<S>() == TypeId::of::<f16>() {
            // SAFETY: `cast`'s caller promises `count` readable elements, and the target is the hub buffer or the caller's run, of
            // at least as many.
            return unsafe { halves::widen(from.cast(), to.cast(), count) };
        }
        for index in 0..count {
            // SAFETY: `cast`'s caller promises `count` readable elements.
            let value = unsafe { from.wrapping_add(index).read_unaligned() };
            // SAFETY: the target is the hub buffer or the caller's run, of at least `count` elements.
            unsafe { to.wrapping_add(index).write_unaligned(value.load().hub()) };
        }
    }

    fn narrow<H: Hub, D: Element>(from: *const H, to: *mut D, count: usize) {
        if TypeId::of::<H>() == TypeId::of::<f32>() && TypeId::of::<D>() == TypeId::of::<f16>() {
            // SAFETY: the source is the hub buffer or the caller's run, and `cast`'s caller promises as many writable elements.
            return unsafe { halves::narrow(from.cast(), to.cast(), count) };
        }
        for index in 0..count {
            // SAFETY: the source is the hub buffer or the caller's run, of at least `count` elements.
            let value = unsafe { from.wrapping_add(index).read_unaligned() };
            // SAFETY: `cast`'s caller promises `count` writable elements.
            unsafe { to.wrapping_add(index).write_unaligned(D::store(value.to())) };
        }
    }
}
