//! C ABI of the operator table's kernels.
//!
//! Dtypes are numbers of `c10::ScalarType`.

use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicU64;

use super::rd_device::device_index;
use super::{Failure, RD_INVALID_ARGUMENT, RD_UNSUPPORTED, guard, rd_status, rd_text};
use crate::call::callees::kernel;
use crate::ops::matmul::kernel::library;
#[allow(unused_imports, reason = "the type of a field, which C names")]
pub use crate::ops::matmul::kernel::library::Columns as rd_columns;
pub use crate::ops::matmul::kernel::library::Gemm as rd_gemm;
use crate::runtime::error::Cause;
use crate::runtime::hardware::{self, Transfer};
use crate::runtime::stream::Stream;
use crate::runtime::task::demand::Products;
use crate::runtime::task::{Access, Row, Shape, Span, Work};
use crate::runtime::trace::{About, Kind, MemoryKind};
use crate::runtime::{device, observers, pools};
use crate::tensor::flops;
use crate::tensor::loops::lists;
use crate::tensor::{
    Cell, DType, DTypeSet, Flags, INLINE_OPERANDS, INLINE_SCALARS, Launch, Op, Operands, Piece, Record, Scalar, View,
};

mod host_copy;

/// An entry of the operator table; it lives forever.
pub type rd_op = Op;

/// The operand's values are the conjugate of its memory's contents.
pub const RD_OPERAND_CONJ: u32 = 1;
/// The operand's values are the negative of its memory's contents.
pub const RD_OPERAND_NEG: u32 = 2;
/// The operand is in host memory, pinned or pageable.
pub const RD_OPERAND_HOST: u32 = 4;
/// The operand is one host element that is read during the call: a 0-dim CPU tensor or a number.
pub const RD_OPERAND_IMMEDIATE: u32 = 8;
const _: () = assert!(
    RD_OPERAND_CONJ == Flags::CONJ.0 as u32
        && RD_OPERAND_NEG == Flags::NEG.0 as u32
        && RD_OPERAND_HOST == Flags::HOST.0 as u32
        && RD_OPERAND_IMMEDIATE == Flags::IMMEDIATE.0 as u32
);

/// One operand: contiguous elements or, with the flag `RD_OPERAND_IMMEDIATE`, one element.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rd_operand {
    pub data: *mut c_void,
    pub dtype: i32,
    pub flags: u32,
}

/// A value of [`rd_scalar`]'s `dtype`: `integer` is the address of a 64-bit cell from [`rd_generator_draw`], which is read at each
/// run.
pub const RD_SCALAR_CELL: i32 = -2;

/// A non-tensor parameter; `dtype` is Long, Double, ComplexDouble, Bool or `RD_SCALAR_CELL`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct rd_scalar {
    pub dtype: i32,
    pub integer: i64,
    pub real: f64,
    pub imaginary: f64,
}

/// Arguments of a launch, borrowed for the call.
#[repr(C)]
pub struct rd_launch_args {
    /// Outputs first.
    pub operands: *const rd_operand,
    pub num_operands: usize,
    pub num_outputs: usize,
    /// Parameters of the operator, in the order that the kernel documents.
    pub scalars: *const rd_scalar,
    pub num_scalars: usize,
    /// The dtype to compute in: operands are cast to it before the kernel and from it afterwards.
    pub compute_dtype: i32,
    /// The number of elements of every operand, at least 1.
    pub numel: i64,
}

/// The entry of the operator table with that name; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn rd_op_find(name: rd_text) -> Option<&'static rd_op> {
    Op::find(name.given()?.to_bytes())
}

/// The compute dtypes that the kernel supports, as a bit set indexed by `c10::ScalarType`.
#[unsafe(no_mangle)]
pub extern "C" fn rd_op_dtypes(op: &rd_op) -> u64 {
    op.dtypes().0
}

/// Fails unless the scalars in the operator's signature have these names, which are joined by `, `.
#[unsafe(no_mangle)]
pub extern "C" fn rd_op_check_scalars(op: &rd_op, names: rd_text) -> rd_status {
    guard(|| {
        let names = names.lossy();
        if op.signature().names_scalars(&names) {
            return Ok(());
        }
        let (name, signature) = (op.text(), op.signature().text());
        Err(invalid(format!("{name} takes {signature}, and is bound with the scalars [{names}]")))
    })
}

/// Computes a product; returns false if it cannot.
pub type rd_gemm_run = unsafe extern "C" fn(product: *const rd_gemm) -> bool;

/// Registers a library's GEMM for these dtypes (a bit set indexed by `c10::ScalarType`), which is used where it is faster. Only the
/// first call has an effect.
///
/// # Safety
/// `run` reads and writes only what a product describes, may be called from several threads at once, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_gemm_register(dtypes: u64, run: rd_gemm_run) {
    // SAFETY: the caller's promise about `run`; the matrices are in the memory of the launch, which the kernel may access.
    library::register(DTypeSet(dtypes), move |product| unsafe { run(product) });
}

/// Enqueues an elementwise kernel over dense operands on this thread's current stream of the device. After `RD_UNSUPPORTED`
/// nothing was done.
///
/// # Safety
/// The arguments' arrays have as many elements as stated. The operands' memory stays valid in the stream's order; nothing else
/// writes to it or reads outputs outside of that order. An output shares memory with another operand only if the kernel permits it,
/// and then element for element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rd_launch(op: &'static rd_op, device: i32, args: &rd_launch_args) -> rd_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { launch(op, device, args) }
    })
}

/// As [`rd_launch`].
///
/// # Safety
/// As [`rd_launch`].
#[inline(always)]
unsafe fn launch(op: &'static Op, device: i32, args: &rd_launch_args) -> Result<(), Failure> {
    // SAFETY: the caller promises the arrays; `slice` checks null.
    let operands = unsafe { slice(args.operands, args.num_operands) }?;
    // SAFETY: as above.
    let scalars = unsafe { slice(args.scalars, args.num_scalars) }?;
    if args.numel < 1 {
        return Err(invalid(format!("{}: {} elements", op.text(), args.numel)));
    }
    operands.iter().try_for_each(check)?;
    let launched = Launched {
        op,
        device,
        compute: dtype(args.compute_dtype)?,
        num_outputs: args.num_outputs,
        dense_numel: args.numel,
        operands: Checked { operands, numel: &args.numel },
        num_scalars: scalars.len(),
        scalar: |index: usize| scalar(&scalars[index]),
    };
    // SAFETY: the caller's promise.
    unsafe { launched.launch() }
}

/// The parts of a launch before it is made into a task.
pub(super) struct Launched<O, S> {
    pub op: &'static Op,
    pub device: i32,
    pub compute: DType,
    pub num_outputs: usize,
    /// If positive, the launch is dense: every operand is this many contiguous elements, or an immediate.
    pub dense_numel: i64,
    /// Outputs first.
    pub operands: O,
    pub num_scalars: usize,
    /// Returns a scalar by its index.
    pub scalar: S,
}

impl<'a, O: Operands<'a>, S: Fn(usize) -> Result<Scalar, Failure>> Launched<O, S> {
    /// Checks the launch and enqueues it.
    ///
    /// # Safety
    /// As [`rd_launch`], for the operands' memory.
    #[inline(always)]
    pub(super) unsafe fn launch(&self) -> Result<(), Failure> {
        let &Self { op, num_outputs, num_scalars, .. } = self;
        let (stream, num_operands) = (device::current_stream(device_index(self.device)?), self.operands.count());
        if num_outputs == 0 || num_outputs > num_operands {
            return Err(invalid(format!("{}: {num_outputs} outputs of {num_operands} operands", op.text())));
        }
        if !op.signature().takes(num_operands, num_scalars) {
            return Err(wrong_number(op, num_operands, num_scalars));
        }
        if !op.dtypes().contains(self.compute) {
            return Err(not_implemented(op, self.compute));
        }
        op.count_call();
        let is_small = num_operands <= INLINE_OPERANDS && num_scalars <= INLINE_SCALARS;
        if self.dense_numel > 0 && is_small { self.launch_dense(stream) } else { self.launch_any(stream) }
    }

    /// Enqueues a dense launch; every value is written once, directly to its final place.
    #[inline(always)]
    fn launch_dense(&self, stream: &'static Stream) -> Result<(), Failure> {
        let &Self { op, dense_numel, .. } = self;
        let mut work = KernelCall { op, record: Record::dense(dense_numel, self.num_outputs, self.compute) };
        self.push_scalars(&mut work)?;
        for index in 0..self.operands.count() {
            let operand = self.operands.get(index);
            // SAFETY: an immediate operand points at one readable element, as `View::new` requires.
            unsafe { work.record.push_dense(operand.data(), operand.dtype(), operand.flags()) };
        }
        let cost = op.dense_cost(dense_numel as usize, &work.launch());
        Ok(stream.launch(op.text(), cost, &mut work)?)
    }

    /// Enqueues a launch of any layout.
    #[inline(always)]
    fn launch_any(&self, stream: &'static Stream) -> Result<(), Failure> {
        let op = self.op;
        let mut work = KernelCall { op, record: Record::empty(self.num_outputs, self.compute) };
        let filled = work.record.fill(op.layout(), &self.operands, self.num_scalars);
        filled.map_err(|error| invalid(format!("{}: {error}", op.text())))?;
        self.push_scalars(&mut work)?;
        work.enqueue(stream)
    }

    #[inline(always)]
    fn push_scalars(&self, work: &mut KernelCall) -> Result<(), Failure> {
        for index in 0..self.num_scalars {
            work.record.push_scalar((self.scalar)(index)?);
        }
        Ok(())
    }
}

/// A kernel launch as the work of a task.
#[derive(Clone)]
pub struct KernelCall {
    op: &'static Op,
    record: Record,
}

impl KernelCall {
    /// A launch of a kernel over the operands of a record.
    ///
    /// # Safety
    /// The record has as many operands and scalars as the kernel's signature, and a dtype that it computes in. The operands' memory
    /// is valid in the stream's order, and no output names an element twice.
    #[cfg(feature = "internals")]
    pub unsafe fn new(op: &'static Op, record: Record) -> Self {
        Self { op, record }
    }

    /// Enqueues the launch.
    ///
    /// # Errors
    /// If the stream refuses it, or there is no memory for a copy between host and installed hardware.
    #[inline(always)]
    pub fn enqueue(&mut self, stream: &'static Stream) -> Result<(), Failure> {
        if hardware::is_installed() && !observers::is_dry() && host_copy::is_meant(self) {
            return host_copy::submit(stream, self);
        }
        let cost = self.op.cost(&self.launch());
        Ok(stream.launch(self.op.text(), cost, self)?)
    }

    /// The kernel's entry of the operator table.
    pub fn op(&self) -> &'static Op {
        self.op
    }

    /// The operands and scalars, as the kernel sees them.
    #[inline(always)]
    pub fn launch(&self) -> Launch<'_> {
        // SAFETY: the callers of the functions that launch promise that the operands' memory is valid in the stream's order, which
        // covers the lifetime of the task. The stream runs a task once at a time, and other uses of its launch only describe it.
        // The pieces of a launch are disjoint and never call `Launch::output`.
        unsafe { self.record.launch() }
    }

    /// For a copy: the memory kinds of source and target, and whether both are contiguous and of one dtype. `None` for other
    /// kernels.
    fn copied(&self) -> Option<(MemoryKind, MemoryKind, bool)> {
        if self.op.text() != "copy_" {
            return None;
        }
        let launch = self.launch();
        let (output, source) = (launch.view(0), launch.view(1));
        let is_dense = |view: &View<'_>| view.numel() == 1 || view.is_dense_1d();
        let is_plain = source.dtype() == output.dtype() && is_dense(&source) && is_dense(&output);
        Some((memory_kind(&source, &output), memory_kind(&output, &source), is_plain))
    }
}

impl Work for KernelCall {
    fn run(&mut self) -> Result<(), Cause> {
        Ok(self.op.run(&self.launch())?)
    }

    /// A copy to the host writes zeros.
    fn skip(&mut self) -> Result<(), Cause> {
        let launch = self.launch();
        let target = launch.view(0);
        if self.op.text() != "copy_" || !target.flags().has(Flags::HOST) {
            return Ok(());
        }
        let op = kernel!(c"zero_");
        let record = Record::new(op.layout(), &[target], 1, &[], None).map_err(|error| error.to_string())?;
        Self { op, record }.run()
    }

    fn operands(&self, visit: &mut dyn FnMut(Access, Option<Shape<'_>>)) {
        self.launch().for_each_accessed(&mut |begin, end, write, view| {
            let (dtype, address) = (view.dtype(), view.data() as usize);
            let shape = Shape {
                dtype: dtype.torch_name(),
                item: dtype.size(),
                begin: address,
                sizes: view.sizes(),
                strides: view.strides(),
            };
            visit(Access { begin, end, write }, Some(shape));
        });
    }

    fn products(&self) -> Option<Products> {
        flops::of(self.op.text(), &self.launch())
    }

    fn row(&self) -> Option<&dyn Row> {
        if self.op.is_piecewise() { Some(self) } else { None }
    }

    fn output_byte(&self, random: u64) -> Option<usize> {
        let launch = self.launch();
        let outputs: Vec<_> = (0..launch.num_outputs()).map(|index| launch.view(index)).collect();
        let total: usize = outputs.iter().map(View::numel).sum();
        let mut index = (random % total.max(1) as u64) as usize;
        for view in outputs {
            if index < view.numel() {
                let byte = (random >> 32) as usize % view.dtype().size();
                return Some(view.address(index) + byte);
            }
            index -= view.numel();
        }
        None
    }

    fn about(&self) -> About {
        let launch = self.launch();
        let output = launch.view(0);
        let bytes = (output.numel() * output.dtype().size()) as u64;
        match (self.op.text(), self.copied()) {
            // As on GPUs, a device-to-device copy that changes dtype or layout counts as a kernel.
            (_, Some((MemoryKind::Device, MemoryKind::Device, false))) => About::kind(Kind::Kernel),
            (_, Some((from, to, _))) => About { kind: Kind::Copy(from, to), bytes },
            ("fill_" | "zero_", None) => About { kind: Kind::Fill, bytes },
            _ => About::kind(Kind::Kernel),
        }
    }

    fn transfer(&self) -> Option<Transfer> {
        let (from, to, _) = self.copied().filter(|(.., is_plain)| *is_plain)?;
        let launch = self.launch();
        let (output, source) = (launch.view(0), launch.view(1));
        let is_same = |flag| source.flags().has(flag) == output.flags().has(flag);
        let moves = is_same(Flags::CONJ) && is_same(Flags::NEG) && !source.flags().has(Flags::IMMEDIATE);
        let bytes = output.numel() * output.dtype().size();
        let transfer = Transfer { source: source.data() as usize, from, target: output.data() as usize, to, bytes };
        (moves && bytes > 0).then_some(transfer)
    }

    fn call(&self, visit: &mut dyn FnMut(&dyn Any)) {
        visit(self);
    }
}

/// The memory kind of an operand of a copy, relative to the other operand.
fn memory_kind(operand: &View<'_>, other: &View<'_>) -> MemoryKind {
    if operand.flags().has(Flags::HOST) {
        let pinned = pools::host().is_pinned(operand.data() as usize);
        return if pinned { MemoryKind::Pinned } else { MemoryKind::Pageable };
    }
    let (device, beside) = (pools::device_of(operand.data()), pools::device_of(other.data()));
    if beside.is_some() && device != beside { MemoryKind::Peer } else { MemoryKind::Device }
}

/// A launch of an elementwise kernel over lists of tensors.
impl Row for KernelCall {
    fn ends(&self) -> Option<Vec<usize>> {
        lists::row(&self.launch())
    }

    fn spans(&self, visit: &mut dyn FnMut(Span)) {
        lists::spans(&self.launch(), visit);
    }

    fn run_piece(&self, ends: &[usize], range: Range<usize>) -> Result<(), Cause> {
        Ok(self.op.run(&self.launch().with_piece(Piece { ends, begin: range.start, end: range.end }))?)
    }
}

#[cold]
fn invalid(message: String) -> Failure {
    Failure::new(RD_INVALID_ARGUMENT, message)
}

#[cold]
fn wrong_number(op: &Op, operands: usize, scalars: usize) -> Failure {
    let (name, signature) = (op.text(), op.signature().text());
    invalid(format!("{name} takes {signature}, not {operands} operands and {scalars} scalars"))
}

#[cold]
fn not_implemented(op: &Op, compute: DType) -> Failure {
    Failure::new(RD_UNSUPPORTED, format!("{}: not implemented for {compute:?}", op.text()))
}

/// Checks an operand's dtype and pointer, which [`Checked`] relies on.
#[inline(always)]
fn check(operand: &rd_operand) -> Result<(), Failure> {
    dtype(operand.dtype)?;
    if operand.data.is_null() { Err(invalid("an operand has no memory".into())) } else { Ok(()) }
}

/// Operands that [`check`] has accepted. Their views are made on each access, which is cheaper than storing them.
struct Checked<'a> {
    operands: &'a [rd_operand],
    numel: &'a i64,
}

impl<'a> Operands<'a> for Checked<'a> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.operands.len()
    }

    #[inline(always)]
    fn get(&self, index: usize) -> View<'a> {
        let rd_operand { data, dtype, flags } = self.operands[index];
        let dtype = DType::from_number(dtype).unwrap_or(DType::Byte);
        // SAFETY: `check` has accepted the operand, and the caller of `rd_launch` promises the memory.
        unsafe { View::from_checked(data.cast(), dtype, Flags(flags as u8), std::slice::from_ref(self.numel), dtype.size_word()) }
    }
}

#[inline(always)]
pub(super) fn dtype(number: i32) -> Result<DType, Failure> {
    match DType::from_number(number) {
        Some(dtype) => Ok(dtype),
        None => Err(unknown_dtype(number)),
    }
}

/// The refusal of a dtype that only a newer PyTorch has; no kernel supports it.
#[cold]
fn unknown_dtype(number: i32) -> Failure {
    Failure::new(RD_UNSUPPORTED, format!("unknown dtype {number}"))
}

#[inline(always)]
pub(super) fn scalar(value: &rd_scalar) -> Result<Scalar, Failure> {
    if value.dtype == RD_SCALAR_CELL {
        return cell(value.integer);
    }
    match DType::from_number(value.dtype) {
        Some(DType::Long) => Ok(Scalar::Long(value.integer)),
        Some(DType::Double) => Ok(Scalar::Double(value.real)),
        Some(DType::ComplexDouble) => Ok(Scalar::Complex(value.real, value.imaginary)),
        Some(DType::Bool) => Ok(Scalar::Bool(value.integer != 0)),
        _ => Err(invalid(format!("a scalar of dtype {}", value.dtype))),
    }
}

#[cold]
fn cell(address: i64) -> Result<Scalar, Failure> {
    let cell = ptr::with_exposed_provenance::<AtomicU64>(address as usize);
    // SAFETY: a scalar of this kind holds an address that `rd_generator_draw` gave, of a cell that is never freed, or null by
    // mistake.
    unsafe { cell.as_ref() }.map(|cell| Scalar::Cell(Cell(cell))).ok_or_else(|| invalid("a scalar's cell is null".into()))
}

/// # Safety
/// `data` is null or points at `count` readable elements, which nobody modifies meanwhile.
unsafe fn slice<'a, T>(data: *const T, count: usize) -> Result<&'a [T], Failure> {
    match (data.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(invalid(format!("null where {count} values are needed"))),
        // SAFETY: the caller promises `count` readable elements.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(data, count) }),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::super::rd_device::rd_init;
    use super::super::{RD_OK, rd_last_error};
    use super::*;

    fn operand(data: &mut [f32]) -> rd_operand {
        rd_operand { data: data.as_mut_ptr().cast(), dtype: DType::Float as i32, flags: 0 }
    }

    fn launch(name: &str, operands: &[rd_operand], num_outputs: usize, compute: DType, numel: i64) -> rd_status {
        let (num_operands, compute_dtype) = (operands.len(), compute as i32);
        let (operands, scalars, num_scalars) = (operands.as_ptr(), ptr::null(), 0);
        let args = rd_launch_args { operands, num_operands, num_outputs, scalars, num_scalars, compute_dtype, numel };
        assert_eq!(rd_init(), RD_OK);
        // SAFETY: the operands outlive the synchronisation that each test ends with.
        unsafe { rd_launch(Op::find(name.as_bytes()).unwrap(), 0, &args) }
    }

    #[test]
    fn an_operator_runs_on_the_stream() {
        let (mut lhs, mut rhs, mut product) = ([1f32, 2.0, 3.0], [10f32, 20.0, 30.0], [0f32; 3]);
        let operands = [&mut product, &mut lhs, &mut rhs].map(|data| operand(data));
        let before = Op::find(b"mul").unwrap().calls();
        assert_eq!(launch("mul", &operands, 1, DType::Float, 3), RD_OK);
        device::get(0).unwrap().synchronize().unwrap();
        assert_eq!(product, [10.0, 40.0, 90.0]);
        assert!(Op::find(b"mul").unwrap().calls() > before);
    }

    #[test]
    fn an_immediate_is_read_during_the_call() {
        let mut target = [0f32; 5];
        let mut value = 2.5f32;
        let mut operands = [operand(&mut target), operand(std::slice::from_mut(&mut value))];
        operands[1].flags = RD_OPERAND_IMMEDIATE;
        assert_eq!(launch("fill_", &operands, 1, DType::Float, 5), RD_OK);
        value = 0.0;
        device::get(0).unwrap().synchronize().unwrap();
        assert_eq!((target, value), ([2.5; 5], 0.0));
    }

    #[test]
    fn wrong_launches_are_refused_with_a_text() {
        let mut data = [0f32; 3];
        let operands = [operand(&mut data); 3];
        assert_eq!(launch("mul", &operands, 1, DType::Float, 0), RD_INVALID_ARGUMENT);
        assert_eq!(rd_text(rd_last_error()).lossy(), "mul: 0 elements");
        assert_eq!(launch("mul", &operands, 1, DType::QInt8, 3), RD_UNSUPPORTED);
        assert_eq!(launch("add", &operands, 1, DType::Float, 3), RD_INVALID_ARGUMENT, "without its scalar");
        assert_eq!(launch("mul", &operands[..2], 1, DType::Float, 3), RD_INVALID_ARGUMENT);
        assert_eq!(launch("mul", &[], 1, DType::Float, 3), RD_INVALID_ARGUMENT);
        let unknown = rd_operand { data: ptr::null_mut(), ..operands[0] };
        assert_eq!(launch("mul", &[operands[0], operands[1], unknown], 1, DType::Float, 3), RD_INVALID_ARGUMENT);
    }

    #[test]
    fn scalars_of_other_names_are_refused() {
        let op = Op::find(b"elu").unwrap();
        let check = |names: &CStr| rd_op_check_scalars(op, rd_text(names.as_ptr()));
        assert_eq!(check(c"alpha, scale, input_scale"), RD_OK);
        assert_eq!(check(c"scale, alpha, input_scale"), RD_INVALID_ARGUMENT);
        let text = rd_text(rd_last_error());
        assert!(text.lossy().starts_with("elu takes (out; x)[alpha, scale, input_scale], and is bound with"), "{text:?}");
        assert_eq!(check(c""), RD_INVALID_ARGUMENT);
    }
}
