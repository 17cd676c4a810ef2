//! Kernels of hardware, by the operator's name. rustdev's own kernels compute on the processor what the hardware has none for.
//!
//! A backend for hardware makes one [`Kernels`], adds its kernels, and has it run the tasks that [`Hardware::launch`] receives:
//!
//! ```
//! use rustdev::hardware_kernels::{Call, Kernels};
//!
//! let mut kernels = Kernels::default();
//! kernels.add("relu", |call: &Call<'_>| {
//!     let [output, input] = call.operands() else { return Ok(false) };
//!     if input.dtype != "float32" || !(output.is_contiguous() && input.is_contiguous()) {
//!         return Ok(false);
//!     }
//!     // The hardware computes `output` here.
//!     Ok(true)
//! });
//! ```
//!
//! So every model runs from the first day, and [`counts`] says by operator who computed: `torch.<name>.hardware_kernels()`.
//!
//! [`Hardware::launch`]: crate::hardware::Hardware::launch
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use smallvec::SmallVec;

use crate::abi::rd_launch::KernelCall;
use crate::runtime::hardware::{Cause, HardwareTask};
use crate::runtime::sync::Mutex;
use crate::tensor::launch::{Launch, Scalar};

/// A tensor of a call.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The address of the first element, in the device's memory; a number among the operands lies in the host's.
    pub data: *mut u8,
    /// The dtype by its name in PyTorch: `float32`, `bfloat16`, `int64`.
    pub dtype: &'static str,
    /// Bytes of an element.
    pub item: usize,
    pub sizes: &'a [i64],
    /// In bytes.
    pub strides: &'a [i64],
    /// True if the kernel writes it. Outputs come first.
    pub is_output: bool,
}

impl Operand<'_> {
    pub fn numel(&self) -> usize {
        self.sizes.iter().map(|&size| usize::try_from(size).unwrap_or(0)).product()
    }

    /// True if the elements lie behind each other in the order of the dimensions.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = self.item;
        self.sizes.iter().zip(self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || usize::try_from(stride) == Ok(expected);
            expected *= usize::try_from(size).unwrap_or(0);
            fits
        })
    }
}

/// A call of a kernel: its tensors and numbers, in the order of the signature in the operator table.
#[derive(Debug)]
pub struct Call<'a> {
    name: &'static str,
    operands: SmallVec<[Operand<'a>; 6]>,
    scalars: &'a [Scalar],
}

impl<'a> Call<'a> {
    fn of(name: &'static str, launch: &'a Launch<'a>) -> Self {
        let operand = |index| {
            let view = launch.given(index)?;
            let dtype = view.dtype();
            Some(Operand {
                data: view.data(),
                dtype: dtype.torch_name(),
                item: dtype.size(),
                sizes: view.sizes(),
                strides: view.strides(),
                is_output: view.is_output(),
            })
        };
        Self { name, operands: (0..launch.num_operands()).filter_map(operand).collect(), scalars: launch.scalars() }
    }

    /// The kernel's name, mostly that of ATen's operator.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The tensors, outputs first. Optional ones that the call does not have are left out.
    pub fn operands(&self) -> &[Operand<'a>] {
        &self.operands
    }

    /// The number at an index, as f64; `None` if there are fewer.
    pub fn number(&self, index: usize) -> Option<f64> {
        self.scalars.get(index).map(|scalar| scalar.to())
    }
}

type Kernel = Box<dyn Fn(&Call<'_>) -> Result<bool, Cause> + Send + Sync>;

#[derive(Default)]
pub struct Kernels(HashMap<&'static str, Kernel>);

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Calls by name: on the hardware, and on the processor.
static COUNTS: Mutex<BTreeMap<&'static str, (u64, u64)>> = Mutex::new(BTreeMap::new());

impl Kernels {
    /// Adds or replaces the kernel of an operator.
    ///
    /// The kernel returns false, before it has written anything, for a call that it does not support: the processor computes it.
    /// An error is the failure of the task.
    pub fn add(&mut self, name: &'static str, kernel: impl Fn(&Call<'_>) -> Result<bool, Cause> + Send + Sync + 'static) {
        self.0.insert(name, Box::new(kernel));
    }

    /// Runs a task with the hardware's kernel, or else with the processor, and counts it. The caller finishes the task. Fails with
    /// the failure of the kernel.
    pub fn run(&self, task: &mut HardwareTask) -> Result<(), Cause> {
        let name = task.name();
        let mut served = Ok(false);
        if task.is_skipped() {
            return Ok(());
        }
        if let Some(kernel) = self.0.get(name) {
            task.begin();
            task.call(&mut |work| {
                if let Some(call) = work.downcast_ref::<KernelCall>() {
                    served = kernel(&Call::of(name, &call.launch()));
                }
            });
        }
        let served = served?;
        let mut counts = COUNTS.lock();
        let (hardware, processor) = counts.entry(name).or_default();
        *(if served { hardware } else { processor }) += 1;
        drop(counts);
        if served { Ok(()) } else { task.run() }
    }
}

/// The tasks that [`Kernels::run`] has run in this process, by name: how many on the hardware, and how many on the processor.
pub fn counts() -> Vec<(&'static str, u64, u64)> {
    COUNTS.lock().iter().map(|(&name, &(hardware, processor))| (name, hardware, processor)).collect()
}
