//! Copies between host and installed hardware that change dtype or layout. They are split into steps so that only a transfer of
//! contiguous bytes touches both memories.
//!
//! | direction | steps |
//! |---|---|
//! | to the device | the host packs its elements; a transfer; the device casts and scatters them |
//! | to the host | the device gathers and casts its elements; a transfer; the host unpacks them |
//!
//! The bytes are transferred in the host's dtype, and a step that has nothing to do is omitted. The host's step is a host function
//! of the stream. The staging blocks are freed right after submission; their pools reuse them in the order of the stream.

use super::{Failure, KernelCall, invalid};
use crate::runtime::pools;
use crate::runtime::stream::Stream;
use crate::runtime::task::{Task, Work};
use crate::tensor::{DType, Flags, Op, Record, View};

/// True if a launch is such a copy.
pub(super) fn is_meant(call: &KernelCall) -> bool {
    let launch = call.launch();
    if call.op().text() != "copy_" || launch.num_operands() != 2 {
        return false;
    }
    let (target, source) = (launch.view(0), launch.view(1));
    let is_host = |view: &View<'_>| view.flags().has(Flags::HOST);
    !source.flags().has(Flags::IMMEDIATE) && target.numel() > 0 && is_host(&target) != is_host(&source) && call.transfer().is_none()
}

/// Submits the steps of such a copy to the stream.
///
/// # Errors
/// If there is no memory for a staging block, or the stream refuses a task.
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

/// The address that the transfer uses for an operand: its staging block, or its own memory.
fn place(operand: &View<'_>, block: Option<&StagingBlock>) -> (*mut u8, Flags) {
    block.map_or((operand.data(), side(operand)), |block| (block.data, block.flags))
}

/// The flag of the memory that an operand is in.
fn side(operand: &View<'_>) -> Flags {
    if operand.flags().has(Flags::HOST) { Flags::HOST } else { Flags::default() }
}

/// True if an operand is contiguous, of that dtype, and neither conjugated nor negated.
fn is_packed(view: &View<'_>, dtype: DType) -> bool {
    let is_dense = view.numel() == 1 || view.is_dense_1d();
    is_dense && view.dtype() == dtype && !view.flags().has(Flags::CONJ) && !view.flags().has(Flags::NEG)
}

/// A staging block of host or device memory. When dropped, it goes back to its pool, which reuses it in the order of the stream.
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
        // If the stream cannot be recorded because its capture was invalidated, no task uses the block.
        let _ = pools::record_host_stream(self.data, self.stream);
        pools::free_host(self.data);
    }
}

/// The common data of the steps of one copy.
struct Steps {
    stream: &'static Stream,
    op: &'static Op,
    numel: usize,
}

impl Steps {
    /// A staging block in the operand's memory, if the operand is not packed.
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

    /// Copies between a staging block and its operand (`into`: to the block), on the side that both are on.
    fn between(&self, block: &StagingBlock, dtype: DType, operand: &View<'_>, into: bool) -> Result<(), Failure> {
        let mut strides = vec![dtype.size() as i64; operand.ndim()];
        for dim in (1..operand.ndim()).rev() {
            strides[dim - 1] = strides[dim] * operand.sizes()[dim];
        }
        // SAFETY: the block has as many elements of the dtype as the operand, and stays valid until the stream has run the task.
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
            // SAFETY: neither operand is an immediate.
            unsafe { record.push_dense(data, dtype, flags) };
        }
        self.kernel(KernelCall { op: self.op, record })
    }

    fn kernel(&self, call: KernelCall) -> Result<(), Failure> {
        let cost = self.op.cost(&call.launch());
        Ok(self.stream.submit(Task::new(self.op.text(), cost, call))?)
    }
}
