//! Products with a recurrent weight, which is prepared once for all steps.

use super::unit::elements;
use crate::ops::matmul::kernel::{self as matmul, packed};
use crate::tensor::prelude::*;

leaf! {
    /// `to = from`, rounded to `P`.
    pub fn convert<E: Element, P: Element<Acc = E::Acc>>(from: &[E], to: &mut [P]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = P::store(from.load());
        }
    }
}

/// A dtype of the products with a recurrent weight.
pub trait Factor: Element {
    /// The number of elements of a prepared weight (k, n).
    fn prepared_len([k, n]: [usize; 2]) -> usize {
        k * n
    }

    /// Prepares a weight (k, n) of contiguous rows for [`multiply`](Factor::multiply).
    fn prepare(weight: Memory, _sizes: [usize; 2]) -> Memory {
        weight
    }

    /// `out = a @ weight` with out (m, n), a (m, k), and a prepared weight (k, n).
    fn multiply(sizes: [usize; 3], out: &mut [Self], a: &[Self], weight: &[Self]) -> Result<(), Error> {
        matmul::multiply(sizes, out, a, weight)
    }
}

impl Factor for half::f16 {}
impl Factor for half::bf16 {}

macro_rules! packed {
    ($($type:ty)*) => {$(
        impl Factor for $type {
            fn prepared_len(sizes: [usize; 2]) -> usize {
                packed::len::<Self>(sizes)
            }

            fn prepare(mut weight: Memory, [k, n]: [usize; 2]) -> Memory {
                packed::pack::<Self>(weight.numbers(k * n), [k, n])
            }

            fn multiply(sizes: [usize; 3], out: &mut [Self], a: &[Self], weight: &[Self]) -> Result<(), Error> {
                packed::multiply(sizes, out, a, weight);
                Ok(())
            }
        }
    )*};
}

packed!(f32 f64);

/// A weight [wide, size] as `P`, prepared for a gradient's products, or its transpose for those of a layer.
pub fn prepared<E: Element, P: Factor<Acc = E::Acc>>(view: &View<'_>, is_gradient: bool) -> Result<Memory, Error> {
    let (wide, size) = (view.size(0), view.size(1));
    let memory = || Memory::of(wide * size * size_of::<P>());
    let mut weight = memory();
    convert::<E, P>(elements(Row::flat(view)?)?, weight.numbers(wide * size));
    if is_gradient {
        return Ok(P::prepare(weight, [wide, size]));
    }
    let mut transposed = memory();
    strided::transpose(weight.numbers::<P>(wide * size), transposed.numbers::<P>(wide * size), size);
    Ok(P::prepare(transposed, [size, wide]))
}
