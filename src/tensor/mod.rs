//! Typed, checked views of operands and the loops over them.
