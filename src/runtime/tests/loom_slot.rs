//! The slots of parallel loops under every interleaving: each chunk once, nobody inside after the caller returns.

use loom::cell::UnsafeCell;
use loom::thread;

use crate::runtime::slot::Slot;
use crate::runtime::sync::Arc;

struct Chunks<const N: usize>([UnsafeCell<usize>; N]);

// SAFETY: each chunk touches its own cell, and loom reports two at once.
unsafe impl<const N: usize> Sync for Chunks<N> {}

impl<const N: usize> Chunks<N> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    fn run(&self, slot: &Slot, helpers: usize) {
        // SAFETY: see the type.
        let body = |chunk: usize| self.0[chunk].with_mut(|count| unsafe { *count += 1 });
        slot.claim().expect("nobody else claims").run(N, 1, helpers, &body, || {});
        for chunk in &self.0 {
            // SAFETY: as above: all helpers have left.
            assert_eq!(chunk.with(|count| unsafe { *count }), 1);
        }
    }
}

#[test]
fn loom_each_chunk_runs_once_and_is_visible_afterwards() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        let other = Arc::clone(&slot);
        let helper = thread::spawn(move || _ = other.help());
        Chunks::<2>::new().run(&slot, 1);
        helper.join().unwrap();
    });
}

#[test]
fn loom_a_slot_is_used_again_while_a_helper_comes_and_goes() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        let other = Arc::clone(&slot);
        let helper = thread::spawn(move || _ = other.help());
        Chunks::<1>::new().run(&slot, 1);
        Chunks::<2>::new().run(&slot, 1);
        helper.join().unwrap();
    });
}

#[test]
fn loom_one_claim_at_a_time() {
    loom::model(|| {
        let slot = Arc::new(Slot::new());
        let other = Arc::clone(&slot);
        let claims = move |slot: &Slot| slot.claim().map(|claim| claim.run(1, 1, 0, &|_| (), || {})).is_some();
        let first = thread::spawn(move || claims(&other));
        let second = claims(&slot);
        assert!(first.join().unwrap() || second);
        assert!(slot.claim().is_some(), "a refused claim does not free the slot of another, nor a used one keep it");
    });
}
