//! Elementwise kernels, by family. Operands: [out, inputs...], all of the same sizes.

#![forbid(unsafe_code)]

pub mod activation;
pub mod arithmetic;
pub mod bitwise;
pub mod circular;
pub mod clamp;
pub mod compare;
pub mod fused;
pub mod gradient;
pub mod loss;
pub mod pairs;
pub mod parts;
pub mod predicate;
pub mod rare;
pub mod rounding;
pub mod sign;
pub mod special;
pub mod ternary;

#[cfg(test)]
mod all_values;

/// Kernels that are given by a function of values: for each, a [`Map`](crate::tensor::loops::pointwise::Map) generic over the computing
/// type `T`, and the kernel that runs it over a set of dtypes, in their [`Brief`](crate::tensor::dtype::Element::Brief) type.
///
/// `kernel, Map, SET, Bound, [scalars], |[inputs]| value;` The scalars are the launch's, in order, as `T`; the value is a `T` too. `Bound in
/// Acc` computes in [`Element::Acc`](crate::tensor::dtype::Element::Acc) instead: for differences of functions, in which their errors count.
macro_rules! functions {
    ($($(#[$doc:meta])* $kernel:ident, $map:ident, $set:ident $(| $more:ident)*, $bound:ident $(in $computing:ident)?, [$($scalar:ident),*], |[$($x:ident),+]| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        #[allow(clippy::struct_field_names, reason = "scalars have the names that PyTorch gives them")]
        struct $map<T> {
            $($scalar: T,)*
            _computes: std::marker::PhantomData<T>,
        }

        impl<T: $bound> $crate::tensor::loops::pointwise::Map<T, { [$(stringify!($x)),+].len() }> for $map<T> {
            type Output = T;

            #[inline(always)]
            fn apply(self, [$($x),+]: [T; { [$(stringify!($x)),+].len() }]) -> T {
                let Self { $($scalar,)* .. } = self;
                $body
            }
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// A dtype outside the table's, or a scalar that is missing.
        pub fn $kernel(launch: &$crate::tensor::launch::Launch<'_>) -> Result<(), String> {
            let dtype = launch.compute();
            let mut _scalars = (0..).map(|index| launch.scalar(index));
            $(let $scalar = _scalars.next().unwrap_or(Err(String::new()))?;)*
            $crate::tensor::dtype::dispatch!(dtype in $set $(| $more)*, E => {
                type T = $crate::kernels::pointwise::computing!(E $($computing)?);
                let map = $map::<T> { $($scalar: $scalar.to(),)* _computes: std::marker::PhantomData };
                $crate::tensor::loops::pointwise::run_in::<E, T, _, { [$(stringify!($x)),+].len() }>(launch, map)
            })
        }
    )*};
}
pub(crate) use functions;

/// What a function of elements of a type is computed in.
macro_rules! computing {
    ($element:ident) => {
        <$element as $crate::tensor::dtype::Element>::Brief
    };
    ($element:ident $computing:ident) => {
        <$element as $crate::tensor::dtype::Element>::$computing
    };
}
pub(crate) use computing;
