//! The headers of the C ABI in `shim/` are what cbindgen makes of `src/abi/`: this test makes them again and compares. `make header` writes
//! them instead.
//!
//! Each file of `src/abi/` is a section of a header, in the order in which the C side reads them: types before their users. The C compiler
//! would not notice a wrong signature, so nobody writes them by hand. What Rust says to Rust alone is left out: links, and the `# Safety`
//! paragraphs, which repeat for callers of the Rust functions what the sentences above them say.

use std::fmt::Write;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

use cbindgen::{Builder, Config, DocumentationStyle, Language, SortKey, Style};
use rustdev::abi::rd_fallback::rd_argument;
use rustdev::abi::rd_generator::rd_philox_state;
use rustdev::abi::rd_guard::rd_change;
use rustdev::abi::rd_host_memory::{rd_duration, rd_host_stats};
use rustdev::abi::rd_launch::{rd_columns, rd_gemm, rd_launch_args, rd_operand, rd_scalar};
use rustdev::abi::rd_memory::{rd_memory_stats, rd_stat};
use rustdev::abi::rd_operator::{rd_binder, rd_call, rd_caller, rd_cut, rd_division, rd_pointwise, rd_task, rd_tensor, rd_value};
use rustdev::abi::rd_shim::rd_shim;
use rustdev::abi::rd_stream::rd_access;
use rustdev::abi::rd_trace::{rd_activity, rd_activity_note};
use rustdev::abi::rd_wait::rd_wait;

/// A header: its name in `shim/`, what it is, what it includes, and its sections: the files of `src/abi/` and what they are about.
struct Header {
    name: &'static str,
    about: &'static str,
    includes: &'static [&'static str],
    sections: &'static [(&'static str, &'static str)],
}

/// Apart from the first one, which most of the shim reads, so that changes do not compile all of it again.
const HEADERS: [Header; 3] = [
    Header {
        name: "rustdev.h",
        about: "The C ABI between the PyTorch shim (C++) and the rustdev crate (Rust).",
        includes: &["<stdbool.h>", "<stddef.h>", "<stdint.h>"],
        sections: &[
            ("abi", "status"),
            ("abi/rd_device", "process, devices, parallel work"),
            ("abi/rd_stream", "streams"),
            ("abi/rd_event", "events"),
            ("abi/rd_wait", "waits of the host"),
            ("abi/rd_memory", "device memory"),
            ("abi/rd_host_memory", "pinned host memory"),
            ("abi/rd_ipc", "memory of several processes"),
            ("abi/rd_launch", "kernels"),
            ("abi/rd_generator", "random generators"),
            ("abi/rd_graph", "graphs"),
            ("abi/rd_trace", "traces"),
            ("abi/rd_sanitizer", "race detector"),
        ],
    },
    Header {
        name: "rustdev_operators.h",
        about: "The C ABI of what a call of PyTorch's becomes in Rust.",
        includes: &["\"rustdev.h\""],
        sections: &[
            ("abi/rd_shim", "what the core asks of PyTorch"),
            ("abi/rd_operator", "operators that are bound in Rust"),
            ("abi/rd_copy", "copies"),
            ("abi/rd_guard", "guards of PyTorch's CPU kernels"),
            ("abi/rd_fallback", "the CPU fallback"),
        ],
    },
    Header {
        name: "rustdev_completion.h",
        // The name of the interface is made of the headers: a shim goes with the core of its own release alone.
        about: concat!("The C ABI of operations of several processes, in rustdev ", env!("CARGO_PKG_VERSION"), "."),
        includes: &["\"rustdev.h\""],
        sections: &[("abi/rd_completion", "ends of work outside of the streams")],
    },
];

fn sections() -> impl Iterator<Item = &'static str> {
    HEADERS.iter().flat_map(|header| header.sections).map(|(section, _)| *section)
}

#[test]
fn headers_are_current() {
    for (header, text) in HEADERS.iter().zip(&*TEXTS) {
        let file = root().join("shim").join(header.name);
        if env::var_os("WRITE_HEADER").is_some() {
            write_changed(&file, text);
            continue;
        }
        let committed = fs::read_to_string(&file).expect("the headers are part of the source tree");
        let differing = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
        assert!(
            committed == *text,
            "shim/{} differs from src/abi/ at line {:?}: run `make header`",
            header.name,
            differing.map(|line| line + 1)
        );
    }
}

/// What is as it was keeps its time of change.
fn write_changed(file: &Path, text: &str) {
    if fs::read_to_string(file).is_ok_and(|found| found == text) {
        return;
    }
    fs::write(file, text).expect("shim/ can be written to");
}

#[test]
fn every_exported_function_is_declared() {
    let names = sections().flat_map(|section| exported(&source(section)));
    let missing: Vec<String> = names.filter(|name| !TEXTS.iter().any(|text| text.contains(&format!("{name}(")))).collect();
    assert!(missing.is_empty(), "not in the headers: {missing:?}");
    let entries = fs::read_dir(root().join("src/abi")).expect("src/abi/ is part of the source tree");
    // What lies deeper exports nothing.
    let files = entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_file()));
    assert_eq!(files.count() + 1, sections().count(), "src/abi.rs or a file of src/abi/ is not listed as a section");
}

#[test]
fn layouts_are_those_of_a_c_compiler() {
    let layouts = layouts();
    // One behind the other, they need not include each other.
    let all: String = TEXTS
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.starts_with("#include \""))
        .fold(String::new(), |all, line| all + line + "\n");
    let structs: Vec<&str> =
        all.split("typedef struct ").skip(1).filter_map(|text| text.split_once(" {")).map(|(name, _)| name).collect();
    for name in structs.into_iter().filter(|name| !name.contains(';')) {
        assert!(layouts.iter().any(|layout| layout.name == name), "{name} is not among the layouts of this test");
    }
    let mut program = all.clone();
    for Layout { name, size, align, fields } in layouts {
        writeln!(program, "_Static_assert(sizeof(struct {name}) == {size} && _Alignof(struct {name}) == {align}, \"{name}\");")
            .unwrap();
        for (field, offset) in fields {
            writeln!(program, "_Static_assert(offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");").unwrap();
        }
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layouts.c");
    fs::write(&file, program).expect("cargo gives tests a directory to write to");
    // As in builds, `CC` may name what runs the compiler, too: `ccache gcc`.
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    let output = command.args(words).args(["-std=c11", "-Wall", "-Werror", "-fsyntax-only"]).arg(&file).output();
    let output = output.expect("the C compiler that rustc links with can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// How Rust lays a struct out.
struct Layout {
    name: &'static str,
    size: usize,
    align: usize,
    fields: Vec<(&'static str, usize)>,
}

impl Layout {
    fn of<T>(name: &'static str, fields: &[(&'static str, usize)]) -> Self {
        Self { name, size: size_of::<T>(), align: align_of::<T>(), fields: fields.to_vec() }
    }
}

macro_rules! layout {
    ($type:ident: $($field:ident),*) => {
        Layout::of::<$type>(stringify!($type), &[$((stringify!($field), offset_of!($type, $field))),*])
    };
}

fn layouts() -> [Layout; 26] {
    [
        layout!(rd_access: begin, end, write),
        layout!(rd_stat: current, freed),
        layout!(rd_memory_stats: allocated_bytes, oversize_segments, max_split_size),
        layout!(rd_duration: total, count),
        layout!(rd_host_stats: allocated_bytes, host_free_time, bucket_allocation),
        layout!(rd_operand: data, dtype, flags),
        layout!(rd_scalar: dtype, integer, real, imaginary),
        layout!(rd_launch_args: operands, num_outputs, scalars, num_scalars, compute_dtype, numel),
        layout!(rd_columns: data, transposed, leading),
        layout!(rd_gemm: dtype, k, a, out, beta),
        layout!(rd_tensor: handle, data, sizes, strides, ndim, dtype, device, flags),
        layout!(rd_value: kind, count, data, scalar),
        layout!(rd_task: out, guarded),
        layout!(rd_cut: dim, size, least_ndim, parts, cost, takes_threads),
        layout!(rd_division: parts, cost, by_channels, large_volumes),
        layout!(rd_pointwise: kernel, dense),
        layout!(rd_binder: context, find, define, bind),
        layout!(
            rd_caller: meta, output, give, empty, dense, call, read, numbers, bump_versions, check_number, result_type, draw, warn, leave_to_task, divide
        ),
        layout!(rd_call: context, caller, arguments, num_arguments, given, num_given, is_void, guard),
        layout!(rd_argument: name, is_written),
        layout!(rd_change: kind, argument, numbers),
        layout!(rd_philox_state: seed, offset),
        layout!(
            rd_shim: has_mkl, has_amx, has_complex_bfloat16, is_deterministic, allows_tf32, default_dtype, change_wait_flags,
            set_race_type
        ),
        layout!(rd_wait: kind, device, name, stream, event, bytes, to_device, pinned, is_asynchronous, is_idle),
        layout!(rd_activity_note: key, value, is_text),
        layout!(rd_activity: kind, device, resource, name, id, arrow, linked, num_notes),
    ]
}

/// The names of a file's `extern "C"` functions.
fn exported(source: &str) -> Vec<String> {
    let definitions = source.split("#[unsafe(no_mangle)]").skip(1);
    definitions.filter_map(|text| text.split("fn ").nth(1)?.split('(').next().map(str::to_owned)).collect()
}

fn root() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

fn source(section: &str) -> String {
    fs::read_to_string(root().join("src").join(section).with_extension("rs")).expect("src/abi/ is part of the source tree")
}

/// Made once: cbindgen reads from files, which the tests would write at the same time.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| HEADERS.iter().map(text_of).collect());

fn text_of(header: &Header) -> String {
    let guard = header.name.replace('.', "_").to_uppercase();
    let mut text = format!("// {}\n{MADE}#ifndef {guard}\n#define {guard}\n\n", header.about);
    for name in header.includes {
        writeln!(text, "#include {name}").expect("a string takes everything");
    }
    text += BEGIN;
    for (section, title) in header.sections {
        let source = source(section);
        let heading = format!("// ---- {title} ({section}.rs) ");
        write!(text, "\n{heading:-<100}\n{}{}", introduction(&source), declarations(section, &source))
            .expect("a string takes everything");
    }
    format!("{text}{END}\n#endif  // {guard}\n")
}

const MADE: &str = "// Generated by cbindgen from src/abi/; `make header` writes it, `cargo test` compares it.\n";

const BEGIN: &str = "
#ifdef __cplusplus
extern \"C\" {
#endif
";

const END: &str = "
#ifdef __cplusplus
}
#endif
";

/// What the file says of itself after its first paragraph.
fn introduction(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let body = lines.skip_while(|line| !line.is_empty()).skip(1);
    let text: String = body.flat_map(|line| ["//".to_owned(), without_links(line), "\n".to_owned()]).collect();
    text + "\n"
}

/// What one file exports, as C.
fn declarations(section: &str, source: &str) -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(section.replace('/', "_")).with_extension("rs");
    fs::write(&file, for_c(source)).expect("cargo gives tests a directory to write to");
    let mut config = Config {
        language: Language::C,
        style: Style::Both,
        documentation_style: DocumentationStyle::C99,
        no_includes: true,
        usize_is_size_t: true,
        line_length: 132,
        tab_width: 2,
        ..Config::default()
    };
    config.function.args = cbindgen::Layout::Auto;
    config.function.sort_by = Some(SortKey::None);
    config.constant.sort_by = Some(SortKey::None);
    let bindings = Builder::new().with_config(config).with_src(file).generate().expect("src/abi/ can be parsed");
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).expect("cbindgen writes UTF-8").trim().to_owned() + "\n"
}

/// The source without the other files that it names and without the documentation that is for Rust alone. Strings are pointers.
fn for_c(source: &str) -> String {
    let source = source.replace(": rd_text", ": *const c_char");
    let mut lines: Vec<String> = Vec::new();
    let mut skipping = false;
    for line in source.lines() {
        let documents = line.trim_start().starts_with("///");
        skipping = documents && (skipping || line.contains("/// # Safety"));
        if skipping {
            lines.pop_if(|last| last.trim() == "///");
        } else if let Some(item) = lent(line) {
            lines.push(item);
        } else if !(line.ends_with(';') && line.trim_start_matches("pub ").starts_with("mod ")) {
            lines.push(if documents { without_links(line) } else { opaque(line).unwrap_or_else(|| line.to_owned()) });
        }
    }
    lines.join("\n")
}

/// Takes a line `pub use crate::module::Name as rd_name;` apart: the file, the name in Rust and the name in C.
fn alias(line: &str) -> Option<(String, &str, &str)> {
    let (path, name) = line.strip_prefix("pub use crate::")?.strip_suffix(';')?.split_once(" as ")?;
    let (module, of) = path.rsplit_once("::")?;
    Some((module.replace("::", "/"), of, name))
}

/// What such a line exports: a struct, which has its name in C as the types of its fields have, or the variants of an enum.
fn lent(line: &str) -> Option<String> {
    let (module, of, name) = alias(line)?;
    let source_of_item = source(&module);
    let item = source_of_item
        .split(
            "

",
        )
        .find(|item| ["struct", "enum"].iter().any(|kind| item.contains(&format!("pub {kind} {of} {{"))))?;
    if let Some((_, variants)) = item.split_once("pub enum ") {
        return constants(variants, name);
    }
    let sources: String = sections().map(source).collect();
    let renamed = sources.lines().filter_map(alias).fold(item.to_owned(), |text, (_, of, name)| {
        [("struct ", " {"), (": ", ","), ("[", ";")]
            .into_iter()
            .fold(text, |text, (before, after)| text.replace(&format!("{before}{of}{after}"), &format!("{before}{name}{after}")))
    });
    Some(without_links(&renamed))
}

/// The numbered variants of an enum as constants `RD_NAME_VARIANT`.
fn constants(item: &str, name: &str) -> Option<String> {
    let variants = item.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "));
    let text = variants.fold(item.to_owned(), |text, (variant, number)| {
        let constant = format!("{name}_{variant}").to_uppercase();
        let text = text.replace(&format!("{variant} = {number},"), &format!("pub const {constant}: i32 = {number};"));
        text.replace(&format!("`{variant}`"), &format!("`{constant}`"))
    });
    Some(text.split_once('{')?.1.strip_suffix('}')?.to_owned())
}

/// Another name for a struct of a module that C does not see is a struct that C sees no fields of.
fn opaque(line: &str) -> Option<String> {
    let (name, of) = line.strip_prefix("pub type ")?.strip_suffix(';')?.split_once(" = ")?;
    let is_struct = of.starts_with(char::is_uppercase) && of.chars().all(char::is_alphanumeric);
    is_struct.then(|| format!("pub struct {name}({of});"))
}

/// Rust's links to its own items as plain names.
fn without_links(line: &str) -> String {
    line.replace("[`", "`").replace("`]", "`")
}
