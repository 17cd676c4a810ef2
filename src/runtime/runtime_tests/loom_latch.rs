//! Loom model of the latch: each waiting value is returned exactly once.

use loom::thread;

use crate::runtime::latch::Latch;
use crate::runtime::sync::{Arc, AtomicUsize, Ordering};

#[test]
fn loom_what_waits_comes_back_once() {
    loom::model(|| {
        let latch = Arc::new(Latch::default());
        let written = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..2)
            .map(|number| {
                let (latch, written) = (Arc::clone(&latch), Arc::clone(&written));
                thread::spawn(move || {
                    let returned = latch.wait(number).is_err();
                    if returned {
                        assert_eq!(written.load(Ordering::Relaxed), 1, "what came before the opening is visible");
                    }
                    returned
                })
            })
            .collect();
        written.store(1, Ordering::Relaxed);
        let kept = latch.open();
        assert!(latch.is_open());
        let returned = waiters.into_iter().map(|waiter| waiter.join().unwrap()).filter(|back| *back).count();
        assert_eq!(kept.len() + returned, 2);
    });
}

#[test]
fn loom_an_open_gate_shows_what_came_before() {
    loom::model(|| {
        let latch: Arc<Latch<()>> = Arc::new(Latch::default());
        let written = Arc::new(AtomicUsize::new(0));
        let (other, value) = (Arc::clone(&latch), Arc::clone(&written));
        let opener = thread::spawn(move || {
            value.store(1, Ordering::Relaxed);
            other.open();
        });
        if latch.is_open() {
            assert_eq!(written.load(Ordering::Relaxed), 1);
        }
        opener.join().unwrap();
    });
}
