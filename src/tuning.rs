//! Tuning constants. They decide from which sizes on work is divided between threads, a kernel takes another algorithm or a thread
//! is woken, and how large the blocks of loops are. The blocks of sums also decide the order of additions, and so the last bits of
//! a sum.
//!
//! Each constant states its unit, what it decides and, if known, where the change that introduced it was measured. Elsewhere are:
//! constants that a format, an algorithm or an interface fixes (beside their code), the widths in lanes and registers for which a
//! leaf is written (in the leaf), and the costs of elements (mostly in `src/ops/table.rs`).
//! docs/decisions/027-tuned-mechanisms.md has the gains of whole mechanisms.
#![forbid(unsafe_code)]

/// Division of work between threads: from which sizes on a loop is divided, and into which pieces.
pub mod sharing {
    /// Nanoseconds of one thread below which a loop stays on its thread.
    pub const SERIAL_NS: u64 = 2_000;
    /// Minimum nanoseconds of work that a thread claims of a loop at a time.
    pub const CLAIM_NS: u64 = 1_000;
    /// Maximum number of shares of a loop: further threads begin inside the shares of others.
    pub const MAX_SHARES: usize = if cfg!(loom) { 2 } else { 16 };
    /// Elements that one thread takes at a time; work of less than two such pieces is not divided.
    pub const GRAIN: usize = 16 * 1024;
    /// Maximum nanoseconds of a piece of a loop, so that the faster of two cores takes more pieces. Measured: AMD Zen 3, November
    /// 2026.
    pub const MAX_PIECE_NS: f64 = 4_000.0;
    /// Elements from which on a loop over lines has long pieces: each piece begins by preparing its memory, and there are enough
    /// long ones to balance the threads.
    pub const LONG_PIECES_FROM: usize = 64 * GRAIN;
    /// Elements from which on a tensor of a list is reduced by all threads together.
    pub const SHARED_REDUCTION: usize = 8 * GRAIN;
    /// Bytes that one thread copies or fills at a time.
    pub const COPY_PIECE_BYTES: usize = 64 * 1024;
    /// Nanoseconds of one thread from which on a scatter is divided, though every thread then reads all indices.
    pub const DIVIDED_UPDATE_NS: f64 = 150_000.0;
    /// Minimum contiguous bytes that a thread of a divided scatter has for itself.
    pub const UPDATE_LANE_BYTES: usize = 256;
    /// Bytes of a row from which on a scatter is divided by the target positions of its rows. Measured: AMD Zen 4, November 2026.
    pub const UPDATE_ROW_BYTES: usize = 1024;
    /// Rows that are sampled before a scatter is divided by target positions. Measured: AMD Zen 4, November 2026.
    pub const UPDATE_SAMPLES: usize = 32;
    /// Maximum ratio of a 16 bit target's elements to updates for which the whole target is cast; otherwise the updates are sorted.
    pub const CAST_FOR_EACH: i64 = 16;
    /// Columns of 16 bit floats whose sorted updates one thread folds at a time.
    pub const FOLDED_COLS: usize = 1024;
    /// Elements of a line, or of a few narrow columns, from which on threads divide its scan.
    pub const DIVIDED_SCAN: usize = 4 * GRAIN;
    /// Bytes of an input of `cat` from which on all threads copy it together; a smaller one is copied by one thread.
    pub const SHARED_INPUT_BYTES: usize = 512 * 1024;
    /// Nanoseconds of small inputs of `cat` that one thread copies at a time.
    pub const CAT_PIECE_NS: f64 = 10_000.0;
    /// Elements of a range (`arange` and the like) that one thread computes at a time.
    pub const RANGE_PIECE: usize = 16 * 1024;
    /// Minimum losses that one thread computes at a time.
    pub const LOSS_PIECE: usize = 4096;
    /// Minimum elements of a recurrent cell that one thread computes at a time.
    pub const CELL_PIECE: usize = 1024;
    /// Minimum rows of a part of a recurrent layer's batch: each part reads all weights at each step.
    pub const SEQUENCE_PART_ROWS: usize = 4;
    /// Maximum number of parts of a recurrent layer's batch.
    pub const MAX_SEQUENCE_PARTS: usize = 8;
    /// Maximum number of parts of the gradient of a depthwise convolution's weights: one thread adds the sums of all parts.
    pub const DEPTHWISE_PARTS: usize = 64;
    /// Minimum rows of a block of layer normalisation's gradient.
    pub const LAYER_NORM_ROWS: usize = 16;
    /// Maximum number of blocks of layer normalisation's gradient: each has sums of its own.
    pub const MAX_LAYER_NORM_BLOCKS: usize = 64;
    /// Rows of a piece of batch normalisation if every column is a channel.
    pub const CHANNEL_NORM_ROWS: usize = 256;
    /// Maximum elements of a piece whose mean and variance are computed together.
    pub const MEAN_VARIANCE_PIECE: usize = 4096;
    /// Maximum number of blocks of a histogram's values: each has counts of its own.
    pub const MAX_HISTOGRAM_BLOCKS: usize = 64;
    /// Minimum elements of a block of a radix sort.
    pub const RADIX_BLOCK: usize = 32 * 1024;
    /// Maximum number of blocks of a radix sort.
    pub const MAX_RADIX_BLOCKS: usize = 64;
    /// Elements of a line that one thread reads at a time to select from it.
    pub const SELECT_PIECE: usize = 32 * 1024;
    /// Rows of `unique` that one thread takes at a time.
    pub const UNIQUE_PIECE_ROWS: usize = 32 * 1024;
    /// Nanoseconds of one thread from which on a kernel is fused with others: for smaller kernels it does not matter whether their
    /// memory is in a cache.
    pub const FUSED_NS: u64 = 50_000;
    /// Elements of the first round of fused loops, after which the stream looks for kernels that have arrived meanwhile; rounds
    /// become longer while none arrives.
    pub const FUSION_ROUND: usize = 256 * 1024;
    /// Maximum number of fused tasks.
    pub const MAX_FUSED_TASKS: usize = 32;
}

/// Waking of threads: who runs a task, how long threads poll before they sleep, and how many tasks a stream holds.
pub mod waking {
    use std::time::Duration;

    /// Nanoseconds of one thread from which on a loop wakes sleepers: waking costs its caller 5 to 13 µs, and they arrive some 40
    /// µs later.
    pub const WAKE_NS: u64 = 100_000;
    /// Nanoseconds of loops without helpers within [`MISSED_WINDOW`] from which on sleepers are woken as well: more loops are
    /// likely.
    pub const MISSED_NS: u64 = 100_000;
    /// The time over which loops without helpers are added up.
    pub const MISSED_WINDOW: Duration = Duration::from_millis(2);
    /// How long a drainer polls for work after its last task before it sleeps.
    pub const SEARCH: Duration = Duration::from_micros(150);
    /// Polls of a drainer between two readings of the clock.
    pub const LOOKS: u32 = 64;
    /// How long a waiting thread polls, while no task ends and no loop needs help, before it sleeps: as long as the longest task
    /// that would not wake a helper.
    pub const LOOK_ON: Duration = Duration::from_micros(100);
    /// Polls of a slot whose last helper is still inside before the waiting thread gives up its time slice.
    pub const SPINS_BEFORE_YIELD: u32 = if cfg!(loom) { 0 } else { 4096 };
    /// How long an idle thread of the blocking pool lives.
    pub const BLOCKING_IDLE: Duration = Duration::from_secs(2);
    /// Nanoseconds below which a kernel runs on the submitting thread, if the stream is idle and every compute thread sleeps.
    pub const INLINE_COLD_NS: u64 = 15_000;
    /// The same threshold while a compute thread is awake to take the work.
    pub const INLINE_HOT_NS: u64 = 3_000;
    /// Tasks of one stream that a compute thread runs in a row while other streams of the same priority are ready.
    pub const TURN_TASKS: usize = 16;
    /// Tasks on a stream from which on a submitter helps or waits (back-pressure).
    pub const BACKLOG_TASKS: u64 = 2048;
}

/// Memory and caches: stores that bypass the caches, prefetches, scratch memory, and blocks of loops that stay in a cache.
pub mod caches {
    /// Bytes of a result from which on it is stored non-temporally: the size of the last-level cache of common processors.
    /// Measured: AMD Zen 3, November 2026.
    pub const BEYOND_CACHES_BYTES: usize = 32 << 20;
    /// Bytes of a target above which it counts as beyond the caches, so that dividing it pays even if every thread reads all
    /// indices.
    pub const FAR_TARGET_BYTES: i64 = 16 << 20;
    /// Bytes of an embedding table from which on its rows are prefetched before they are added. Measured: AMD Zen 5, November 2026.
    pub const FAR_TABLE_BYTES: usize = 8 << 20;
    /// Rows of an embedding table that are prefetched ahead.
    pub const PREFETCHED_ROWS: usize = 6;
    /// Maximum bytes of a row that are prefetched.
    pub const PREFETCHED_ROW_BYTES: usize = 512;
    /// Bytes of the largest scratch memory that a thread keeps. Measured: AMD Zen 4, November 2026.
    pub const KEPT_SCRATCH_BYTES: usize = 4 << 20;
    /// Maximum number of scratch memories that a thread keeps. Measured: AMD Zen 4, November 2026.
    pub const MAX_KEPT_SCRATCH: usize = 8;
    /// Elements of a loop up to which its scratch memory is smaller than a block, all of which would have to be zeroed.
    pub const FEW_SCRATCH: usize = 16;
    /// Elements of a block buffer.
    pub const BLOCK: usize = 1024;
    /// Elements that a kernel converts at a time if that is faster than one by one.
    pub const CONVERTED_RUN: usize = 512;
    /// Elements of a block that a cast converts through the hub type.
    pub const CAST_RUN: usize = BLOCK;
    /// Elements of a side of a transposing copy's tiles. They need no block buffer, and are larger than one.
    pub const TRANSPOSE_TILE: usize = 128;
    /// Rows of a patch where operands disagree about the innermost dimension: with as many columns, such a tile stays in the
    /// first-level cache.
    pub const PATCH_ROWS: usize = 32;
    /// Elements that an elementwise loop computes before it stores them.
    pub const ELEMENTWISE_BLOCK: usize = 64;
    /// Elements that a loop over lists computes before it stores them: with blocks of kilobytes the memory is idle while a block is
    /// computed, and steps of large models take twice as long.
    pub const LIST_BLOCK: usize = 32;
    /// Elements of a line that a scatter computes before it stores them.
    pub const UPDATE_BLOCK: usize = 64;
    /// Elements that are tested for the fast path together: if all take it, the loop over them has no branches.
    pub const FAST_PATH_BLOCK: usize = 256;
    /// Bytes of scratch memory that lines are gathered into together.
    pub const LINES_SCRATCH_BYTES: usize = 32 * 1024;
    /// Bytes of scratch memory for lines that are only cast: larger batches gain nothing, and the lines of all operands should stay
    /// in the first-level cache.
    pub const CAST_LINES_SCRATCH_BYTES: usize = 8 * 1024;
    /// Maximum lines of a batch.
    pub const MAX_LINES: usize = 64;
    /// Minimum lines that are gathered together, even if they are long: as many as share cache lines.
    pub const MIN_GATHERED_LINES: usize = 16;
    /// Maximum strips of a batch.
    pub const MAX_STRIPS: usize = 8;
    /// Rows of a strip up to which values between two passes are kept in scratch memory, even if the output could hold them.
    pub const KEPT_STRIP_ROWS: usize = if cfg!(test) { 64 } else { 8192 };
    /// Elements of a piece of fused loops: several tensors' pieces have to stay in a core's cache.
    pub const FUSED_PIECE: usize = 8 * 1024;
    /// Keys of a block of attention.
    pub const ATTENTION_KEYS: usize = 128;
    /// Queries of a block of attention: each block loads all of its keys and values.
    pub const ATTENTION_QUERIES: usize = 256;
    /// Queries of a block of attention's gradient.
    pub const ATTENTION_BACKWARD_QUERIES: usize = 128;
}

/// Reductions: their tiles, blocks and subtrees.
pub mod reductions {
    /// Elements of a run that is read twice: they stay in the first-level cache. Measured: AMD Zen 4, November 2026.
    pub const TWICE_READ_RUN: usize = 4096;
    /// Elements of a run that is read once.
    pub const ONCE_READ_RUN: usize = 16 * 1024;
    /// Maximum outputs of a tile that is folded by runs. Measured: AMD Zen 4, November 2026.
    pub const TILE_RUNS: usize = 64;
    /// Maximum bytes of a tile's states. Measured: AMD Zen 4, November 2026.
    pub const TILE_STATES_BYTES: usize = 8192;
    /// Minimum rows of a block that is folded row by row. Measured: AMD Zen 4, November 2026.
    pub const MIN_FOLDED_ROWS: usize = 32;
    /// Maximum rows of a block that is folded row by row. Measured: AMD Zen 4, November 2026.
    pub const MAX_FOLDED_ROWS: usize = 256;
    /// Elements of a block that is narrow, or packed in scratch memory. Measured: AMD Zen 4, November 2026.
    pub const PATCH_ELEMENTS: usize = 8192;
    /// Outputs of a tile whose elements are packed, at most. Measured: AMD Zen 4, November 2026.
    pub const PACKED_TILE_COLS: usize = 256;
    /// Columns that contiguous rows of a narrow tile are joined to, at most, and then folded together. Measured: AMD Zen 4,
    /// November 2026.
    pub const WIDE_TILE_COLS: usize = 256;
    /// Elements of an extent below which it is not worth a run of its own. Measured: AMD Zen 4, November 2026.
    pub const MIN_RUN: usize = 16;
    /// Columns below which a tile is folded by runs, unless rows can be folded together. Measured: AMD Zen 4, November 2026.
    pub const NARROW_TILE_COLS: usize = 8;
    /// Tiles below which they are divided into subtrees, if they have enough elements. Measured: AMD Zen 4, November 2026.
    pub const FEW_TILES: usize = 16;
    /// Approximate maximum of the subtrees of few tiles. Measured: AMD Zen 4, November 2026.
    pub const MANY_SUBTREES: usize = 64;
    /// Columns of a block that two folds over the same elements compute at a time, with separate states.
    pub const TWO_FOLDS_COLS: usize = 64;
    /// Bytes of a dense run from which on its halves are read alternately; shorter runs are read in order, which the hardware
    /// prefetcher follows. Measured: AMD Zen 4, November 2026.
    pub const ALTERNATING_BYTES: usize = 32 * 1024;
    /// Columns that an argmin or argmax folds in vector lanes at a time. Measured: AMD Zen 4, November 2026.
    pub const ARGMINMAX_COLS: usize = 256;
    /// Columns that a variance folds in vector lanes at a time. Measured: AMD Zen 4, November 2026.
    pub const VARIANCE_COLS: usize = 128;
}

/// Matrix products: which code computes them, and in which tiles. Work is counted in multiply-adds.
pub mod products {
    /// Multiply-adds of an `f32` tile that are worth a thread.
    pub const TILE_MULTIPLY_ADDS: f64 = 1e6;
    /// Maximum tiles of a product that is not huge.
    pub const MAX_TILES: f64 = 8.0;
    /// Multiply-adds of a tile of a huge product, which has more tiles for more threads.
    pub const HUGE_TILE_MULTIPLY_ADDS: f64 = 5e8;
    /// Maximum tiles of a huge product.
    pub const MAX_HUGE_TILES: f64 = 256.0;
    /// Multiply-adds from which on the library is faster than the `gemm` crate for `f32` and `f64`. Measured: Intel Xeon with AMX,
    /// one thread, November 2026.
    pub const LIBRARY_MULTIPLY_ADDS: usize = 300_000;
    /// Multiply-adds from which on the library is faster than widened blocks for `f16` and `bf16`. Measured: Intel Xeon with AMX,
    /// one thread, November 2026.
    pub const LIBRARY_MULTIPLY_ADDS_16_BIT: usize = 16 * 16 * 16;
    /// Multiply-adds of `bf16` from which on oneDNN is faster than BLAS. Measured: Intel Xeon with AMX, November 2026.
    pub const ONEDNN_MULTIPLY_ADDS: f64 = 4e7;
    /// Rows (or columns) of a product of `f32` or `f64` up to which the library is faster than the `gemm` crate on AMD, if there
    /// are [`LIBRARY_COLUMNS_AMD`]. Measured: AMD Zen 4, November 2026.
    pub const LIBRARY_ROWS_AMD: usize = 32;
    /// Columns (or rows) from which on the library is faster for [`LIBRARY_ROWS_AMD`]. Measured: AMD Zen 4, November 2026.
    pub const LIBRARY_COLUMNS_AMD: usize = 512;
    /// Multiply-adds of a vector product, which is bound by memory bandwidth, that are worth a thread.
    pub const VECTOR_MULTIPLY_ADDS: f64 = 1e5;
    /// Maximum rows and columns of the library's tile of 16 bit floats: its sums stay in a second-level cache of 2 MiB.
    pub const LIBRARY_TILE_SIDE: usize = 512;
    /// Multiply-adds of 16 bit floats in the library that are worth a thread.
    pub const TILE_MULTIPLY_ADDS_16_BIT: f64 = 2e7;
    /// Maximum rows and columns of a tile of widened operands.
    pub const WIDENED_TILE_SIDE: usize = 288;
    /// Maximum length along the summed dimension of a block of widened operands.
    pub const WIDENED_DEPTH: usize = 256;
    /// Lanes of 32 bits along the summed dimension of a panel of `matmul::blocked`; the panel stays in the first-level cache.
    /// Measured: AMD Zen 4, November 2026.
    pub const PANEL_LANES: usize = 256;
    /// Maximum rows and columns of a tile of `matmul::blocked`: packing takes a small part of its time. Measured: AMD Zen 4, two
    /// threads, November 2026.
    pub const BLOCKED_TILE_SIDE: usize = 512;
    /// Multiply-adds of `matmul::blocked` that are worth a thread. Measured: AMD Zen 4, two threads, November 2026.
    pub const BLOCKED_TILE_MULTIPLY_ADDS: f64 = 1e6;
    /// Rows or columns up to which the kernels of skinny products are faster than `matmul::blocked`: no element is used often
    /// enough to be packed. Measured: AMD Zen 4, November 2026.
    pub const UNBLOCKED_ROWS: usize = 4;
    /// Register tiles of rows that use a panel of `f32` up to which reading it in place is faster than packing it. Measured: AMD
    /// Zen 4, November 2026.
    pub const UNPACKED_ROW_TILES: usize = 2;
    /// Maximum rows (or columns) of a skinny product.
    pub const SKINNY_ROWS: usize = 8;
    /// Columns of a strip of a skinny product: its sums stay in the first-level cache.
    pub const SKINNY_STRIP: usize = 512;
    /// Columns of a strip up to which it is a narrow one, which has fewer sums to initialise.
    pub const NARROW_STRIP: usize = 32;
    /// Columns of a strip of dot products.
    pub const DOT_STRIP: usize = 32;
    /// Terms from which on a dot product has as many partial sums as the compiler vectorises.
    pub const LONG_DOT: usize = 128;
    /// Maximum columns and terms of a narrow product, which has many rows.
    pub const NARROW_COLUMNS: usize = 16;
    /// Minimum rows of a narrow product, and the rows that are computed before they are copied to the output.
    pub const NARROW_ROWS: usize = 64;
    /// Rows of a narrow product that one thread takes at a time.
    pub const NARROW_PIECE_ROWS: usize = 16 * NARROW_ROWS;
}

/// Algorithms of kernels: the sizes from which on they take another one.
pub mod algorithms {
    use super::sharing::GRAIN;
    use std::ops::Range;

    /// Elements of a tensor below which a function of 16 bit floats is computed, not looked up: the table would have to be loaded
    /// from memory.
    pub const MIN_LOOKED_UP: usize = GRAIN;
    /// Elements, over all calls, from which on a function of 16 bit floats gets a lookup table: filling it is at most a quarter of
    /// its work.
    pub const LOOKUP_TABLE_WORTH: usize = 4 << 16;
    /// Maximum number of remembered functions, those used last: their lookup tables take 128 KiB each.
    pub const MAX_LOOKUP_TABLES: usize = 32;
    /// Elements of a line from which on it is sorted by radix sort, not by comparisons. Measured: AMD Zen 3, November 2026.
    pub const COMPARED_LINE: usize = 4 * 1024;
    /// Elements of a line that is sorted by wide digits: it stays in the cache, and has more elements than there are buckets.
    pub const WIDE_DIGIT_LINES: Range<usize> = 8 * 1024..256 * 1024;
    pub const WIDE_DIGIT_BITS: u32 = 11;
    /// Bits of a digit of all other lines.
    pub const NARROW_DIGIT_BITS: u32 = 8;
    /// Elements of a line up to which `kthvalue` and `median` select from pairs of key and index.
    pub const SELECTED_AS_PAIRS: usize = 4096;
    /// Bits of a digit of the radix selection in longer lines.
    pub const SELECT_DIGIT_BITS: u32 = 11;
    /// Values that are searched together: their comparisons overlap while each waits for its element.
    pub const SEARCHED_TOGETHER: usize = 16;
    /// Elements of a line above which all threads sort it.
    pub const SHARED_SORT_LINE: i64 = 16384;
    /// Maximum elements that `topk` selects; for more of them all threads sort the line.
    pub const MAX_SELECTED: i64 = 2048;
    /// Elements of a line up to which `unique` in one launch on one thread is faster than several launches.
    pub const UNIQUE_LINE: i64 = 4096;
    /// Terms of a block of a convolution's sums: a panel of them stays in the first-level cache. Measured: AMD Zen 3, November
    /// 2026.
    pub const CONVOLUTION_TERMS: usize = 256;
    /// Maximum columns of a block of a convolution.
    pub const CONVOLUTION_COLUMNS: usize = 256;
    /// Maximum numbers in the panels of a block of a convolution, if it has more than the fewest columns.
    pub const CONVOLUTION_PANELS: usize = 256 * 1024;
    /// Blocks that a convolution is divided into, if it has enough columns and rows.
    pub const CONVOLUTION_PARTS: usize = 8;
    /// Windows of a row from which on they are computed in vector lanes.
    pub const POOLED_IN_LANES: usize = 16;
    /// Rows of a bag of embeddings that are added to the sums together.
    pub const ADDED_TOGETHER: usize = 16;
    /// Rows of a part of a recurrent layer's batch from which on products of 16 bit floats are not widened on a processor with AMX;
    /// otherwise `f32` products are faster.
    pub const SEQUENCE_ROWS_16_BIT: usize = 16;
}

/// Tasks of PyTorch's kernels: the parts that they are divided into, and the threads that they take.
pub mod tasks {
    /// Minimum nanoseconds of a part of a task: handing out smaller ones costs more than it saves.
    pub const PART_NS: u64 = 100_000;
    /// Maximum number of parts of a task.
    pub const MAX_PARTS: u64 = 16;
    /// Nanoseconds of one thread from which on an undivided call uses the libraries' threads.
    pub const LIBRARY_THREADS_NS: u64 = 1_000_000;
    /// Minimum positions of a convolution's output in a part of its batch: the reordering of the weights is then a small share of
    /// the part's work.
    pub const PART_POSITIONS: i64 = 1024;
    /// Minimum channels of a part of a convolution.
    pub const PART_CHANNELS: i64 = 64;
    /// Minimum channels of a part if the call would not be divided otherwise.
    pub const FEWEST_PART_CHANNELS: i64 = 32;
    /// Positions of all images' outputs up to which a convolution in float32 is computed by a Rust kernel with AVX2, and up to which
    /// that kernel packs several images with windows of one element in place of a matrix product for each. Measured: AMD Zen 3,
    /// November 2026.
    pub const FEW_POSITIONS: i64 = 512;
    /// Elements of a channel from which on oneDNN's kernel for volumes is faster than the one that PyTorch chooses for a batch of
    /// one.
    pub const ONEDNN_VOLUME: i64 = 128;
}

/// Memory pools: the sizes of segments, and how far a search for a block goes.
pub mod pools {
    /// Bytes of the largest request that small segments serve.
    pub const SMALL_REQUEST_BYTES: usize = 1 << 20;
    /// Bytes of a small segment.
    pub const SMALL_SEGMENT_BYTES: usize = 2 << 20;
    /// Bytes of a large segment that several requests share.
    pub const SHARED_SEGMENT_BYTES: usize = 20 << 20;
    /// Bytes of a request from which on it gets a segment of its own.
    pub const OWN_SEGMENT_BYTES: usize = 10 << 20;
    /// Blocks of a request's own size class that are tried before larger classes.
    pub const PROBES: usize = 16;
    /// Blocks of the front cache: as many as a few operators with several results free between two calls.
    pub const FRONT_CACHE_BLOCKS: usize = 4;
}
