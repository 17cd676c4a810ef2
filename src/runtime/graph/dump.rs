//! Dump of a graph in the DOT language, with a box for each node and a cluster for each stream.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::{Graph, Note};
use crate::runtime::stream::Stream;

impl Graph {
    /// The graph in the DOT language.
    pub fn dump(&self) -> String {
        text(&self.0.notes).unwrap_or_default()
    }
}

fn text(notes: &[Note]) -> Result<String, std::fmt::Error> {
    let mut text = "digraph rustdev_graph {\n  node [shape=box];\n".to_owned();
    let mut streams: Vec<&'static Stream> = Vec::new();
    for note in notes {
        if !streams.iter().any(|known| std::ptr::eq(*known, note.stream)) {
            streams.push(note.stream);
        }
    }
    for (number, stream) in streams.iter().enumerate() {
        writeln!(text, "  subgraph cluster_{number} {{\n    label=\"{stream:?}\";")?;
        for (index, Note { name, cost, .. }) in notes.iter().enumerate().filter(|(_, note)| std::ptr::eq(*stream, note.stream)) {
            writeln!(text, "    n{index} [label=\"{index}: {name}\\n{cost} ns\"];")?;
        }
        writeln!(text, "  }}")?;
    }
    for (index, note) in notes.iter().enumerate() {
        for before in &note.after {
            writeln!(text, "  n{before} -> n{index};")?;
        }
    }
    text.push_str("}\n");
    Ok(text)
}
