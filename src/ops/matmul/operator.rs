//! Matrix products. The kernels get [output, a, b], or [output, addend, a, b] and the scalars [beta, alpha]; the addend has the
//! output's sizes.
//!
//! For calls without `out=` whose operands match, sizes are computed here. All others use PyTorch's meta function, which raises
//! the errors.

use crate::call::prelude::*;

operators! {
    c"mm": any_dtype(structured(typed!(multiply::<2>))) => c"mm", c"mm.out";
    c"bmm": any_dtype(structured(typed!(multiply::<3>))) => c"bmm", c"bmm.out";
    c"addmm": any_dtype(structured(multiply_and_add::<2, 2>)) => c"addmm", c"addmm_", c"addmm.out";
    c"baddbmm": any_dtype(structured(multiply_and_add::<3, 3>)) => c"baddbmm", c"baddbmm_", c"baddbmm.out";
    c"addmv": any_dtype(structured(multiply_and_add::<2, 1>)) => c"addmv", c"addmv_", c"addmv.out";
}

/// The operands of a product; `ndims`: the required numbers of dimensions of `a` and `b`.
struct Product<'a> {
    ndims: [usize; 2],
    addend: Option<Tensor<'a>>,
    a: Tensor<'a>,
    b: Tensor<'a>,
}

impl<'a> Product<'a> {
    fn operands(&self) -> impl Iterator<Item = Tensor<'a>> {
        self.addend.into_iter().chain([self.a, self.b])
    }

    /// The output's sizes for matrices, batches of matrices, or matrix and vector; `None` if the operands do not fit.
    fn sizes(&self, call: &Call<'a>) -> Option<&'a [i64]> {
        if [self.a.ndim(), self.b.ndim()] != self.ndims {
            return None;
        }
        let (a, b) = (self.a.sizes(), self.b.sizes());
        let sizes = match (a, b) {
            (&[m, k], &[other, n]) if k == other => call.arena().keep_all(2, |dim| [m, n][dim]),
            (&[batch, m, k], &[batches, other, n]) if k == other && batch == batches => {
                call.arena().keep_all(3, |dim| [batch, m, n][dim])
            }
            (&[m, k], &[other]) if k == other => call.arena().keep_all(1, |_| m),
            _ => return None,
        };
        self.addend.is_none_or(|addend| addend.expand(sizes).is_some()).then_some(sizes)
    }

    fn output(&self, call: &Call<'a>) -> Result<Tensor<'a>, CallError> {
        let has_one_dtype = self.operands().all(|operand| operand.dtype() == self.a.dtype());
        match self.sizes(call) {
            Some(sizes) if has_one_dtype && call.given(0).is_none() => call.contiguous(0, sizes, self.a.dtype(), Strides::Shared),
            _ => call.output(0, &call.shape()?, Strides::Shared),
        }
    }

    /// An error if the output overlaps itself, or the addend without being the same tensor. Self-overlap is allowed for batches
    /// and vectors without another addend.
    fn check_overlap(&self, out: Tensor<'_>) -> Outcome {
        if out.ndim() == 2 {
            out.check_no_internal_overlap()?;
        }
        let Some(addend) = self.addend.filter(|addend| addend.handle() != out.handle()) else { return Ok(()) };
        out.check_no_internal_overlap()?;
        out.check_no_partial_overlap(addend)
    }

    fn launch(&self, call: &Call<'a>, factors: &[Scalar]) -> Outcome {
        check_same_device(call.given(0).into_iter().chain(self.operands()), "an operand", call.kernel_name())?;
        let out = self.output(call)?;
        // Checked by PyTorch's CPU kernels, and not by the meta functions.
        ensure!(self.a.dtype() == self.b.dtype());
        take_if(self.operands().all(|operand| operand.dtype() == out.dtype()) && call.takes(out.dtype()))?;
        let addend = self.addend.map(|addend| addend.expanded(out.sizes())).transpose()?;
        if out.numel() == 0 {
            return Ok(());
        }
        if call.given(0).is_some() {
            self.check_overlap(out)?;
        }
        factors.iter().try_for_each(|&factor| call.check_number(factor, out.dtype().opmath()))?;
        let multiply = |out: Tensor<'_>| match addend {
            Some(addend) => call.launch(&[out], &[addend, self.a, self.b], factors),
            None => call.launch(&[out], &[self.a, self.b], factors),
        };
        if call.given(0).is_some() && [self.a, self.b].into_iter().any(|factor| out.may_share_memory(factor)) {
            let product = call.empty(out.sizes(), out.dtype())?;
            multiply(product)?;
            return call.copy(out, product);
        }
        multiply(out)
    }
}

pub fn multiply<const NDIM: usize>(call: &Call<'_>, a: Tensor<'_>, b: Tensor<'_>) -> Outcome {
    Product { ndims: [NDIM; 2], addend: None, a, b }.launch(call, &[])
}

pub fn multiply_and_add<const A: usize, const B: usize>(arguments: &Arguments<'_>, call: &Call<'_>) -> Outcome {
    let (addend, a, b, beta, alpha) = arguments.typed()?;
    Product { ndims: [A, B], addend: Some(addend), a, b }.launch(call, &[beta, alpha])
}
