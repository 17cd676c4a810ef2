//! Lookup of 16 bit values in a table of all results of a function: [`run`].

use super::elementwise::{Types, drive};
use crate::tensor::{Error, Launch};

/// The result for every pattern of 16 bits.
pub type LookupTable = [u16; 1 << 16];

/// Nanoseconds of one thread per element: two loads and a store.
const COST: f64 = 0.35;

/// Looks up the launch's operands [out, x], both of the launch's dtype, which must have 16 bits.
pub fn run(launch: &Launch<'_>, table: &LookupTable) -> Result<(), Error> {
    let dtype = launch.compute();
    if dtype.size() != size_of::<u16>() || (0..launch.num_operands()).any(|index| launch.view(index).dtype() != dtype) {
        return Err(Error::new(format!("a table of 16 bit values for {dtype:?}")));
    }
    let types = Types { input: dtype, output: dtype, inputs: 1 };
    drive(&launch.with_cost(COST), types, &|output, inputs, count, _| {
        // SAFETY: `drive` provides `count` readable elements of the input and as many writable ones of the output, which are the
        // elements of the input or do not overlap it.
        unsafe { look_up(inputs[0].cast(), output.cast(), count, table) };
    })
}

/// Scalar code for every instruction set: vector gathers take longer.
///
/// # Safety
/// `input` must have `count` readable and `output` as many writable elements, identical or disjoint.
unsafe fn look_up(input: *const u16, output: *mut u16, count: usize, table: &LookupTable) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        let result = table[unsafe { input.wrapping_add(index).read_unaligned() } as usize];
        // SAFETY: as above.
        unsafe { output.wrapping_add(index).write_unaligned(result) };
    }
}
