//! Random numbers of a graph: each replay draws new ones.
//!
//! A kernel that is captured gets a [`Cell`] instead of numbers: the seed and the offset that it starts from at each run. The graph knows
//! of each cell how far behind the graph's start it begins, so that a replay draws what the same calls would draw outside of a graph.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::runtime::sync::Mutex;

/// Generators whose starts a replay carries without an allocation.
const INLINE: usize = 2;

/// Where a captured kernel finds the state that it draws from. Written before the kernel runs, by the replay that runs it.
#[derive(Debug, Default)]
pub struct Cell {
    pub seed: AtomicU64,
    pub offset: AtomicU64,
}

/// Cells of graphs that are gone.
static SPARE: Mutex<Vec<&'static Cell>> = Mutex::new(Vec::new());

/// Where a generator begins to draw in one replay. Offsets count 32-bit numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub seed: u64,
    pub offset: u64,
}

/// One generator of a graph.
struct Generator {
    /// The caller's key.
    key: usize,
    /// Keeps it alive as long as the graph.
    _keeper: Box<dyn Send + Sync>,
    /// How far each replay moves its offset on.
    numbers: u64,
    /// The cells, and how far behind the start each of them is.
    cells: Vec<(&'static Cell, u64)>,
}

/// The generators that a graph draws from, in the order of their first draws.
#[derive(Default)]
pub struct Generators(Vec<Generator>);

impl Generators {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The key of each generator, and how far a replay moves its offset on.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().map(|generator| (generator.key, generator.numbers))
    }

    /// The cell of a kernel that draws so many numbers from a generator. `keeper`: makes what keeps the generator alive.
    pub fn draw(&mut self, key: usize, numbers: u64, keeper: impl FnOnce() -> Box<dyn Send + Sync>) -> &'static Cell {
        let place = self.0.iter().position(|generator| generator.key == key).unwrap_or_else(|| {
            self.0.push(Generator { key, _keeper: keeper(), numbers: 0, cells: Vec::new() });
            self.0.len() - 1
        });
        let cell = SPARE.lock().pop().unwrap_or_else(|| Box::leak(Box::default()));
        let generator = &mut self.0[place];
        generator.cells.push((cell, generator.numbers));
        generator.numbers += numbers;
        cell
    }

    /// Sets the offset from which the kernels of a replay draw.
    pub(super) fn start(&self, draws: &Draws) {
        for (generator, start) in self.0.iter().zip(draws.starts()) {
            for (cell, behind) in &generator.cells {
                // Relaxed: the kernels run on this thread, or on others that it hands parts of them to.
                cell.seed.store(start.seed, Ordering::Relaxed);
                cell.offset.store(start.offset.wrapping_add(*behind), Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Generators {
    fn drop(&mut self) {
        SPARE.lock().extend(self.0.iter().flat_map(|generator| &generator.cells).map(|(cell, _)| *cell));
    }
}

/// Where the generators begin in one replay.
#[derive(Debug)]
pub(super) enum Draws {
    Few([Start; INLINE], usize),
    Many(Box<[Start]>),
}

impl Default for Draws {
    fn default() -> Self {
        Self::Few([Start::default(); INLINE], 0)
    }
}

impl Draws {
    pub fn new(starts: impl ExactSizeIterator<Item = Start>) -> Self {
        let count = starts.len();
        if count > INLINE {
            return Self::Many(starts.collect());
        }
        let mut few = [Start::default(); INLINE];
        few.iter_mut().zip(starts).for_each(|(place, start)| *place = start);
        Self::Few(few, count)
    }

    fn starts(&self) -> &[Start] {
        match self {
            Self::Few(few, count) => &few[..*count],
            Self::Many(many) => many,
        }
    }
}
