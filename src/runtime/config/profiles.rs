//! GPUs that the devices can imitate: the files in `profiles/`, and files of the user in the same format.
//!
//! The format is TOML with tables of numbers alone, whose keys are those of [`parse`].
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::runtime::sync::LazyLock;

/// The properties of a GPU that programs query, and its speed.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name that `RUSTDEV_PROFILE` accepts: that of a file in `profiles/`, or the path of a file.
    pub name: String,
    /// The name that the GPU reports.
    pub gpu: String,
    /// The compute capability.
    pub capability: (u32, u32),
    /// The memory in bytes.
    pub memory: u64,
    pub speed: Speed,
}

/// The speed of a GPU, from its data sheet.
#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    pub multiprocessors: f64,
    /// Operations per second of the tensor cores, by dtype; products of float32 are `tf32`.
    pub tensor: BTreeMap<&'static str, f64>,
    /// Operations per second of the other units, by dtype.
    pub vector: BTreeMap<&'static str, f64>,
    /// Bytes per second of the device's memory.
    pub memory: f64,
    /// Bytes per second from the second-level cache to the multiprocessors, if they are known.
    pub cache: Option<f64>,
    /// Bytes per second between device and host, in one direction.
    pub pcie: f64,
    /// Bytes per second to the other devices of the machine, in one direction.
    pub peer: f64,
}

/// The dtypes that a table of operations may have.
const TENSOR: [&str; 6] = ["float64", "tf32", "bfloat16", "float16", "float8", "int8"];
const VECTOR: [&str; 2] = ["float64", "float32"];
const GIB: u64 = 1 << 30;

macro_rules! files {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("profiles/", $name, ".toml")))),*]
    };
}

const FILES: [(&str, &str); 9] =
    files!["t4-16g", "v100-16g", "a100-40g", "a100-80g", "l4-24g", "rtx4090-24g", "h100-80g", "h200-141g", "mi300x-192g"];

/// The profiles that come with the crate.
pub static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| parse(name, text).unwrap_or_else(|error| panic!("profiles/{name}.toml, {error}"));
    FILES.iter().map(read).collect()
});

/// The profile of that name or in the file with that path. It lives forever.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn find(value: &str) -> Result<&'static Profile, String> {
    if let Some(known) = PROFILES.iter().find(|profile| profile.name == value) {
        return Ok(known);
    }
    let names: Vec<_> = PROFILES.iter().map(|profile| profile.name.as_str()).collect();
    if Path::new(value).extension().is_none_or(|extension| extension != "toml") {
        return Err(format!("it accepts one of {}, or the path of a file that ends with .toml", names.join(", ")));
    }
    let text = fs::read_to_string(value).map_err(|error| format!("the file cannot be read: {error}"))?;
    let profile = parse(value, &text).map_err(|error| format!("in the file, {error}"))?;
    Ok(Box::leak(Box::new(profile)))
}

/// A value of the format.
enum Value<'a> {
    Text(&'a str),
    Numbers(Vec<f64>),
}

/// The lines of a file that are not used yet, by table and key, with their numbers.
struct Lines<'a>(BTreeMap<(&'a str, &'a str), (usize, Value<'a>)>);

impl<'a> Lines<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let (mut table, mut lines) = ("", BTreeMap::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                table = name.trim();
                continue;
            }
            let wrong = || {
                format!("line {number} is not valid: a line is `key = value`, with a number, a list of numbers or a text in quotes")
            };
            let (key, value) = line.split_once('=').ok_or_else(wrong)?;
            let value = value_of(value.trim()).ok_or_else(wrong)?;
            if lines.insert((table, key.trim()), (number, value)).is_some() {
                return Err(format!("line {number} has a key for the second time"));
            }
        }
        Ok(Self(lines))
    }

    fn text(&mut self, key: &'a str) -> Result<&'a str, String> {
        match self.0.remove(&("", key)) {
            Some((_, Value::Text(text))) => Ok(text),
            Some((number, _)) => Err(format!("line {number}: {key} is a text in quotes")),
            None => Err(format!("the text {key} is missing")),
        }
    }

    fn numbers<const N: usize>(&mut self, table: &'a str, key: &'a str) -> Result<Option<[f64; N]>, String> {
        let Some((number, value)) = self.0.remove(&(table, key)) else { return Ok(None) };
        let found = if let Value::Numbers(numbers) = value { <[f64; N]>::try_from(numbers).ok() } else { None };
        let found = found.filter(|numbers| numbers.iter().all(|number| number.is_finite() && *number >= 0.0));
        found.map(Some).ok_or_else(|| format!("line {number}: {key} takes {}", if N == 1 { "a number" } else { "two numbers" }))
    }

    /// A positive number.
    fn number(&mut self, table: &'a str, key: &'a str) -> Result<Option<f64>, String> {
        match self.numbers::<1>(table, key)? {
            Some([0.0]) => Err(format!("{key} is a positive number")),
            found => Ok(found.map(|[number]| number)),
        }
    }

    fn needed(&mut self, table: &'a str, key: &'a str) -> Result<f64, String> {
        let place = if table.is_empty() { String::new() } else { format!(" of [{table}]") };
        self.number(table, key)?.ok_or_else(|| format!("the number {key}{place} is missing"))
    }

    fn table(&mut self, table: &'a str, keys: &[&'static str]) -> Result<BTreeMap<&'static str, f64>, String> {
        let mut found = BTreeMap::new();
        for key in keys {
            if let Some(number) = self.number(table, key)? {
                found.insert(*key, number * 1e12);
            }
        }
        Ok(found)
    }
}

fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    let end = line.find(|letter| {
        is_quoted ^= letter == '"';
        letter == '#' && !is_quoted
    });
    &line[..end.unwrap_or(line.len())]
}

fn value_of(text: &str) -> Option<Value<'_>> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.strip_suffix('"').filter(|inner| !inner.contains(['"', '\\'])).map(Value::Text);
    }
    let list = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'))?;
    list.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>().map(Value::Numbers)
}

/// Reads a profile.
///
/// # Errors
/// The first line that is wrong, or the first key that is missing or unknown.
fn parse(name: &str, text: &str) -> Result<Profile, String> {
    let mut lines = Lines::read(text)?;
    let gpu = lines.text("gpu")?.to_owned();
    let [major, minor] = lines.numbers("", "capability")?.ok_or("the numbers of capability are missing")?;
    let memory = (lines.needed("", "memory_gib")? * GIB as f64) as u64;
    let multiprocessors = lines.needed("", "multiprocessors")?;
    let tensor = lines.table("tensor_tflops", &TENSOR)?;
    let vector = lines.table("vector_tflops", &VECTOR)?;
    if !vector.contains_key("float32") {
        return Err("the number float32 of [vector_tflops] is missing".to_owned());
    }
    let rates = "gigabytes_per_second";
    let bandwidth = lines.needed(rates, "memory")? * 1e9;
    let cache = lines.number(rates, "cache")?.map(|rate| rate * 1e9);
    let pcie = lines.needed(rates, "pcie")? * 1e9;
    let peer = lines.number(rates, "peer")?.map_or(pcie, |rate| rate * 1e9);
    if let Some(((table, key), (number, _))) = lines.0.first_key_value() {
        let place = if table.is_empty() { String::new() } else { format!(" of [{table}]") };
        return Err(format!("line {number}: the key {key}{place} is unknown"));
    }
    let speed = Speed { multiprocessors, tensor, vector, memory: bandwidth, cache, pcie, peer };
    Ok(Profile { name: name.to_owned(), gpu, capability: (major as u32, minor as u32), memory, speed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "gpu = \"A # B\"  # comment\ncapability = [8, 6]\nmemory_gib = 2\nmultiprocessors = 4\n\
        [vector_tflops]\nfloat32 = 1.5\n[gigabytes_per_second]\nmemory = 100\npcie = 16\n";

    #[test]
    fn every_file_is_a_profile() {
        assert_eq!(PROFILES.len(), FILES.len());
        let h100 = PROFILES.iter().find(|profile| profile.name == "h100-80g").unwrap();
        assert_eq!((h100.memory, h100.capability), (80 << 30, (9, 0)));
        assert_eq!((h100.speed.tensor["bfloat16"], h100.speed.peer), (989.4e12, 450e9));
    }

    #[test]
    fn a_file_has_texts_numbers_and_comments() {
        let profile = parse("own", SMALL).unwrap();
        assert_eq!((profile.gpu.as_str(), profile.capability, profile.memory), ("A # B", (8, 6), 2 << 30));
        assert_eq!((profile.speed.vector["float32"], profile.speed.peer), (1.5e12, 16e9));
    }

    #[test]
    fn refusals_name_the_line_or_the_key() {
        let cases = [
            (SMALL.replace("pcie = 16", "pci = 16"), "pcie of [gigabytes_per_second] is missing"),
            (format!("{SMALL}nvlink = 3\n"), "line 10: the key nvlink of [gigabytes_per_second] is unknown"),
            (SMALL.replace("[8, 6]", "8.6"), "line 2: capability takes two numbers"),
            (SMALL.replace("= 4", "four"), "line 4 is not valid"),
            (format!("{SMALL}pcie = 3\n"), "line 10 has a key for the second time"),
            (SMALL.replace("= 100", "= 0"), "memory is a positive number"),
            (SMALL.replace("float32", "float64"), "float32 of [vector_tflops] is missing"),
        ];
        for (text, expected) in cases {
            let error = parse("own", &text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
