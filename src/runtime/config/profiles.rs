//! GPUs that the devices can imitate: the files in `profiles/`, and files of the user in the same format.
//!
//! The format is TOML, with the keys of [`Profile`].

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::runtime::sync::LazyLock;

/// The properties of a GPU that programs query, and its speed, from its data sheet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name that `RUSTDEV_PROFILE` accepts: that of a file in `profiles/`, or the path of a file.
    #[serde(skip)]
    pub name: String,
    /// The name that the GPU reports.
    pub gpu: String,
    pub capability: (u32, u32),
    pub memory_gib: f64,
    pub multiprocessors: f64,
    /// Rates of the tensor cores, by dtype; products of float32 are `tf32`.
    #[serde(default)]
    pub tensor_tflops: BTreeMap<String, f64>,
    /// Rates of the other units, by dtype.
    pub vector_tflops: BTreeMap<String, f64>,
    pub gigabytes_per_second: Bandwidths,
}

/// Bandwidths in GB/s, which are bytes per nanosecond; those of links in one direction.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidths {
    pub memory: f64,
    /// From the second-level cache to the multiprocessors, if it is known.
    pub cache: Option<f64>,
    /// Between device and host.
    pub pcie: f64,
    /// To the other devices of the machine.
    peer: Option<f64>,
}

impl Profile {
    /// The memory in bytes.
    pub fn memory(&self) -> u64 {
        (self.memory_gib * GIB as f64) as u64
    }
}

impl Bandwidths {
    /// To the other devices of the machine: that to the host if the file has none.
    pub fn peer(&self) -> f64 {
        self.peer.unwrap_or(self.pcie)
    }
}

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

/// The profile of that name or in the file with that path. It lives forever. Fails with the reason, as the end of a sentence.
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

/// The dtypes that a table of operations may have.
const TENSOR: [&str; 6] = ["float64", "tf32", "bfloat16", "float16", "float8", "int8"];
const VECTOR: [&str; 2] = ["float64", "float32"];

/// Reads a profile. Fails with the fault and its line, or with the key that is missing or unknown.
fn parse(name: &str, text: &str) -> Result<Profile, String> {
    let mut profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
    for (table, numbers, known) in
        [("tensor_tflops", &profile.tensor_tflops, TENSOR.as_slice()), ("vector_tflops", &profile.vector_tflops, &VECTOR)]
    {
        if let Some(dtype) = numbers.keys().find(|dtype| !known.contains(&dtype.as_str())) {
            return Err(format!("[{table}] has {dtype}, and knows {}", known.join(", ")));
        }
    }
    if !profile.vector_tflops.contains_key("float32") {
        return Err("[vector_tflops] has no float32".to_owned());
    }
    let Bandwidths { memory, cache, pcie, peer } = profile.gigabytes_per_second;
    let single = [profile.memory_gib, profile.multiprocessors, memory, cache.unwrap_or(1.0), pcie, peer.unwrap_or(1.0)];
    let mut numbers = single.iter().chain(profile.tensor_tflops.values()).chain(profile.vector_tflops.values());
    if let Some(wrong) = numbers.find(|number| !(number.is_finite() && **number > 0.0)) {
        return Err(format!("{wrong} is not a positive number"));
    }
    name.clone_into(&mut profile.name);
    Ok(profile)
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
        assert_eq!((h100.memory(), h100.capability), (80 << 30, (9, 0)));
        assert_eq!((h100.tensor_tflops["bfloat16"], h100.gigabytes_per_second.peer()), (989.4, 450.0));
    }

    #[test]
    fn a_file_has_texts_numbers_and_comments() {
        let profile = parse("own", SMALL).unwrap();
        assert_eq!((profile.gpu.as_str(), profile.capability, profile.memory()), ("A # B", (8, 6), 2 << 30));
        assert_eq!((profile.vector_tflops["float32"], profile.gigabytes_per_second.peer()), (1.5, 16.0));
    }

    #[test]
    fn refusals_name_the_line_or_the_key() {
        let cases = [
            (SMALL.replace("pcie = 16", ""), "missing field `pcie`"),
            (format!("{SMALL}nvlink = 3\n"), "line 10"),
            (format!("{SMALL}nvlink = 3\n"), "unknown field `nvlink`"),
            (SMALL.replace("[8, 6]", "8.6"), "line 2"),
            (SMALL.replace("= 4", "four"), "line 4"),
            (format!("{SMALL}pcie = 3\n"), "duplicate key"),
            (SMALL.replace("= 100", "= 0"), "0 is not a positive number"),
            (SMALL.replace("float32", "float64"), "[vector_tflops] has no float32"),
            (SMALL.replace("float32", "int4"), "[vector_tflops] has int4, and knows float64, float32"),
        ];
        for (text, expected) in cases {
            let error = parse("own", &text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
