//! The end of a planner that is another program.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A planner's process, which is killed when any clone of this is dropped.
#[derive(Clone, Debug)]
pub struct Ender(Arc<Mutex<Child>>);

impl Ender {
    pub(crate) fn new(child: Child) -> Self {
        Self(Arc::new(Mutex::new(child)))
    }

    pub(crate) fn child(&self) -> MutexGuard<'_, Child> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ender {
    fn drop(&mut self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}
