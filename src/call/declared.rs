//! The matrix products of tasks that PyTorch's kernels compute. The operator knows the sizes, and the submission, which the shim
//! makes during the operator's request, takes them from here.

use std::cell::Cell;

use crate::runtime::task::demand::Products;

thread_local! {
    static DECLARED: Cell<Option<Products>> = const { Cell::new(None) };
}

/// Makes a request of the shim, whose task computes these products.
pub fn during<R>(products: Products, request: impl FnOnce() -> R) -> R {
    let before = DECLARED.replace(Some(products));
    let result = request();
    DECLARED.set(before);
    result
}

/// The products of the task that this thread submits, if the operator has declared them.
pub fn products() -> Option<Products> {
    DECLARED.get()
}
