//! Loom model of the slots of parallel loops: each chunk runs once, no helper is inside after the caller returns.

use loom::cell::UnsafeCell;
use loom::thread;

use crate::runtime::slot::{OwnShare, Slot, Work};
use crate::runtime::sync::Arc;

struct Chunks<const N: usize>([UnsafeCell<usize>; N]);

// SAFETY: each chunk touches its own cell, and loom reports two at once.
unsafe impl<const N: usize> Sync for Chunks<N> {}

/// Threads on cores that are not known, and all on the first one.
const OWN_SHARES: [OwnShare; 2] = [|_| None, |_| Some(0)];

impl<const N: usize> Chunks<N> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    fn run(&self, slot: &Slot, helpers: usize, own_share: OwnShare) {
        // SAFETY: see the type.
        let body = |chunk: usize| self.0[chunk].with_mut(|count| unsafe { *count += 1 });
        let work = Work { count: N, grain: 1, body: &body };
        slot.claim().expect("nobody else claims").run(work, helpers, own_share, || {});
        for chunk in &self.0 {
            // SAFETY: as above: all helpers have left.
            assert_eq!(chunk.with(|count| unsafe { *count }), 1);
        }
    }
}

#[test]
fn loom_each_chunk_runs_once_and_is_visible_afterwards() {
    for own_share in OWN_SHARES {
        loom::model(move || {
            let slot = Arc::new(Slot::default());
            let other = Arc::clone(&slot);
            let helper = thread::spawn(move || _ = other.help(own_share));
            Chunks::<2>::new().run(&slot, 1, own_share);
            helper.join().unwrap();
        });
    }
}

#[test]
fn loom_a_slot_is_used_again_while_a_helper_comes_and_goes() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        let other = Arc::clone(&slot);
        let [own_share, _] = OWN_SHARES;
        let helper = thread::spawn(move || _ = other.help(own_share));
        Chunks::<1>::new().run(&slot, 1, own_share);
        Chunks::<2>::new().run(&slot, 1, own_share);
        helper.join().unwrap();
    });
}

#[test]
fn loom_one_claim_at_a_time() {
    loom::model(|| {
        let slot = Arc::new(Slot::default());
        let other = Arc::clone(&slot);
        let work = Work { count: 1, grain: 1, body: &|_| () };
        let claims = move |slot: &Slot| slot.claim().map(|claim| claim.run(work, 0, |_| None, || {})).is_some();
        let first = thread::spawn(move || claims(&other));
        let second = claims(&slot);
        assert!(first.join().unwrap() || second);
        assert!(slot.claim().is_some(), "a refused claim does not free the slot of another, nor a used one keep it");
    });
}
