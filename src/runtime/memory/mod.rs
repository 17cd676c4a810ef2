//! The stream-ordered caching device allocator and the pinned host allocator.
