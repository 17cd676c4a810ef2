//! Scratch memory, cached by each thread: [`Buffer`] of one block, [`Memory`] of any size.
//!
//! A buffer takes its block at the first write. Blocks on the stack would make every loop touch all of their pages, which all map
//! to the same set of the first-level cache.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::rc::Rc;

use crate::simd::Aligned;
use crate::tensor::Element;
use crate::tuning::caches::{BLOCK, FEW_SCRATCH, KEPT_SCRATCH_BYTES, MAX_KEPT_SCRATCH};

/// A block of elements of any dtype. A loop writes through its address while the buffer owns it.
#[repr(C, align(64))]
struct ScratchBlock(Cell<MaybeUninit<[u8; BLOCK * 16]>>);

impl ScratchBlock {
    fn data(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

thread_local! {
    /// This thread's blocks that no buffer owns. There are as many blocks as its loops have used at once.
    static SPARE: RefCell<Vec<Rc<ScratchBlock>>> = const { RefCell::new(Vec::new()) };
}

/// Uninitialised, aligned memory of one block of any dtype.
#[derive(Default)]
pub struct Buffer(Option<Rc<ScratchBlock>>);

impl Buffer {
    #[inline(always)]
    pub const fn new() -> Self {
        Self(None)
    }

    /// The address of its first byte, the same at each call.
    #[inline(always)]
    pub fn data(&mut self) -> *mut u8 {
        match &self.0 {
            Some(block) => block.data(),
            None => self.take(),
        }
    }

    #[inline(never)]
    fn take(&mut self) -> *mut u8 {
        let spare = SPARE.try_with(|blocks| blocks.borrow_mut().pop()).ok().flatten();
        self.0.insert(spare.unwrap_or_else(|| Rc::new(ScratchBlock(Cell::new(MaybeUninit::uninit()))))).data()
    }

    #[inline(never)]
    fn give_back(block: Rc<ScratchBlock>) {
        // When a thread ends the list no longer exists, and the block is freed.
        let _ = SPARE.try_with(|blocks| blocks.borrow_mut().push(block));
    }
}

impl Drop for Buffer {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(block) = self.0.take() {
            Self::give_back(block);
        }
    }
}

type Line = Aligned<[u128; 4]>;

thread_local! {
    /// This thread's memories that are not in use.
    static SPARE_MEMORIES: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// Aligned memory of any size. It holds zeros or the data of its last user.
pub struct Memory(Vec<Line>);

impl Memory {
    /// Memory of at least `bytes` bytes.
    pub fn of(bytes: usize) -> Self {
        if bytes == 0 {
            return Self(Vec::new());
        }
        let lines = bytes.div_ceil(size_of::<Line>());
        let spare = |spare: &RefCell<Vec<Vec<Line>>>| {
            let mut spare = spare.borrow_mut();
            let fitting = spare.iter().position(|memory| memory.len() >= lines);
            fitting.map(|position| spare.swap_remove(position)).or_else(|| spare.pop())
        };
        let mut memory = SPARE_MEMORIES.try_with(spare).ok().flatten().unwrap_or_default();
        if memory.len() < lines {
            memory.resize(lines, Aligned([0; 4]));
        }
        Self(memory)
    }

    /// The address of its first byte.
    pub fn data(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// The memory's first `len` numbers. Panics if `len` numbers do not fit.
    pub fn numbers<T: Element>(&mut self, len: usize) -> &mut [T] {
        assert!(len * size_of::<T>() <= size_of_val(self.0.as_slice()), "{len} numbers of too little memory");
        // SAFETY: the bytes are initialised, and the assertion has checked that there are enough; every bit pattern is a number,
        // and a line is aligned for every type.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.0);
        if !memory.is_empty() && memory.len() * size_of::<Line>() <= KEPT_SCRATCH_BYTES {
            // When a thread ends the list no longer exists, and the memory is freed.
            let _ = SPARE_MEMORIES.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                if spare.len() < MAX_KEPT_SCRATCH {
                    spare.push(memory);
                }
            });
        }
    }
}

/// Runs `body` with a slice of zeros of at least `len` (at most [`BLOCK`]) elements.
#[inline]
pub fn with_zeros<T: Default + Copy>(len: usize, body: impl FnOnce(&mut [T])) {
    if len <= FEW_SCRATCH { body(&mut [T::default(); FEW_SCRATCH]) } else { body(&mut [T::default(); BLOCK]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_memories() {
        let mut one = Memory::of(1000);
        let first = one.data();
        assert_eq!(first as usize % 64, 0);
        assert_ne!(Memory::of(1000).data(), first);
        // SAFETY: the memory has that many bytes.
        unsafe { first.write(7) };
        drop(one);
        let mut again = [Memory::of(900), Memory::of(900)];
        // SAFETY: as above.
        assert!(again.iter_mut().any(|memory| unsafe { memory.data().read() } == 7));
        assert!(Memory::of(0).0.is_empty());
        assert!(Memory::of(KEPT_SCRATCH_BYTES + 1).0.len() * 64 > KEPT_SCRATCH_BYTES);
        assert!(SPARE_MEMORIES.with_borrow(Vec::is_empty));
    }

    #[test]
    fn a_thread_keeps_its_blocks() {
        let mut one = Buffer::new();
        let (first, again) = (one.data(), one.data());
        assert_eq!((first, first as usize % 64), (again, 0));
        let other = Buffer::new().data();
        assert_ne!(first, other);
        drop(one);
        assert_eq!(Buffer::new().data(), first);
        std::thread::spawn(move || assert_ne!(Buffer::new().data() as usize, 0)).join().unwrap();
    }
}
