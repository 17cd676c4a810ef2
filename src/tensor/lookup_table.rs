//! Lookup tables of functions of one 16 bit float. Such a type has 65,536 values, so an expensive function is computed once for
//! each of them and looked up from then on.
//!
//! The kernel itself fills the table, so the bits of a result do not depend on the table.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::loops::table_lookup::{self, LookupTable};
use super::op::Run;
use super::{DType, Error, Flags, INLINE_SCALARS, Launch, Layout, Scalar, View, of_views};
use crate::runtime::sync::Mutex;
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

/// True if the launch is large, and from a 16 bit float to the same dtype.
fn is_eligible(launch: &Launch<'_>) -> bool {
    let dtype = launch.compute();
    let fits = |index: usize| launch.dtype(index) == dtype && launch.flags(index) == Flags::default();
    matches!(dtype, DType::Half | DType::BFloat16)
        && launch.num_operands() == 2
        && launch.scalars().len() <= INLINE_SCALARS
        && launch.numel(0) >= MIN_LOOKED_UP
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
    let numel = launch.numel(0);
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
    let table = Box::<LookupTable>::try_from(values.into_boxed_slice()).map_err(|_| Error::new("a table has another length"))?;
    Ok(table.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{self, Case, Make, any_bits, doubles};
    use crate::tensor::HALVES;

    /// The bytes of the results for a tensor of this many elements.
    fn results(make: &Make, name: &str, scalars: &[f64], count: usize) -> Vec<u8> {
        let case =
            Case::new([make.output(&[count])], [make.of(make.dtype(), &any_bits(make.dtype(), &[count], 1))], doubles(scalars));
        case.run(name, make.dtype()).unwrap().remove(0)
    }

    /// Every element alone is computed, not looked up.
    #[test]
    fn tables_hold_what_kernels_compute_in_any_layout() {
        for (name, scalars) in [("lgamma", &[][..]), ("logit", &[0.125]), ("softplus", &[2.0, 5.0])] {
            for dtype in HALVES.iter() {
                let looked_up = results(&Make::plain(dtype), name, scalars, LOOKUP_TABLE_WORTH);
                let computed = results(&Make::plain(dtype), name, scalars, MIN_LOOKED_UP / 2);
                assert!(looked_up.starts_with(&computed[..]), "{name} {dtype:?}");
            }
            check::agree_if(name, HALVES, None, 0.0, |make| {
                let sizes = [MIN_LOOKED_UP / 8, 9];
                let input = make.of(make.dtype(), &any_bits(make.dtype(), &sizes, 2));
                Case { is_pointwise: true, ..Case::new([make.output(&sizes)], [input], doubles(scalars)) }
            });
        }
    }

    #[test]
    fn parameters_have_tables_of_their_own() {
        let of = |exponent: f64| results(&Make::plain(DType::BFloat16), "pow_scalar", &[exponent], LOOKUP_TABLE_WORTH);
        let (first, second) = (of(1.5), of(2.5));
        assert!(first != second && first == of(1.5) && second == of(2.5));
    }

    #[test]
    fn only_the_functions_used_last_are_remembered() {
        for turn in 0..MAX_LOOKUP_TABLES + 8 {
            results(&Make::plain(DType::BFloat16), "pow_scalar", &[turn as f64 + 0.25], MIN_LOOKED_UP);
        }
        assert!(FUNCTIONS.lock().len() <= MAX_LOOKUP_TABLES);
    }
}
