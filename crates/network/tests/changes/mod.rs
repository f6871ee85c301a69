//! A planner whose every step is compared with compiling everything, and what is in its sets.
#![allow(dead_code)] // not every test asks for all of it

use std::collections::BTreeSet;

use netloom_network::rows::AddressSet;
use netloom_network::{Key, Object, Planner, RowId, Scope, check, plan};
use netloom_ovsdb::Table;

/// One that has seen these objects.
pub fn planner(objects: impl IntoIterator<Item = Object>) -> Planner {
    let mut planner = Planner::default();
    objects.into_iter().for_each(|object| assert!(planner.apply(object)));
    compile(&mut planner);
    planner
}

/// Compiles, and sees that it comes to the same as compiling everything; how many rows and members differ from before.
pub fn compile(planner: &mut Planner) -> (usize, usize) {
    let scope = planner.compile();
    let (full, problems) = plan::compile(planner.cluster());
    assert!(*planner.desired() == full, "incremental and full differ");
    assert_eq!(planner.problems().iter().cloned().collect::<Vec<_>>(), problems);
    assert_eq!(check::check(&full), []);
    match scope {
        Scope::All => panic!("everything may differ"),
        Scope::Some { rows, members } => (rows.len(), members.len()),
    }
}

/// Addresses in a set.
pub fn addresses(planner: &Planner, key: &str) -> BTreeSet<String> {
    let row = RowId::of(AddressSet::TABLE, &Key::new(key));
    let values = planner.desired().members(row, "addresses");
    values.map(|value| value.as_str().unwrap().to_owned()).collect()
}
