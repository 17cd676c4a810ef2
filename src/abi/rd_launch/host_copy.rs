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
use crate::runtime::memory;
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
    if source.flags().has(Flags::HOST) {
        let dtype = source.dtype();
        let packed = if is_packed(&source, dtype) { None } else { Some(steps.host_block(dtype)?) };
        if let Some(block) = &packed {
            steps.host(&block.0, dtype, &source, true)?;
        }
        let landed = if is_packed(&target, dtype) { None } else { Some(steps.device_block(dtype)?) };
        let (from, to) = (
            packed.as_ref().map_or(source.data(), |block| block.0.data),
            landed.as_ref().map_or(target.data(), |block| block.0.data),
        );
        steps.transfer((to, Flags(0)), (from, Flags::HOST), dtype)?;
        landed.as_ref().map_or(Ok(()), |block| steps.device(&block.0, dtype, &target, false))
    } else {
        let dtype = target.dtype();
        let gathered = if is_packed(&source, dtype) { None } else { Some(steps.device_block(dtype)?) };
        if let Some(block) = &gathered {
            steps.device(&block.0, dtype, &source, true)?;
        }
        let landed = if is_packed(&target, dtype) { None } else { Some(steps.host_block(dtype)?) };
        let (from, to) = (
            gathered.as_ref().map_or(source.data(), |block| block.0.data),
            landed.as_ref().map_or(target.data(), |block| block.0.data),
        );
        steps.transfer((to, Flags::HOST), (from, Flags(0)), dtype)?;
        landed.as_ref().map_or(Ok(()), |block| steps.host(&block.0, dtype, &target, false))
    }
}

/// Whether an operand is the contiguous values of that dtype themselves.
fn is_packed(view: &View<'_>, dtype: DType) -> bool {
    let is_dense = view.numel() == 1 || view.is_dense_1d();
    is_dense && view.dtype() == dtype && !view.flags().has(Flags::CONJ) && !view.flags().has(Flags::NEG)
}

/// Contiguous memory in between.
struct Packed {
    data: *mut u8,
    flags: Flags,
}

/// Of the host: goes back to its pool once the stream has passed.
struct HostBlock(Packed, &'static Stream);

impl Drop for HostBlock {
    fn drop(&mut self) {
        // A block that the stream could not be recorded on, because its capture was invalidated, is one that no task uses.
        let _ = memory::record_host_stream(self.0.data, self.1);
        memory::free_host(self.0.data);
    }
}

/// Of the device.
struct DeviceBlock(Packed);

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        memory::free(self.0.data);
    }
}

/// What the steps of one copy have in common.
struct Steps {
    stream: &'static Stream,
    op: &'static Op,
    numel: usize,
}

impl Steps {
    fn host_block(&self, dtype: DType) -> Result<HostBlock, Failure> {
        let data = memory::allocate_host(self.numel * dtype.size())?;
        Ok(HostBlock(Packed { data, flags: Flags::HOST }, self.stream))
    }

    fn device_block(&self, dtype: DType) -> Result<DeviceBlock, Failure> {
        let data = memory::allocate(self.stream.device(), self.stream, self.numel * dtype.size())?;
        Ok(DeviceBlock(Packed { data, flags: Flags(0) }))
    }

    /// A copy between a block and an operand, into the block or from it.
    fn between(&self, block: &Packed, dtype: DType, operand: &View<'_>, into: bool) -> Result<KernelCall, Failure> {
        let mut strides = vec![dtype.size() as i64; operand.ndim()];
        for dim in (1..operand.ndim()).rev() {
            strides[dim - 1] = strides[dim] * operand.sizes()[dim];
        }
        // SAFETY: the block has as many elements of the dtype as the operand, and is there until the stream has passed.
        let packed = unsafe { View::new(block.data, dtype, block.flags, operand.sizes(), &strides) }.map_err(invalid)?;
        let operands = if into { [packed, *operand] } else { [*operand, packed] };
        let record = Record::new(self.op.layout(), &operands, 1, &[], None).map_err(invalid)?;
        Ok(KernelCall { op: self.op, record })
    }

    /// A step of the host.
    fn host(&self, block: &Packed, dtype: DType, operand: &View<'_>, into: bool) -> Result<(), Failure> {
        let call = self.between(block, dtype, operand, into)?;
        Ok(self.stream.submit(Task::host(self.op.text(), call))?)
    }

    /// A step of the device.
    fn device(&self, block: &Packed, dtype: DType, operand: &View<'_>, into: bool) -> Result<(), Failure> {
        self.kernel(self.between(block, dtype, operand, into)?)
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
