//! [`Op`]: a row of the operator table, which is a kernel with its name, its signature and its cost.

#![forbid(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{DType, DTypeSet, Error, Launch, Layout, Scalar, Signature, lookup_table};

/// A kernel's function: runs one launch. The text of an error is for the user.
pub type Run = fn(&Launch<'_>) -> Result<(), Error>;

/// A kernel: its function and its signature.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    pub run: Run,
    pub signature: Signature,
}

/// The cost of a launch on one thread.
#[derive(Clone, Copy)]
pub enum Cost {
    /// Nanoseconds per element of the index space.
    Element(f64),
    /// Nanoseconds per element of a list of tensors; the launch's first scalar is the number of tensors.
    List(f64),
    /// Nanoseconds of the launch.
    Launch(fn(&Launch<'_>) -> u64),
}

pub struct Op {
    pub(crate) name: &'static CStr,
    text: &'static str,
    kernel: Run,
    signature: Signature,
    layout: Layout,
    cost: Cost,
    /// Nanoseconds per element of complex numbers, if they differ from [`Cost::Element`].
    complex_cost: Option<f64>,
    /// True if results for 16 bit floats may come from a lookup table.
    has_lookup_table: bool,
    /// True if it is elementwise over lists of tensors, so that any piece of a launch can run separately.
    is_piecewise: bool,
    calls: AtomicU64,
}

/// A string literal that ends with NUL, as a C string.
pub const fn c(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("names are ASCII"),
    }
}

const fn text(name: &'static CStr) -> &'static str {
    match name.to_str() {
        Ok(text) => text,
        Err(_) => panic!("names are ASCII"),
    }
}

/// An elementwise operator. Reductions count as such: their outputs have stride 0 in the reduced dimensions.
pub(crate) const fn op(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    let (layout, cost) = (Layout::Elementwise, Cost::Element(cost));
    let (text, calls) = (text(name), AtomicU64::new(0));
    let Kernel { run: kernel, signature } = kernel;
    Op { name, text, kernel, signature, layout, cost, complex_cost: None, has_lookup_table: false, is_piecewise: false, calls }
}

/// An elementwise operator of one input whose result depends on the element and the scalars alone, and for 16 bit floats takes
/// longer than a lookup ([`lookup_table`]).
pub(crate) const fn function(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { has_lookup_table: true, ..op(name, kernel, cost) }
}

/// An operator whose operands have different sizes, or whose dimensions must not be merged.
pub(crate) const fn shaped(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { layout: Layout::Shaped, ..op(name, kernel, cost) }
}

/// An operator over lists of tensors. Its operands are the lists one after the other; its first scalar is the number of tensors of
/// a list.
pub(crate) const fn list(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { cost: Cost::List(cost), ..shaped(name, kernel, 0.0) }
}

/// An elementwise operator over lists, of which the first ones are written, with at most one more operand.
pub(crate) const fn elementwise_list(name: &'static CStr, kernel: Kernel, cost: f64) -> Op {
    Op { is_piecewise: true, ..list(name, kernel, cost) }
}

/// An operator of operands of any sizes, with a function that computes its cost.
pub(crate) const fn costed(name: &'static CStr, kernel: Kernel, cost: fn(&Launch<'_>) -> u64) -> Op {
    Op { cost: Cost::Launch(cost), ..shaped(name, kernel, 0.0) }
}

/// Elements of the first list of a list operator's launch.
fn list_numel(launch: &Launch<'_>) -> usize {
    let tensors = launch.scalar_or(0, Scalar::Long(1)).to::<i64>() as usize;
    (0..tensors.min(launch.num_operands())).map(|index| launch.numel(index)).sum()
}

impl Op {
    /// The operator with another cost of an element of complex numbers, whose functions are scalar code.
    pub(crate) const fn in_complex(self, cost: f64) -> Self {
        Self { complex_cost: Some(cost), ..self }
    }

    /// The operator with fewer dtypes than its kernel supports.
    pub(crate) const fn only(self, dtypes: DTypeSet) -> Self {
        Self { signature: self.signature.only(dtypes), ..self }
    }

    /// Nanoseconds of an element that costs `cost` in real numbers.
    #[inline(always)]
    fn element_cost(&self, cost: f64, compute: DType) -> f64 {
        match self.complex_cost {
            Some(complex) if compute.is_complex() => complex,
            _ => cost,
        }
    }

    /// ATen's name, without namespace.
    #[inline]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The kernel's signature.
    #[inline(always)]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The dtypes that the kernel computes in.
    #[inline(always)]
    pub fn dtypes(&self) -> DTypeSet {
        self.signature.dtypes()
    }

    /// How its operands relate.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Estimated nanoseconds of one thread.
    #[inline]
    pub fn cost(&self, launch: &Launch<'_>) -> u64 {
        match self.cost {
            Cost::Element(cost) => (launch.numel(0) as f64 * self.element_cost(cost, launch.compute())) as u64,
            Cost::List(cost) => (list_numel(launch) as f64 * cost) as u64,
            Cost::Launch(cost) => cost(launch),
        }
    }

    /// [`Op::cost`] for a dense launch.
    #[inline]
    pub fn dense_cost(&self, numel: usize, launch: &Launch<'_>) -> u64 {
        match self.cost {
            Cost::Element(cost) => (numel as f64 * self.element_cost(cost, launch.compute())) as u64,
            Cost::List(cost) => (numel as f64 * cost) as u64,
            Cost::Launch(cost) => cost(launch),
        }
    }

    /// True if it is elementwise over lists of tensors, so that any piece of a launch can run separately.
    pub fn is_piecewise(&self) -> bool {
        self.is_piecewise
    }

    #[inline]
    pub fn run(&self, launch: &Launch<'_>) -> Result<(), Error> {
        match self.cost {
            Cost::Element(cost) if self.has_lookup_table => {
                lookup_table::run(self.text, self.kernel, &launch.with_cost(self.element_cost(cost, launch.compute())))
            }
            Cost::Element(cost) => (self.kernel)(&launch.with_cost(self.element_cost(cost, launch.compute()))),
            Cost::List(cost) => (self.kernel)(&launch.with_cost(cost)),
            Cost::Launch(_) => (self.kernel)(launch),
        }
    }

    /// How often the operator was launched; approximate if several threads launch it at once.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn count_call(&self) {
        // An atomic addition would cost as much as a small kernel.
        self.calls.store(self.calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}
