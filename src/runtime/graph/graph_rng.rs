//! Random numbers of a graph: each replay draws different ones.
//!
//! A captured kernel gets a [`Cell`], which holds the seed and offset of each run. The graph knows for each cell the distance from
//! the graph's starting offset, so that a replay draws the same numbers as the same calls outside of a graph.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::generator::{Generator, PhiloxState};
use crate::runtime::sync::{Arc, Mutex};

/// The random state that a captured kernel reads. The replay that runs the kernel writes it first.
#[derive(Debug, Default)]
pub struct Cell {
    pub seed: AtomicU64,
    pub offset: AtomicU64,
}

/// Reusable cells of destroyed graphs.
static SPARE: Mutex<Vec<&'static Cell>> = Mutex::new(Vec::new());

/// One generator of a graph.
struct Source {
    generator: Arc<Generator>,
    /// How far each replay advances its offset.
    numbers: u64,
    /// The cells, each with its distance from the starting offset.
    cells: Vec<(&'static Cell, u64)>,
}

/// The generators that a graph draws from, in the order of their first draws.
#[derive(Default)]
pub struct Generators(Vec<Source>);

impl Generators {
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The cell of a kernel that draws this many numbers from a generator.
    pub(super) fn draw(&mut self, generator: &Arc<Generator>, numbers: u64) -> &'static Cell {
        let place = self.0.iter().position(|source| Arc::ptr_eq(&source.generator, generator)).unwrap_or_else(|| {
            self.0.push(Source { generator: Arc::clone(generator), numbers: 0, cells: Vec::new() });
            self.0.len() - 1
        });
        let cell = SPARE.lock().pop().unwrap_or_else(|| Box::leak(Box::default()));
        let source = &mut self.0[place];
        source.cells.push((cell, source.numbers));
        source.numbers += numbers;
        cell
    }

    /// Advances the generators by the numbers of one replay.
    pub(super) fn advance(&self) -> Draws {
        self.0.iter().map(|source| source.generator.advance(source.numbers)).collect()
    }

    /// Sets the states from which the kernels of a replay draw.
    pub(super) fn start(&self, draws: &[PhiloxState]) {
        for (source, start) in self.0.iter().zip(draws) {
            for (cell, behind) in &source.cells {
                // Relaxed: the kernels run on this thread, or on threads that it hands parts of them to.
                cell.seed.store(start.seed, Ordering::Relaxed);
                cell.offset.store(start.offset.wrapping_add(*behind), Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Generators {
    fn drop(&mut self) {
        SPARE.lock().extend(self.0.iter().flat_map(|source| &source.cells).map(|(cell, _)| *cell));
    }
}

/// The starting states of the generators for one replay.
pub(super) type Draws = Vec<PhiloxState>;
