//! Lookup tables of functions of one 16 bit float. Such a type has 65,536 values, so an expensive function is computed once for
//! each of them and looked up from then on.
//!
//! The kernel itself fills the table, so the bits of a result do not depend on the table.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::table::Run;
use crate::runtime::sync::Mutex;
use crate::tensor::dtype::DType;
use crate::tensor::kernel_error::Error;
use crate::tensor::launch::{INLINE_SCALARS, Launch, Layout, Scalar, of_views};
use crate::tensor::loops::table_lookup::{self, LookupTable};
use crate::tensor::view::{Flags, View};
use crate::tuning::algorithms::{LOOKUP_TABLE_WORTH, MAX_LOOKUP_TABLES, MIN_LOOKED_UP};

/// Values of a 16 bit type.
const VALUES: usize = 1 << 16;

/// A function: an operator with its scalars, for one dtype.
struct Function {
    operator: &'static str,
    dtype: DType,
    scalars: Vec<Scalar>,
    /// Elements of all calls while there was no table.
    seen: usize,
    table: Option<Arc<LookupTable>>,
}

impl Function {
    fn is(&self, operator: &str, launch: &Launch<'_>) -> bool {
        self.operator == operator
            && self.dtype == launch.compute()
            && self.scalars.len() == launch.scalars().len()
            && self.scalars.iter().zip(launch.scalars()).all(|(ours, theirs)| ours.is_identical(*theirs))
    }
}

/// The functions in the order of their last use.
static FUNCTIONS: Mutex<Vec<Function>> = Mutex::new(Vec::new());

/// Runs an elementwise kernel [out, x] whose results depend on the element and the scalars alone, or looks the results up.
pub fn run(operator: &'static str, kernel: Run, launch: &Launch<'_>) -> Result<(), Error> {
    if !is_eligible(launch) {
        return kernel(launch);
    }
    let table = match find(operator, launch) {
        Found::Filled(table) => table,
        Found::Nothing => return kernel(launch),
        // The table is filled without the lock: a thread that waits for pieces of its loop runs other tasks meanwhile, which may
        // take the lock.
        Found::Worth => {
            let table = fill(kernel, launch)?;
            keep(operator, launch, &table);
            table
        }
    };
    table_lookup::run(launch, &table)
}

/// Whether the launch is large, and from a 16 bit float to the same dtype.
fn is_eligible(launch: &Launch<'_>) -> bool {
    let dtype = launch.compute();
    let fits = |index: usize| {
        let view = launch.view(index);
        view.dtype() == dtype && view.flags() == Flags::default()
    };
    matches!(dtype, DType::Half | DType::BFloat16)
        && launch.num_operands() == 2
        && launch.scalars().len() <= INLINE_SCALARS
        && launch.view(0).numel() >= MIN_LOOKED_UP
        && fits(0)
        && fits(1)
}

enum Found {
    Filled(Arc<LookupTable>),
    /// There is no table, and it is time to make one.
    Worth,
    Nothing,
}

/// Finds the function; counts the launch's elements if it has no table.
fn find(operator: &'static str, launch: &Launch<'_>) -> Found {
    let numel = launch.view(0).numel();
    let mut functions = FUNCTIONS.lock();
    let mut function = if let Some(position) = functions.iter().rposition(|function| function.is(operator, launch)) {
        functions.remove(position)
    } else {
        if functions.len() == MAX_LOOKUP_TABLES {
            functions.remove(0);
        }
        Function { operator, dtype: launch.compute(), scalars: launch.scalars().to_vec(), seen: 0, table: None }
    };
    function.seen = function.seen.saturating_add(numel);
    let found = match &function.table {
        Some(table) => Found::Filled(Arc::clone(table)),
        None if function.seen >= LOOKUP_TABLE_WORTH => Found::Worth,
        None => Found::Nothing,
    };
    functions.push(function);
    found
}

/// Keeps the table, unless the function has been forgotten meanwhile.
fn keep(operator: &str, launch: &Launch<'_>, table: &Arc<LookupTable>) {
    if let Some(function) = FUNCTIONS.lock().iter_mut().rfind(|function| function.is(operator, launch)) {
        function.table = Some(Arc::clone(table));
    }
}

/// The kernel's results for all 65,536 values, in the order of their bits.
fn fill(kernel: Run, launch: &Launch<'_>) -> Result<Arc<LookupTable>, Error> {
    let mut values: Vec<u16> = (0..=u16::MAX).collect();
    let (size, compute) = ([VALUES as i64], launch.compute());
    let operands = [View::of_words(&mut values, compute, &size)?; 2];
    of_views(Layout::Elementwise, &operands, 1, launch.scalars(), Some(compute), |all| kernel(&all.with_cost(launch.cost())))?;
    let table =
        Box::<LookupTable>::try_from(values.into_boxed_slice()).map_err(|_| Error::operands("a table has another length"))?;
    Ok(table.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::check::{self, Strides, Tensor};
    use crate::kernels::table::{Op, TABLE};

    /// The scalars of the operators that have some.
    fn scalars(name: &str) -> &'static [Scalar] {
        match name {
            "logit" => &[Scalar::Double(0.125)],
            "pow_scalar" => &[Scalar::Double(1.7)],
            "softplus" => &[Scalar::Double(2.0), Scalar::Double(5.0)],
            _ => &[],
        }
    }

    /// The operator's results for these bit patterns.
    fn results(name: &str, dtype: DType, scalars: &[Scalar], bits: impl Iterator<Item = u16>) -> Vec<u16> {
        let input = Tensor::of_bits(dtype, &bits.collect::<Vec<_>>());
        let output = Tensor::new(dtype, &[input.view().numel()], Strides::Contiguous);
        check::run(name, &[&output], &[&input], scalars, dtype).unwrap();
        output.bits()
    }

    /// The results for every bit pattern, repeated until the tensor is large enough to get a lookup table.
    fn looked_up(name: &str, dtype: DType, scalars: &[Scalar]) -> Vec<u16> {
        results(name, dtype, scalars, (0..LOOKUP_TABLE_WORTH).map(|index| index as u16))
    }

    #[test]
    fn tables_hold_what_kernels_compute() {
        let functions: Vec<_> = TABLE.iter().filter(|op| op.has_lookup_table()).map(Op::text).collect();
        assert!(functions.len() > 20);
        for name in functions {
            for dtype in [DType::Half, DType::BFloat16] {
                let values: Vec<u16> = (0..=u16::MAX).collect();
                let computed: Vec<u16> = values
                    .chunks(MIN_LOOKED_UP / 2)
                    .flat_map(|some| results(name, dtype, scalars(name), some.iter().copied()))
                    .collect();
                assert!(looked_up(name, dtype, scalars(name)) == computed.repeat(LOOKUP_TABLE_WORTH / VALUES), "{name} {dtype:?}");
            }
        }
    }

    #[test]
    fn parameters_have_tables_of_their_own() {
        let of = |exponent: f64| looked_up("pow_scalar", DType::BFloat16, &[Scalar::Double(exponent)]);
        let (first, second) = (of(1.5), of(2.5));
        assert!(first != second);
        assert!(first == of(1.5) && second == of(2.5));
    }

    #[test]
    fn any_layout_is_looked_up() {
        let (sizes, dtype) = ([512, 1024], DType::BFloat16);
        let values = check::values(dtype, &sizes, 1);
        for strides in Strides::ALL {
            let (input, output) = (Tensor::of(dtype, &values, strides), Tensor::new(dtype, &sizes, Strides::Sliced));
            check::run("softplus", &[&output], &[&input], scalars("softplus"), dtype).unwrap();
            for (found, x) in output.values().iter().zip(&input.values()) {
                let expected = check::real(if 2.0 * x.re > 5.0 { x.re } else { (2.0 * x.re).exp().ln_1p() / 2.0 });
                assert!(check::close(*found, expected, check::tolerance(dtype)), "{strides:?} {x}: {found}");
            }
        }
    }

    #[test]
    fn only_the_functions_used_last_are_remembered() {
        for turn in 0..MAX_LOOKUP_TABLES + 8 {
            looked_up("pow_scalar", DType::BFloat16, &[Scalar::Double(turn as f64 + 0.25)]);
        }
        assert!(FUNCTIONS.lock().len() <= MAX_LOOKUP_TABLES);
    }
}
