//! [`Signature`]: the operands, scalars and dtypes of a kernel. It is declared once, beside the kernel, by [`signature!`] or a
//! macro that makes kernels.
//!
//! The operator table, the checks of a launch and the shim's bindings are derived from it.

#![forbid(unsafe_code)]

use smallvec::SmallVec;

use super::{DTypeSet, Error, Launch, Output, View};

/// The minimum and maximum of a count; a maximum of [`u16::MAX`] means any.
#[derive(Clone, Copy)]
struct Range {
    least: u16,
    most: u16,
}

impl Range {
    #[inline(always)]
    const fn holds(self, count: usize) -> bool {
        self.least as usize <= count && (count <= self.most as usize || self.most == u16::MAX)
    }
}

/// A kernel's operands and scalars by name, in order, and the dtypes that it computes in.
#[derive(Clone, Copy)]
pub struct Signature {
    text: &'static str,
    dtypes: DTypeSet,
    operands: Range,
    scalars: Range,
}

impl Signature {
    /// Parses a text such as `(out, mean?; x, weight?, ..more)[alpha, ..numbers]`: outputs before the semicolon and inputs behind
    /// it, a question mark makes an operand optional, and a name after two dots stands for any number of operands or scalars.
    pub const fn new(text: &'static str, dtypes: DTypeSet) -> Self {
        let bytes = text.as_bytes();
        let mut split = 0;
        while bytes[split] != b'[' {
            split += 1;
        }
        Self { text, dtypes, operands: count(bytes, 0, split), scalars: count(bytes, split, bytes.len()) }
    }

    /// The text on one line.
    pub fn text(&self) -> String {
        // The compiler breaks long texts into lines.
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The dtypes that the kernel computes in.
    #[inline(always)]
    pub const fn dtypes(&self) -> DTypeSet {
        self.dtypes
    }

    /// The same signature with other dtypes.
    pub const fn only(self, dtypes: DTypeSet) -> Self {
        Self { dtypes, ..self }
    }

    /// The signature of the same kernel over lists of tensors.
    pub const fn of_lists(self) -> Self {
        Self::new("(..lists)[tensors, ..more]", self.dtypes)
    }

    /// True if the scalars' names, joined by `, `, are these. A scalar that the kernel ignores may be declared with a leading
    /// underscore.
    pub fn names_scalars(&self, names: &str) -> bool {
        let own = self.text.rsplit_once('[').map_or("", |(_, scalars)| scalars.trim_end_matches(']'));
        own.split(',').map(|name| name.trim().trim_start_matches('_')).eq(names.split(", "))
    }

    /// True if a launch may have these numbers of operands and scalars.
    #[inline(always)]
    pub const fn takes(&self, operands: usize, scalars: usize) -> bool {
        self.operands.holds(operands) && self.scalars.holds(scalars)
    }
}

/// The range of the number of names between two positions of the text.
const fn count(bytes: &[u8], begin: usize, end: usize) -> Range {
    let (mut least, mut most, mut is_any) = (0, 0, false);
    let (mut is_name, mut is_optional, mut is_repeated, mut index) = (false, false, false, begin + 1);
    while index < end {
        match bytes[index] {
            b'.' => is_repeated = true,
            b'?' => is_optional = true,
            b',' | b';' | b')' | b']' => {
                least += (is_name && !is_optional && !is_repeated) as u16;
                most += is_name as u16;
                is_any |= is_repeated;
                (is_name, is_optional, is_repeated) = (false, false, false);
            }
            byte => is_name |= !byte.is_ascii_whitespace(),
        }
        index += 1;
    }
    Range { least, most: if is_any { u16::MAX } else { most } }
}

/// All remaining operands of a launch.
pub type Rest<'a> = SmallVec<[View<'a>; 4]>;

/// A field of a kernel's `Operands`: an output, an input, an optional one of either, or all remaining operands.
pub trait Operand<'a>: Sized {
    /// The operand at an index of the launch. Fails if the operand is not given and not optional, is an input where an output is
    /// expected or the reverse, or is an output that is already taken.
    fn of(launch: &Launch<'a>, index: usize) -> Result<Self, Error>;
}

impl<'a> Operand<'a> for Option<View<'a>> {
    #[inline]
    fn of(launch: &Launch<'a>, index: usize) -> Result<Self, Error> {
        if index < launch.num_outputs() {
            return Err(Error::new(format!("operand {index} is an output")));
        }
        Ok(launch.given(index))
    }
}

impl<'a> Operand<'a> for View<'a> {
    #[inline]
    fn of(launch: &Launch<'a>, index: usize) -> Result<Self, Error> {
        Option::of(launch, index)?.ok_or_else(|| Error::new(format!("operand {index} is missing")))
    }
}

impl<'a> Operand<'a> for Output<'a> {
    #[inline]
    fn of(launch: &Launch<'a>, index: usize) -> Result<Self, Error> {
        launch.output(index)
    }
}

impl<'a> Operand<'a> for Option<Output<'a>> {
    #[inline]
    fn of(launch: &Launch<'a>, index: usize) -> Result<Self, Error> {
        let output = launch.output(index)?;
        Ok(launch.given(index).map(|_| output))
    }
}

impl<'a> Operand<'a> for Rest<'a> {
    fn of(launch: &Launch<'a>, index: usize) -> Result<Self, Error> {
        Ok((index..launch.num_operands()).map(|index| launch.view(index)).collect())
    }
}

/// Declares the signatures of a module's kernels: `kernel(outputs; inputs)[scalars] in DTYPES;`, with sets of dtypes joined by a
/// bar.
///
/// For each kernel this makes a module of its name, with its [`Signature`] and two structs: `Operands` with a field for each
/// operand (an [`Output`], a [`View`], or an option of one if the operand is optional), and `Scalars`.
///
/// A line `kernel(..)[..] in DTYPES => |launch| body;` makes the kernel as well. With `|launch, T|` the body is compiled for each
/// of the dtypes, and `T` is the type of the computing dtype.
macro_rules! signature {
    ($(
        $(#[$doc:meta])*
        $kernel:ident($($operands:tt)*)[$($scalars:tt)*] in $($set:ident)|+ $(=> |$launch:ident $(, $type:ident)?| $body:expr)?;
    )*) => {$(
        $crate::tensor::signature::signature! {
            @declare $kernel, concat!("(", stringify!($($operands)*), ")[", stringify!($($scalars)*), "]"),
            [$($operands)*], [$($scalars)*], $($set)|+
        }
        $crate::tensor::signature::signature! {
            @define [$(#[$doc])*] $kernel, [$($set)|+] $(, $launch, [$($type)?], $body)?
        }
    )*};
    (@define [$($doc:tt)*] $kernel:ident, [$($set:ident)|+]) => {};
    (@define [$($doc:tt)*] $kernel:ident, [$($set:ident)|+], $launch:ident, [$($type:ident)?], $body:expr) => {
        $($doc)*
        pub fn $kernel($launch: &$crate::tensor::launch::Launch<'_>) -> Result<(), $crate::tensor::kernel_error::Error> {
            $crate::tensor::signature::signature!(@body $launch, [$($type)?], [$($set)|+], $body)
        }
    };
    (@body $launch:ident, [], [$($set:ident)|+], $body:expr) => { $body };
    (@body $launch:ident, [$type:ident], [$($set:ident)|+], $body:expr) => {{
        let dtype = $launch.compute();
        $crate::tensor::dtype::dispatch!(dtype in $($set)|+, $type => $body)
    }};
    // A question mark binds `$optional_..`, which nothing else binds, so that a repetition over it repeats the question mark.
    (
        @declare $kernel:ident, $text:expr,
        [
            $($output:ident $(? $(@ $optional_output:ident)?)?),* $(.. $all:ident)?
            $(; $($input:ident $(? $(@ $optional_input:ident)?)?),* $(,)? $(.. $rest:ident)?)?
        ],
        [$($scalar:ident),* $(,)? $(..$more:ident)?], $($set:ident)|+
    ) => {
        #[doc = concat!("What [`", stringify!($kernel), "`]($kernel()) takes.")]
        #[allow(dead_code, reason = "helpers of kernels are in no row of the table, and generic loops take operands by position")]
        #[allow(clippy::module_inception, clippy::pub_underscore_fields, reason = "kernels have the names that they have")]
        pub mod $kernel {
            use $crate::tensor::signature::{Operand, Signature};
            use $crate::tensor::dtype::DTypeSet;
            use $crate::tensor::kernel_error::Error;
            use $crate::tensor::launch::Launch;

            /// The operands, scalars and dtypes.
            pub const SIGNATURE: Signature = Signature::new($text, DTypeSet::of(&[])$(.and($crate::tensor::dtype::$set))+);

            /// The operands of a launch.
            pub struct Operands<'a> {
                $(pub $output: $crate::tensor::signature::signature!(
                    @field $(? $($optional_output)?)? $crate::tensor::output::Output<'a>
                ),)*
                $(pub $all: $crate::tensor::signature::Rest<'a>,)?
                $(
                    $(pub $input: $crate::tensor::signature::signature!(
                        @field $(? $($optional_input)?)? $crate::tensor::view::View<'a>
                    ),)*
                    $(pub $rest: $crate::tensor::signature::Rest<'a>,)?
                )?
            }

            impl<'a> Operands<'a> {
                /// Takes the operands of `launch`.
                #[inline]
                pub fn of(launch: &Launch<'a>) -> Result<Self, Error> {
                    let mut indices = 0..;
                    let mut next = || indices.next().unwrap_or(usize::MAX);
                    Ok(Self {
                        $($output: Operand::of(launch, next())?,)*
                        $($all: Operand::of(launch, next())?,)?
                        $($($input: Operand::of(launch, next())?,)* $($rest: Operand::of(launch, next())?,)?)?
                    })
                }
            }

            /// The scalars of a launch.
            pub struct Scalars {
                $(pub $scalar: $crate::tensor::launch::Scalar,)*
            }

            impl Scalars {
                /// The scalars of `launch`.
                #[inline]
                pub fn of(launch: &Launch<'_>) -> Result<Self, Error> {
                    let [$($scalar),*] = launch.first_scalars()?;
                    Ok(Self { $($scalar),* })
                }

                /// The scalars in the order of a launch.
                pub fn list(&self) -> [$crate::tensor::launch::Scalar; <[&str]>::len(&[$(stringify!($scalar)),*])] {
                    [$(self.$scalar),*]
                }
            }
        }
    };
    (@field ? $type:ty) => { Option<$type> };
    (@field $type:ty) => { $type };
}
pub(crate) use signature;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::FLOATING;

    fn takes(text: &'static str, operands: usize, scalars: usize) -> bool {
        Signature::new(text, FLOATING).takes(operands, scalars)
    }

    #[test]
    fn a_signature_counts_its_names() {
        assert!(takes("(out, x)[alpha]", 2, 1));
        assert!(!takes("(out, x)[alpha]", 3, 1) && !takes("(out, x)[alpha]", 2, 0) && !takes("(out, x)[alpha]", 2, 2));
        assert!(takes("(out)[]", 1, 0) && !takes("(out)[]", 1, 1));
    }

    #[test]
    fn scalars_are_compared_by_name_and_order() {
        let is_called = |text, names: &str| Signature::new(text, FLOATING).names_scalars(names);
        assert!(is_called("(out, x)[alpha, _dim]", "alpha, dim") && is_called("(out, x)[]", ""));
        assert!(
            !is_called("(out, x)[alpha, beta]", "beta, alpha") && !is_called("(out, x)[alpha]", "") && !is_called("(out)[]", "dim")
        );
    }

    #[test]
    fn operands_may_be_missing_or_any_number() {
        let text = "(out; x, weight_1?, bias?)[eps]";
        assert!((2..=4).all(|operands| takes(text, operands, 1)) && !takes(text, 1, 1) && !takes(text, 5, 1));
        let text = "(out; .. inputs)[dim,\n.. sizes]";
        assert!(takes(text, 1, 1) && takes(text, 900, 7) && !takes(text, 0, 1) && !takes(text, 2, 0));
        assert!(takes("(..lists)[..sizes]", 0, 0) && takes("(..lists)[..sizes]", 9, 70_000));
    }
}
