//! GPUs that the devices can imitate: the files in `profiles/`, and files of the user in the same format.
//!
//! The format is TOML, with the keys of [`File`].

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::runtime::sync::LazyLock;

/// The properties of a GPU that programs query, and its speed.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name that `RUSTDEV_PROFILE` accepts: that of a file in `profiles/`, or the path of a file.
    pub name: String,
    /// The name that the GPU reports.
    pub gpu: String,
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
    pub tensor: BTreeMap<String, f64>,
    /// Operations per second of the other units, by dtype.
    pub vector: BTreeMap<String, f64>,
    /// Bytes per second of the device's memory.
    pub memory: f64,
    /// Bytes per second from the second-level cache to the multiprocessors, if they are known.
    pub cache: Option<f64>,
    /// Bytes per second between device and host, in one direction.
    pub pcie: f64,
    /// Bytes per second to the other devices of the machine, in one direction.
    pub peer: f64,
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

/// A file, as it stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    gpu: String,
    capability: (u32, u32),
    memory_gib: f64,
    multiprocessors: f64,
    #[serde(default)]
    tensor_tflops: BTreeMap<String, f64>,
    vector_tflops: BTreeMap<String, f64>,
    gigabytes_per_second: Rates,
}

/// Bandwidths of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    memory: f64,
    cache: Option<f64>,
    pcie: f64,
    peer: Option<f64>,
}

/// The dtypes that a table of operations may have.
const TENSOR: [&str; 6] = ["float64", "tf32", "bfloat16", "float16", "float8", "int8"];
const VECTOR: [&str; 2] = ["float64", "float32"];

/// Reads a profile. Fails with the fault and its line, or with the key that is missing or unknown.
fn parse(name: &str, text: &str) -> Result<Profile, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for (table, numbers, known) in
        [("tensor_tflops", &file.tensor_tflops, TENSOR.as_slice()), ("vector_tflops", &file.vector_tflops, &VECTOR)]
    {
        if let Some(dtype) = numbers.keys().find(|dtype| !known.contains(&dtype.as_str())) {
            return Err(format!("[{table}] has {dtype}, and knows {}", known.join(", ")));
        }
    }
    if !file.vector_tflops.contains_key("float32") {
        return Err("[vector_tflops] has no float32".to_owned());
    }
    let Rates { memory, cache, pcie, peer } = file.gigabytes_per_second;
    let single = [file.memory_gib, file.multiprocessors, memory, cache.unwrap_or(1.0), pcie, peer.unwrap_or(1.0)];
    let mut numbers = single.iter().chain(file.tensor_tflops.values()).chain(file.vector_tflops.values());
    if let Some(wrong) = numbers.find(|number| !(number.is_finite() && **number > 0.0)) {
        return Err(format!("{wrong} is not a positive number"));
    }
    let scaled = |table: BTreeMap<String, f64>| table.into_iter().map(|(dtype, rate)| (dtype, rate * 1e12)).collect();
    Ok(Profile {
        name: name.to_owned(),
        gpu: file.gpu,
        capability: file.capability,
        memory: (file.memory_gib * GIB as f64) as u64,
        speed: Speed {
            multiprocessors: file.multiprocessors,
            tensor: scaled(file.tensor_tflops),
            vector: scaled(file.vector_tflops),
            memory: memory * 1e9,
            cache: cache.map(|rate| rate * 1e9),
            pcie: pcie * 1e9,
            peer: peer.unwrap_or(pcie) * 1e9,
        },
    })
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
