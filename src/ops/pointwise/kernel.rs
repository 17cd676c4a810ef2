//! Elementwise kernels, by family. Operands: [out, inputs...], all of the same sizes.

pub mod activation;
pub mod arithmetic;
pub mod binary;
pub mod bitwise;
pub mod clamp;
pub mod compare;
pub mod complex_parts;
pub mod custom;
pub mod elementary;
pub mod gradient;
pub mod predicate;
pub mod rounding;
pub mod sign;
pub mod special;
pub mod ternary;
pub mod trigonometric;

/// Kernels that are given by a function of values. Each line makes a [`Map`](crate::tensor::loops::elementwise::Map) generic over
/// the computing type `T`, and the kernel that runs it over a set of dtypes, in their
/// [`Approximate`](crate::tensor::dtype::Element::Approximate) type.
///
/// `kernel, Map, SET, Bound, [scalars], |[inputs]| value;` The scalars are the launch's, in order, as `T`; the value is a `T` too.
/// `Bound in Acc` computes in [`Element::Acc`](crate::tensor::dtype::Element::Acc) instead: for differences of functions, which
/// amplify the errors of approximations.
macro_rules! functions {
    ($($(#[$doc:meta])* $kernel:ident, $map:ident, $set:ident $(| $more:ident)*, $bound:ident $(in $computing:ident)?, [$($scalar:ident),*], |[$($x:ident),+]| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        #[allow(clippy::struct_field_names, reason = "scalars have the names that PyTorch gives them")]
        struct $map<T> {
            $($scalar: T,)*
            _computes: std::marker::PhantomData<T>,
        }

        impl<T: $bound> $crate::tensor::loops::elementwise::Map<T, { [$(stringify!($x)),+].len() }> for $map<T> {
            type Output = T;

            #[inline(always)]
            fn apply(self, [$($x),+]: [T; { [$(stringify!($x)),+].len() }]) -> T {
                let Self { $($scalar,)* .. } = self;
                $body
            }
        }

        $crate::tensor::signature::signature! { $kernel(out; $($x),+)[$($scalar),*] in $set $(| $more)*; }

        $(#[$doc])*
        pub fn $kernel(launch: &$crate::tensor::launch::Launch<'_>) -> Result<(), $crate::tensor::kernel_error::Error> {
            let dtype = launch.compute();
            let [$($scalar),*] = launch.first_scalars()?;
            $crate::tensor::dtype::dispatch!(dtype in $set $(| $more)*, E => {
                type T = $crate::ops::pointwise::kernel::computing!(E $($computing)?);
                let map = $map::<T> { $($scalar: $scalar.to(),)* _computes: std::marker::PhantomData };
                $crate::tensor::loops::elementwise::run_in::<E, T, _, { [$(stringify!($x)),+].len() }>(launch, map)
            })
        }
    )*};
}
pub(crate) use functions;

/// Maps of values, for kernels that choose between several or have other results than `functions!`: each line makes a [`Map`].
///
/// `Map { parameters }, Bound => Output, |[inputs]| value;` The parameters are numbers of the computing type. `precise` before the
/// inputs: see [`Map::PRECISE_NUMBERS`].
///
/// [`Map`]: crate::tensor::loops::elementwise::Map
/// [`Map::PRECISE_NUMBERS`]: crate::tensor::loops::elementwise::Map::PRECISE_NUMBERS
macro_rules! maps {
    ($($(#[$doc:meta])* $map:ident $({ $($field:ident),+ })?, $bound:ident => $output:ty, $($precise:ident)? |[$($x:ident),+]| $body:expr;)*) => {$(
        $crate::ops::pointwise::kernel::maps! { @type [$(#[$doc])*] $map $({ $($field),+ })? }

        impl<T: $bound> $crate::tensor::loops::elementwise::Map<T, { [$(stringify!($x)),+].len() }>
            for $crate::ops::pointwise::kernel::maps!(@name $map $({ $($field),+ })?)
        {
            type Output = $output;
            const PRECISE_NUMBERS: bool = $crate::ops::pointwise::kernel::maps!(@is $($precise)?);

            #[inline(always)]
            fn apply(self, [$($x),+]: [T; { [$(stringify!($x)),+].len() }]) -> $output {
                $(let Self { $($field),+ } = self;)?
                $body
            }
        }
    )*};
    (@type [$($doc:tt)*] $map:ident) => { $($doc)* #[derive(Clone, Copy)] struct $map; };
    (@type [$($doc:tt)*] $map:ident { $($field:ident),+ }) => { $($doc)* #[derive(Clone, Copy)] struct $map<T> { $($field: T),+ } };
    (@name $map:ident) => { $map };
    (@name $map:ident { $($field:ident),+ }) => { $map<T> };
    (@is) => { false };
    (@is precise) => { true };
}
pub(crate) use maps;

/// The computing type for an element type.
macro_rules! computing {
    ($element:ident) => {
        <$element as $crate::tensor::dtype::Element>::Approximate
    };
    ($element:ident $computing:ident) => {
        <$element as $crate::tensor::dtype::Element>::$computing
    };
}
pub(crate) use computing;
