//! Writes for the shim which metas and functions of PyTorch's and which kernels for the types of schemas it compiles: the names in
//! `src/operators/compiled_names.rs`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

#[path = "../src/operators/compiled_names.rs"]
mod compiled_names;

/// Writes the headers that are not yet as they should be: an object that has read one is compiled again where it changes.
///
/// # Errors
/// The directory cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-changed=src/operators/compiled_names.rs");
    fs::create_dir_all(directory)?;
    let with_identifier = |name: String| (identifier(&name), name);
    let metas: Vec<_> = compiled_names::METAS.split_whitespace().map(|name| with_identifier(name.into())).collect();
    refresh(&directory.join("generated_metas.h"), "META", &includes(&metas, "meta"), &metas)?;
    let typed: Vec<_> = compiled_names::typed().map(with_identifier).collect();
    refresh(&directory.join("generated_typed_kernels.h"), "TYPED", "", &typed)?;
    let sparse: Vec<_> = compiled_names::sparse().map(|(name, function)| (function.into(), name.into())).collect();
    refresh(&directory.join("generated_sparse.h"), "SPARSE", &includes(&sparse, "native"), &sparse)
}

/// A name of C++, and that of an overload.
type Named = (String, String);

/// What PyTorch's code generator calls an overload.
fn identifier(name: &str) -> String {
    name.replace('.', "_")
}

/// The operator of an overload, without what marks it as in place.
fn operator_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name).trim_end_matches('_')
}

/// The headers of a kind for overloads: one for all overloads and variants of an operator.
fn includes(names: &[Named], kind: &str) -> String {
    let operators: BTreeSet<&str> = names.iter().map(|(_, name)| operator_of(name)).collect();
    operators.iter().map(|operator| format!("#include <ATen/ops/{operator}_{kind}.h>\n")).collect()
}

/// Writes a header with a list, each item as arguments of a macro.
fn refresh(file: &Path, kind: &str, includes: &str, names: &[Named]) -> io::Result<()> {
    let mut text = format!("// Written by build/lists.rs.\n{includes}#define RUSTDEV_{kind}_LIST({kind})");
    for (identifier, name) in names {
        let _ = write!(text, " \\\n  {kind}(\"{name}\", {identifier})");
    }
    text.push('\n');
    if fs::read_to_string(file).is_ok_and(|old| old == text) { Ok(()) } else { fs::write(file, text) }
}
