//! [`Rule`]: what a guard demands of arguments, which it finds by their names in the schema.
//!
//! A pattern describes the sizes of a tensor, or the integers of a list, by terms: `_` is any size, and a name stands for the same
//! size in all patterns of a guard. `n+1` is one more than `n`, `n!` is not 0, `n?` may be missing, and `n..` is any number of
//! sizes. A count is a product of names and numbers, as `h*w`, to which 1 may be added.

use smallvec::SmallVec;

use super::Argument;
use crate::call::{CallError, Dims, Format, Outcome, Tensor, Value, ensure, wrap_dim};
use crate::tensor::Scalar;

type Name = &'static str;
/// A pattern of sizes, or a count.
type Pattern = &'static str;

/// A rule. An argument that is absent, or not in the schema, fulfils all but [`Rule::Given`].
#[derive(Debug)]
pub enum Rule {
    /// The sizes of a tensor, or the integers of a list, fit a pattern. A tensor without dimensions counts as one of size 1.
    Sizes(Name, Pattern),
    /// `before`, `along` and `after` stand for the tensor's sizes around the dimension that the second argument numbers.
    Along(Name, Name),
    /// The tensor has this many elements.
    Numel(Name, Pattern),
    SameDtype(Name, Name),
    Given(Name),
    /// The kernel ignores strides, and gets a contiguous copy if necessary.
    Contiguous(Name),
    /// The kernel gets these numbers in the place of NaN, infinity and negative infinity.
    Replaced(Name, [f64; 3]),
    /// No element is infinite or NaN.
    Finite(Name),
    /// The elements are at least 0 and less than a count: `IndexError`.
    Indices(Name, Pattern),
    /// The elements are at least 0, and those of each row have a sum of at most a count: `IndexError`.
    Sums(Name, Pattern),
    /// A list, or a tensor that serves as one, has as many lengths as the first count, from 0 to the second.
    Lengths(Name, Pattern, Pattern),
    /// The first elements of each row, as many as the second argument says, are classes below a count: `IndexError`. Rows are
    /// joined in a tensor of one dimension.
    Prefixes(Name, Name, Pattern),
    /// Elements of the output are at positions of the input, `output_size` divided by scales, that fit an int.
    Positions,
    /// Pivots of `LAPACK` are row numbers, counted from 1. Those of 2x2 blocks are negative and come in pairs.
    Pivots(Name),
    /// Elements of a written tensor do not share memory.
    Apart,
    /// No call is taken: `NotImplementedError`.
    Refused,
    /// Rules for calls in which a number or text is this, or is not this after `!`, or a tensor has elements (`some`).
    When(Name, &'static str, &'static [Rule]),
}

/// Returns a `RuntimeError` that names the operator unless the condition holds.
macro_rules! check {
    ($check:expr, $condition:expr, $($text:tt)+) => {
        $crate::call::ensure!($condition, "{}: {}", $check.operator, format_args!($($text)+))
    };
}
pub(super) use check;

/// Reads tensors in CPU memory.
pub trait Reader {
    /// The elements in row-major order, cast to integers as by PyTorch.
    fn integers(&self, tensor: Tensor<'_>) -> Vec<i64>;

    /// The least and the greatest element of an integer tensor; `None` if it is empty.
    fn minmax(&self, tensor: Tensor<'_>) -> Option<(i64, i64)>;

    /// True if no element is infinite or NaN.
    fn is_finite(&self, tensor: Tensor<'_>) -> bool;
}

/// A change to an argument before the kernel gets it: a copy with these numbers in place of NaN, infinity and negative infinity, or
/// else a contiguous copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub argument: usize,
    pub numbers: Option<[f64; 3]>,
}

/// The check of one call.
pub struct Check<'a> {
    pub operator: &'a str,
    schema: &'a [Argument],
    values: &'a [Value<'a>],
    pub reader: Option<&'a dyn Reader>,
    /// The sizes that names of patterns stand for.
    known: SmallVec<[(&'static str, Dims); 8]>,
    /// The change that rules have asked for.
    pub change: Option<Change>,
}

impl<'a> Check<'a> {
    pub fn new(operator: &'a str, schema: &'a [Argument], values: &'a [Value<'a>], reader: Option<&'a dyn Reader>) -> Self {
        Self { operator, schema, values, reader, known: SmallVec::new(), change: None }
    }

    pub fn all(&mut self, rules: &'static [Rule]) -> Outcome {
        rules.iter().try_for_each(|rule| self.one(rule))
    }

    fn one(&mut self, rule: &'static Rule) -> Outcome {
        match *rule {
            Rule::Sizes(name, pattern) => self.sizes(name, pattern),
            Rule::Along(name, dim) => self.along(name, dim),
            Rule::Numel(name, count) => {
                let Some(tensor) = self.tensor(name) else { return Ok(()) };
                let (numel, expected) = (tensor.numel(), self.count(count)?);
                check!(self, numel == expected, "expected {name} to have {expected} elements, but got {numel}");
                Ok(())
            }
            Rule::SameDtype(name, other) => {
                let (Some(one), Some(two)) = (self.tensor(name), self.tensor(other)) else { return Ok(()) };
                let (one, two) = (one.dtype(), two.dtype());
                check!(self, one == two, "expected {name} and {other} to have the same dtype, but got {one:?} and {two:?}");
                Ok(())
            }
            Rule::Given(name) => self.given(name).map(drop),
            Rule::Contiguous(name) => {
                let is_dense = self.tensor(name).is_none_or(|tensor| tensor.is_dense(Format::Contiguous));
                self.request(name, None, !is_dense);
                Ok(())
            }
            Rule::Replaced(name, numbers) => {
                self.request(name, Some(numbers), true);
                Ok(())
            }
            Rule::Finite(name) => {
                let is_finite = self.reader.zip(self.tensor(name)).is_none_or(|(reader, tensor)| reader.is_finite(tensor));
                check!(self, is_finite, "input tensor should not contain infs or NaNs");
                Ok(())
            }
            Rule::Indices(name, count) => {
                let ends = self.reader.zip(self.tensor(name)).and_then(|(reader, tensor)| reader.minmax(tensor));
                self.check_in_range(name, ends, self.count(count)?)
            }
            Rule::Sums(name, most) => self.sums(name, self.count(most)?),
            Rule::Lengths(name, count, most) => self.check_lengths(name, self.count(count)?, self.count(most)?),
            Rule::Prefixes(name, lengths, classes) => self.prefixes(name, lengths, self.count(classes)?),
            Rule::Positions => self.positions(),
            Rule::Pivots(name) => self.pivots(name),
            Rule::Apart => self.apart(),
            Rule::Refused => Err(CallError::Unsupported(format!("{}: not implemented for this device", self.operator))),
            Rule::When(name, value, rules) => self.all(if self.is(name, value) { rules } else { &[] }),
        }
    }

    // ---- arguments ----

    fn position(&self, name: &str) -> Option<usize> {
        self.schema.iter().position(|argument| argument.name == name)
    }

    pub fn find(&self, name: &str) -> &'a Value<'a> {
        self.position(name).map_or(&Value::None, |position| &self.values[position])
    }

    /// A tensor argument; `None` if it is absent.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'a>> {
        self.find(name).as_tensor()
    }

    /// A tensor argument; an error if it is absent.
    pub fn given(&self, name: &str) -> Result<Tensor<'a>, CallError> {
        self.tensor(name).ok_or_else(|| CallError::Invalid(format!("{}: expected {name} to be defined", self.operator)))
    }

    /// The integers of a list; none if it is absent.
    pub fn integers(&self, name: &str) -> &'a [i64] {
        self.find(name).get().unwrap_or_default()
    }

    /// The integers of a list, or of a tensor that serves as one; `None` if that has no values yet.
    fn lengths(&self, name: &str) -> Option<Vec<i64>> {
        self.tensor(name).map_or_else(|| Some(self.integers(name).to_vec()), |tensor| Some(self.reader?.integers(tensor)))
    }

    /// True if an argument is as [`Rule::When`] says.
    fn is(&self, name: &str, wanted: &str) -> bool {
        let (wanted, expected) = wanted.strip_prefix('!').map_or((wanted, true), |wanted| (wanted, false));
        let found = match self.find(name) {
            Value::Text(text) => *text == wanted,
            Value::Number(Scalar::Bool(flag)) => flag.to_string() == wanted,
            Value::Number(Scalar::Long(value)) => value.to_string() == wanted,
            Value::Tensor(tensor) => tensor.numel() != 0 && wanted == "some",
            _ => return false,
        };
        found == expected
    }

    /// Asks for a change to an argument if the condition holds.
    fn request(&mut self, name: &str, numbers: Option<[f64; 3]>, condition: bool) {
        let argument = self.position(name).filter(|_| condition);
        self.change = argument.map(|argument| Change { argument, numbers }).or(self.change);
    }

    // ---- patterns ----

    fn sizes(&mut self, name: Name, pattern: Pattern) -> Outcome {
        let sizes = match self.find(name) {
            Value::Tensor(tensor) if tensor.ndim() == 0 => &[1][..],
            Value::Tensor(tensor) => tensor.sizes(),
            Value::Integers(values) => values,
            _ => return Ok(()),
        };
        let fits = self.fits(pattern, sizes);
        check!(self, fits, "expected {name} of size ({pattern}), but got {sizes:?} where {:?}", self.known);
        Ok(())
    }

    /// The sizes that a name stands for.
    fn known(&self, name: &str) -> Option<&Dims> {
        self.known.iter().find(|(known, _)| *known == name).map(|(_, sizes)| sizes)
    }

    /// True if sizes fit a pattern; its new names then stand for them. At most one term takes a number of sizes that is not known.
    fn fits(&mut self, pattern: Pattern, sizes: &[i64]) -> bool {
        let count_of = |check: &Self, term: &str| match term.strip_suffix("..") {
            Some(name) => check.known(name).map(SmallVec::len),
            None => (!term.ends_with('?')).then_some(1),
        };
        let fixed: usize = pattern.split(' ').filter_map(|term| count_of(self, term)).sum();
        let Some(others) = sizes.len().checked_sub(fixed) else { return false };
        let mut rest = sizes;
        for term in pattern.split(' ') {
            let count = count_of(self, term).unwrap_or(others);
            if count > rest.len() || !self.takes(term, &rest[..count]) {
                return false;
            }
            rest = &rest[count..];
        }
        rest.is_empty()
    }

    /// True if a term fits these sizes.
    fn takes(&mut self, term: &'static str, sizes: &[i64]) -> bool {
        let name = term.trim_end_matches(['?', '!', '.']);
        let (name, more) = name.strip_suffix("+1").map_or((name, 0), |name| (name, 1));
        let wrong = (term.ends_with('?') && sizes.len() > 1) || (term.ends_with('!') && sizes == [0]);
        if wrong || sizes.iter().any(|&size| size < more) {
            return false;
        }
        let is_missing = term.ends_with('?') && sizes.is_empty();
        let sizes: Dims = sizes.iter().map(|size| size - more).collect();
        match self.known(name) {
            _ if name == "_" => true,
            Some(known) => is_missing || *known == sizes,
            None => {
                self.known.push((name, sizes));
                true
            }
        }
    }

    fn along(&mut self, name: Name, dim: Name) -> Outcome {
        let sizes = self.given(name)?.sizes();
        check!(self, !sizes.is_empty(), "expected {name} to have dimensions");
        let at = wrap_dim(self.find(dim).get()?, sizes.len())?;
        for (part, sizes) in [("before", &sizes[..at]), ("along", &sizes[at..=at]), ("after", &sizes[at + 1..])] {
            self.known.push((part, sizes.into()));
        }
        Ok(())
    }

    fn count(&self, count: Pattern) -> Result<i64, CallError> {
        let (product, more) = count.strip_suffix("+1").map_or((count, 0), |product| (product, 1));
        let mut value = 1_i64;
        for factor in product.split('*').filter(|factor| *factor != "1") {
            let known = self.known(factor);
            ensure!(known.is_some(), "internal error: {}: no size of {factor}", self.operator);
            value = known.into_iter().flatten().fold(value, |value, &size| value.saturating_mul(size));
        }
        Ok(value + more)
    }

    // ---- values ----

    /// The least and the greatest value, if any, are at least 0 and less than a limit: `IndexError`.
    pub fn check_in_range(&self, name: &str, ends: Option<(i64, i64)>, limit: i64) -> Outcome {
        let mut values = ends.into_iter().flat_map(|(least, greatest)| [least, greatest]);
        let Some(value) = values.find(|value| !(0..limit).contains(value)) else { return Ok(()) };
        let text = format!("out of bounds: expected at least 0 and less than {limit}");
        Err(CallError::Index(format!("{}: {name} has the value {value}, which is {text}", self.operator)))
    }

    fn sums(&self, name: Name, most: i64) -> Outcome {
        let Some((reader, tensor)) = self.reader.zip(self.tensor(name)) else { return Ok(()) };
        let row = tensor.sizes().last().map_or(1, |&size| size.max(1) as usize);
        for lengths in reader.integers(tensor).chunks(row) {
            let least = lengths.iter().min().map(|&least| (least, least));
            self.check_in_range(name, least, i64::MAX)?;
            let sum = lengths.iter().fold(0_i64, |sum, &length| sum.saturating_add(length));
            self.check_in_range(&format!("a sum of {name}"), Some((sum, sum)), most.saturating_add(1))?;
        }
        Ok(())
    }

    fn check_lengths(&self, name: Name, count: i64, most: i64) -> Outcome {
        let Some(lengths) = self.lengths(name) else { return Ok(()) };
        check!(self, lengths.len() as i64 == count, "expected {count} lengths in {name}, but got {}", lengths.len());
        let wrong = lengths.iter().find(|length| !(0..=most).contains(*length));
        check!(self, wrong.is_none(), "expected {name} between 0 and {most}, but got {}", wrong.unwrap_or(&0));
        Ok(())
    }

    fn prefixes(&self, name: Name, lengths: Name, classes: i64) -> Outcome {
        let (tensor, Some(lengths)) = (self.given(name)?, self.lengths(lengths)) else { return Ok(()) };
        let row = (tensor.ndim() == 2).then(|| tensor.sizes()[1] as usize);
        let needed = if row.is_none() { lengths.iter().sum() } else { 0 };
        check!(self, needed <= tensor.numel(), "expected {needed} {name}, but got {}", tensor.numel());
        let Some(reader) = self.reader else { return Ok(()) };
        let values = reader.integers(tensor);
        let mut begin = 0;
        for length in lengths.into_iter().map(|length| length as usize) {
            let prefix = values[begin..begin + length].iter();
            self.check_in_range(name, prefix.clone().min().copied().zip(prefix.max().copied()), classes)?;
            begin += row.unwrap_or(length);
        }
        Ok(())
    }

    fn positions(&self) -> Outcome {
        const LIMIT: f64 = 2_147_483_648.0;
        let sizes = self.integers("output_size");
        let names = if sizes.len() == 1 { &["scales"][..] } else { &["scales_w", "scales_h", "scales_d"] };
        for (&size, name) in sizes.iter().rev().zip(names) {
            let Ok(scale) = self.find(name).get::<f64>() else { continue };
            let is_within = scale <= 0.0 || (size as f64) / scale < LIMIT;
            check!(self, is_within, "a scale of {scale:?} is too small for an output of size {size}");
        }
        Ok(())
    }

    fn pivots(&self, name: Name) -> Outcome {
        let Some((reader, pivots)) = self.reader.zip(self.tensor(name)) else { return Ok(()) };
        let rows = pivots.sizes().last().map_or(1, |&size| size.max(1));
        for matrix in reader.integers(pivots).chunks(rows as usize) {
            let wrong = matrix.iter().find(|pivot| !(1..=rows.unsigned_abs()).contains(&pivot.unsigned_abs()));
            check!(self, wrong.is_none(), "expected pivots between 1 and {rows}, but got {}", wrong.unwrap_or(&0));
            let runs = matrix.chunk_by(|one, other| (*one < 0) == (*other < 0));
            let are_pairs = runs.filter(|run| run[0] < 0).all(|run| run.len() % 2 == 0);
            check!(self, are_pairs, "a negative pivot is not one of a pair");
        }
        Ok(())
    }

    fn apart(&self) -> Outcome {
        let written = self.schema.iter().zip(self.values).filter(|(argument, _)| argument.is_written);
        for result in written.filter_map(|(_, value)| value.as_tensor()).filter(|result| result.numel() != 0) {
            // The number of elements from the first to the last one in memory, both included.
            let memory = 1 + result.sizes().iter().zip(result.strides()).map(|(size, stride)| (size - 1) * stride).sum::<i64>();
            let text = "more than one element of the written-to tensor refers to a single memory location";
            check!(self, memory >= result.numel(), "{text}");
        }
        Ok(())
    }
}
