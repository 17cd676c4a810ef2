//! Copies between host and installed hardware that change dtype or layout, in steps of which one alone touches both memories: a transfer of
//! contiguous bytes.
//!
//! | direction | steps |
//! |---|---|
//! | to the device | the host packs its elements; a transfer; the device casts and scatters them |
//! | to the host | the device gathers and casts its elements; a transfer; the host unpacks them |
//!
//! Bytes go over in the host's dtype, and a step that has nothing to do is left out. What the host does is a host function of the stream.
//! The blocks in between go back to their pools at once, which reuse them in the order of the stream.

use super::{Failure, KernelCall, invalid};
use crate::kernels::table::Op;
use crate::runtime::pools;
use crate::runtime::stream::Stream;
use crate::runtime::task::{Task, Work};
use crate::tensor::dtype::DType;
use crate::tensor::launch::Record;
use crate::tensor::view::{Flags, View};

/// Whether a launch is such a copy.
pub(super) fn is_meant(call: &KernelCall) -> bool {
    let launch = call.launch();
    if call.op().text() != "copy_" || launch.num_operands() != 2 {
        return false;
    }
    let (target, source) = (launch.view(0), launch.view(1));
    let is_host = |view: &View<'_>| view.flags().has(Flags::HOST);
    !source.flags().has(Flags::IMMEDIATE) && target.numel() > 0 && is_host(&target) != is_host(&source) && call.transfer().is_none()
}

/// Puts the steps of such a copy on the stream.
///
/// # Errors
/// There is no memory for a block in between, or the stream refuses a task.
pub(super) fn submit(stream: &'static Stream, call: &KernelCall) -> Result<(), Failure> {
    let launch = call.launch();
    let (target, source) = (launch.view(0), launch.view(1));
    let steps = Steps { stream, op: call.op(), numel: target.numel() };
    let dtype = if source.flags().has(Flags::HOST) { source.dtype() } else { target.dtype() };
    let packed = steps.block_for(&source, dtype)?;
    if let Some(block) = &packed {
        steps.between(block, dtype, &source, true)?;
    }
    let landed = steps.block_for(&target, dtype)?;
    steps.transfer(place(&target, landed.as_ref()), place(&source, packed.as_ref()), dtype)?;
    landed.as_ref().map_or(Ok(()), |block| steps.between(block, dtype, &target, false))
}

/// Where the transfer finds an operand: in its block, or where it is.
fn place(operand: &View<'_>, block: Option<&StagingBlock>) -> (*mut u8, Flags) {
    block.map_or((operand.data(), side(operand)), |block| (block.data, block.flags))
}

/// The memory that an operand lies in.
fn side(operand: &View<'_>) -> Flags {
    if operand.flags().has(Flags::HOST) { Flags::HOST } else { Flags::default() }
}

/// Whether an operand is the contiguous values of that dtype themselves.
fn is_packed(view: &View<'_>, dtype: DType) -> bool {
    let is_dense = view.numel() == 1 || view.is_dense_1d();
    is_dense && view.dtype() == dtype && !view.flags().has(Flags::CONJ) && !view.flags().has(Flags::NEG)
}

/// Contiguous memory in between, of the host or the device. It goes back to its pool, which reuses it in the order of the stream.
struct StagingBlock {
    data: *mut u8,
    flags: Flags,
    stream: &'static Stream,
}

impl Drop for StagingBlock {
    fn drop(&mut self) {
        if !self.flags.has(Flags::HOST) {
            return pools::free(self.data);
        }
        // A block that the stream could not be recorded on, because its capture was invalidated, is one that no task uses.
        let _ = pools::record_host_stream(self.data, self.stream);
        pools::free_host(self.data);
    }
}

/// What the steps of one copy have in common.
struct Steps {
    stream: &'static Stream,
    op: &'static Op,
    numel: usize,
}

impl Steps {
    /// A block for an operand, on its side, if it is not packed.
    fn block_for(&self, operand: &View<'_>, dtype: DType) -> Result<Option<StagingBlock>, Failure> {
        if is_packed(operand, dtype) {
            return Ok(None);
        }
        let (bytes, flags) = (self.numel * dtype.size(), side(operand));
        let data = if flags.has(Flags::HOST) {
            pools::allocate_host(bytes)?
        } else {
            pools::allocate(self.stream.device(), self.stream, bytes)?
        };
        Ok(Some(StagingBlock { data, flags, stream: self.stream }))
    }

    /// A copy between a block and its operand, into the block or from it, by the side that both are on.
    fn between(&self, block: &StagingBlock, dtype: DType, operand: &View<'_>, into: bool) -> Result<(), Failure> {
        let mut strides = vec![dtype.size() as i64; operand.ndim()];
        for dim in (1..operand.ndim()).rev() {
            strides[dim - 1] = strides[dim] * operand.sizes()[dim];
        }
        // SAFETY: the block has as many elements of the dtype as the operand, and is there until the stream has passed.
        let packed = unsafe { View::new(block.data, dtype, block.flags, operand.sizes(), &strides) }
            .map_err(|error| invalid(error.to_string()))?;
        let operands = if into { [packed, *operand] } else { [*operand, packed] };
        let record = Record::new(self.op.layout(), &operands, 1, &[], None).map_err(|error| invalid(error.to_string()))?;
        let call = KernelCall { op: self.op, record };
        if block.flags.has(Flags::HOST) { Ok(self.stream.submit(Task::host(self.op.text(), call))?) } else { self.kernel(call) }
    }

    fn transfer(&self, to: (*mut u8, Flags), from: (*mut u8, Flags), dtype: DType) -> Result<(), Failure> {
        let mut record = Record::dense(self.numel as i64, 1, dtype);
        for (data, flags) in [to, from] {
            // SAFETY: neither side is an immediate number.
            unsafe { record.push_dense(data, dtype, flags) };
        }
        self.kernel(KernelCall { op: self.op, record })
    }

    fn kernel(&self, call: KernelCall) -> Result<(), Failure> {
        let cost = self.op.cost(&call.launch());
        Ok(self.stream.submit(Task::new(self.op.text(), cost, call))?)
    }
}
