//! [`Buffer`]: scratch memory of one block, which a thread keeps for its next loop.
//!
//! Blocks are taken when they are first written to. On the stack they would cost every loop a touch of each of their pages, which all
//! fall into the same set of the first-level cache.

use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::rc::Rc;

use super::BLOCK;

/// A block of elements of any dtype. A loop writes through its address while the buffer has it.
#[repr(C, align(64))]
struct Block(Cell<MaybeUninit<[u8; BLOCK * 16]>>);

impl Block {
    fn data(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

thread_local! {
    /// This thread's blocks that no buffer has: as many as its loops had at once.
    static SPARE: RefCell<Vec<Rc<Block>>> = const { RefCell::new(Vec::new()) };
}

/// Uninitialised, aligned memory of one block of any dtype.
#[derive(Default)]
pub struct Buffer(Option<Rc<Block>>);

impl Buffer {
    /// A buffer with nothing in it.
    #[inline(always)]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Its first byte, the same at each call.
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
        self.0.insert(spare.unwrap_or_else(|| Rc::new(Block(Cell::new(MaybeUninit::uninit()))))).data()
    }

    #[inline(never)]
    fn give_back(block: Rc<Block>) {
        // A thread that ends has no list any more: the block is freed.
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

/// Elements of a loop whose scratch memory is no block.
const FEW: usize = 16;

/// Runs `body` with zeros for at least `len` (at most [`BLOCK`]) elements.
#[inline]
pub fn with_zeros<T: Default + Copy>(len: usize, body: impl FnOnce(&mut [T])) {
    if len <= FEW { body(&mut [T::default(); FEW]) } else { body(&mut [T::default(); BLOCK]) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
