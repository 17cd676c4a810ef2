//! A graph as text in the DOT language, one box for each node and one cluster for each stream.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::{Graph, Node};
use crate::runtime::stream::Stream;

impl Graph {
    /// The graph in the DOT language.
    pub fn dump(&self) -> String {
        text(&self.0.nodes.lock()).unwrap_or_default()
    }
}

fn text(nodes: &[Node]) -> Result<String, std::fmt::Error> {
    let mut text = "digraph rustdev_graph {\n  node [shape=box];\n".to_owned();
    let mut streams: Vec<&'static Stream> = Vec::new();
    for node in nodes {
        if !streams.iter().any(|known| std::ptr::eq(*known, node.stream)) {
            streams.push(node.stream);
        }
    }
    for (number, stream) in streams.iter().enumerate() {
        writeln!(text, "  subgraph cluster_{number} {{\n    label=\"{stream:?}\";")?;
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| std::ptr::eq(*stream, node.stream)) {
            let (name, cost) = (node.task.name(), node.task.cost());
            writeln!(text, "    n{index} [label=\"{index}: {name}\\n{cost} ns\"];")?;
        }
        writeln!(text, "  }}")?;
    }
    for (index, node) in nodes.iter().enumerate() {
        for before in &node.after {
            writeln!(text, "  n{before} -> n{index};")?;
        }
    }
    text.push_str("}\n");
    Ok(text)
}
