//! One lab for all tests of an executable: started by the first test that asks for it, removed with the last test that has it. Each test
//! makes namespaces of its own in it, so that it runs alone, beside others and in any order.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use netloom_lab::Spec;

use crate::world::{Checked, ended, lab_with};

/// A lab that tests of one executable share. Make it a `static`.
pub struct SharedLab {
    name: &'static str,
    wish: fn(Spec) -> Spec,
    current: Mutex<(usize, Weak<Checked>)>,
}

impl SharedLab {
    /// A lab of this name with its own wishes; nothing is started yet.
    pub const fn new(name: &'static str, wish: fn(Spec) -> Spec) -> Self {
        Self {
            name,
            wish,
            current: Mutex::new((0, Weak::new())),
        }
    }

    /// The lab; started if no other test has it.
    pub fn get(&self) -> Arc<Checked> {
        // A test that could not start a lab has failed; the next one tries again.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, lab) = &mut *current;
        if let Some(lab) = lab.upgrade() {
            return lab;
        }
        // The lab before it may not be removed yet.
        *number += 1;
        let new = Arc::new(lab_with(&format!("{}-{number}", self.name), self.wish));
        assert_eq!(ended(&new), Vec::<String>::new(), "parts crashed at the start");
        *lab = Arc::downgrade(&new);
        new
    }
}
