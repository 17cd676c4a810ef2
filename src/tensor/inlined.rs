//! `inlined!`: short methods of a trait, one line each.

/// Methods that are one expression each, inlined into every loop.
macro_rules! inlined {
    ($(fn $name:ident$(<const $constant:ident: $kind:ty>)?($($parameter:tt)*) -> $result:ty = $value:expr;)*) => {$(
        #[inline(always)]
        fn $name$(<const $constant: $kind>)?($($parameter)*) -> $result {
            $value
        }
    )*};
}
pub(crate) use inlined;
