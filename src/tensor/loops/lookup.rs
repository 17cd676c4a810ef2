//! Elementwise functions of 16 bit values that are given by a table of all their results: [`run`].

use super::pointwise::{Types, drive};
use crate::tensor::launch::Launch;

/// The result for every pattern of 16 bits.
pub type Table = [u16; 1 << 16];

/// Nanoseconds of one thread per element: two loads and a store.
const COST: f64 = 0.35;

/// Runs the function over the launch's operands [out, x], both of the launch's dtype, which has 16 bits.
///
/// # Errors
/// The wrong number of operands, or another dtype.
pub fn run(launch: &Launch<'_>, table: &Table) -> Result<(), String> {
    let dtype = launch.compute();
    if dtype.size() != size_of::<u16>() || (0..launch.num_operands()).any(|index| launch.view(index).dtype() != dtype) {
        return Err(format!("a table of 16 bit values for {dtype:?}"));
    }
    let types = Types { input: dtype, output: dtype, inputs: 1 };
    drive(&launch.with_cost(COST), types, &|output, inputs, count| {
        // SAFETY: `drive` gives `count` readable elements at the input and as many writable ones at the output, which are the very
        // elements of the input or apart from it.
        unsafe { look_up(inputs[0].cast(), output.cast(), count, table) };
    })
}

/// Elements of a block.
const LANES: usize = 16;

/// For every processor: vectors would gather, which takes longer.
///
/// # Safety
/// `input` has `count` readable and `output` as many writable elements, at the same place or apart.
unsafe fn look_up(input: *const [u16; LANES], output: *mut [u16; LANES], count: usize, table: &Table) {
    let blocks = count / LANES;
    for block in 0..blocks {
        // All results of a block are known before the first is written: the output may be the input.
        // SAFETY: the caller's promise.
        let results = unsafe { input.wrapping_add(block).read_unaligned() }.map(|value| table[value as usize]);
        // SAFETY: as above.
        unsafe { output.wrapping_add(block).write_unaligned(results) };
    }
    let (input, output) = (input.wrapping_add(blocks).cast::<u16>(), output.wrapping_add(blocks).cast::<u16>());
    for index in 0..count % LANES {
        // SAFETY: as above.
        let result = table[unsafe { input.wrapping_add(index).read_unaligned() } as usize];
        // SAFETY: as above.
        unsafe { output.wrapping_add(index).write_unaligned(result) };
    }
}
