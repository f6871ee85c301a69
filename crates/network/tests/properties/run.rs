//! What must hold after every sequence of changes. Two planners see all events; one of them writes, the other stands by.

use netloom_network::{Cluster, Northbound, Object, Planner, Scope, check, decide, diff, plan};

use crate::batches::{closed, in_batches};
use crate::database::Database;
use crate::facts::{self, Facts};
use crate::membership;
use crate::world::{World, bare};

/// What happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// An object is created or changed.
    Apply(Object),
    /// It is deleted.
    Remove(Object),
    /// The active planner compiles, and writes what differs.
    Compile,
    /// The planner that stands by compiles, and writes nothing.
    Idle,
    /// It takes over what the database says, and is the active one from now on.
    TakeOver,
    /// The active one writes what it has to, and ends; a new one takes its place and has nothing to write.
    Restart(u8),
}

/// Runs the steps; an error says what does not hold.
pub fn run(steps: &[Step]) -> Result<(), String> {
    let mut cluster = Running::default();
    for step in steps.iter().chain([&Step::Compile, &Step::TakeOver]) {
        cluster.take(step)?;
    }
    cluster.finish()
}

#[derive(Default)]
struct Running {
    world: World,
    active: Planner,
    standby: Planner,
    database: Database,
}

impl Running {
    fn take(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Apply(object) => {
                self.world.insert(object.clone());
                self.active.apply(object.clone());
                self.standby.apply(object.clone());
            }
            Step::Remove(object) => {
                let object = bare(object.clone());
                self.world.remove(&object);
                self.active.remove(&object);
                self.standby.remove(&object);
            }
            Step::Compile => {
                let scope = self.active.compile();
                self.write(&scope)?;
            }
            Step::Idle => {
                self.standby.compile();
                is_full(&self.standby, "standby")?;
            }
            Step::TakeOver => {
                std::mem::swap(&mut self.active, &mut self.standby);
                self.active.restore(self.database.observed());
                self.active.compile();
                self.write(&Scope::All)?;
            }
            Step::Restart(turn) => {
                let scope = self.active.compile();
                self.write(&scope)?;
                self.restart(*turn)?;
            }
        }
        Ok(())
    }

    /// Everything that holds once the active planner has compiled.
    fn write(&mut self, scope: &Scope) -> Result<(), String> {
        is_full(&self.active, "active")?;
        is_sound(self.active.desired())?;
        let facts = Facts::of(self.active.desired(), &self.world);
        none("addresses", facts.complaints())?;
        none("sets", facts::wrong_sets(&self.active, &facts))?;
        none("groups", membership::wrong_groups(&self.active, &facts))?;

        let observed = self.database.observed();
        let transaction = diff(observed, self.active.desired(), scope);
        let everything = diff(observed, self.active.desired(), &Scope::All);
        same(
            "the scope of a compile is too small",
            &transaction.is_empty(),
            &everything.is_empty(),
        )?;
        self.database.apply(&transaction)?;
        self.database.whole()?;
        same(
            "the database after the transaction",
            self.database.observed(),
            self.active.desired(),
        )
    }

    /// A planner that is new, told the objects in an order of its own, has nothing to write.
    fn restart(&mut self, turn: u8) -> Result<(), String> {
        let mut objects = self.world.objects();
        let middle = usize::from(turn).checked_rem(objects.len()).unwrap_or_default();
        objects.rotate_left(middle);
        let mut restarted = Planner::default();
        restarted.restore(self.database.observed());
        for object in objects {
            restarted.apply(object);
        }
        restarted.compile();
        let writes = diff(self.database.observed(), restarted.desired(), &Scope::All);
        none(
            "a restart writes",
            writes.0.iter().map(|operation| format!("{operation:?}")).collect(),
        )?;
        same("problems after a restart", restarted.problems(), self.active.problems())?;
        self.active = restarted;
        Ok(())
    }

    /// What follows from objects follows from them alone: the changes that led to them leave no trace.
    fn leaves_no_trace(&self) -> Result<(), String> {
        let objects = self.world.objects();
        for planner in [&self.active, &self.standby] {
            let mut anew = Cluster::default();
            anew.records = planner.cluster().records.clone();
            objects.iter().for_each(|object| anew.insert(object.clone()));
            if !objects.is_empty() && anew != *planner.cluster() {
                return Err("a trace of what was: a cluster made of the same objects is another".to_owned());
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), String> {
        self.leaves_no_trace()?;
        self.restart(7)?;
        let objects = self.world.objects();
        // The order in which objects are listed does not matter.
        let (mut forward, mut backward) = (fresh(objects.clone()), fresh(objects.into_iter().rev().collect()));
        same("desired, objects listed backwards", forward.desired(), backward.desired())?;
        same("problems, objects listed backwards", forward.problems(), backward.problems())?;
        same(
            "a second compile changes something",
            &(forward.compile().is_empty(), backward.compile().is_empty()),
            &(true, true),
        )?;
        is_sound(forward.desired())?;

        let nothing = diff(forward.desired(), forward.desired(), &Scope::All);
        same("a difference from itself", &nothing.is_empty(), &true)?;

        // Without a database everyone keeps what it shows.
        let facts = Facts::of(self.active.desired(), &self.world);
        let lost = fresh(facts.shown(self.world.objects()));
        let found = Facts::of(lost.desired(), &self.world);
        none("a lost database", facts.lost(&found))?;
        none("addresses after a lost database", found.complaints())?;
        is_full(&lost, "recovering")?;
        is_sound(lost.desired())?;

        // Part by part it comes to the same, from what another planner made of another order.
        let mut in_parts = Database::of(forward.desired());
        for part in self.active.parts(in_parts.observed()) {
            in_parts.apply(&diff(in_parts.observed(), self.active.desired(), &part.scope))?;
            in_parts.whole()?;
            self.active.scope_of(&part).ok_or("a part of a unit that is gone")?;
            closed(&part, forward.desired(), in_parts.observed(), self.active.desired())?;
        }
        same("the database after all parts", in_parts.observed(), self.active.desired())?;
        in_batches(&self.active, Database::of(forward.desired()), 3)?;
        in_batches(&self.active, Database::default(), 3).map(drop)
    }
}

/// A planner that knows nothing but these objects.
fn fresh(objects: Vec<Object>) -> Planner {
    let mut planner = Planner::default();
    for object in objects {
        planner.apply(object);
    }
    planner.compile();
    planner
}

/// Compiling step by step comes to the same as compiling everything.
pub fn is_full(planner: &Planner, which: &str) -> Result<(), String> {
    let (full, problems) = plan::compile(planner.cluster());
    same(&format!("desired of the {which} planner and in full"), planner.desired(), &full)?;
    let kept: Vec<_> = planner.problems().iter().cloned().collect();
    same(&format!("problems of the {which} planner and in full"), &kept, &problems)?;
    let statuses = plan::statuses(planner.cluster());
    if *planner.statuses() != statuses {
        return Err(format!(
            "statuses of the {which} planner and in full: {:?} {statuses:?}",
            planner.statuses()
        ));
    }
    let undecided = decide::undecided(planner.cluster());
    none(
        &format!("decisions of the {which} planner that would come out otherwise"),
        undecided.iter().map(|decision| format!("{decision:?}")).collect(),
    )
}

/// No rule of the linter is broken.
pub fn is_sound(northbound: &Northbound) -> Result<(), String> {
    let except = std::env::var("NETLOOM_EXCEPT").unwrap_or_default();
    let violations: Vec<_> = check::check(northbound)
        .into_iter()
        .filter(|violation| !except.split(',').any(|rule| rule == violation.rule))
        .collect();
    let rule = violations.first().map(|violation| violation.rule).unwrap_or_default();
    none(
        &format!("rule {rule} is broken"),
        violations.iter().map(ToString::to_string).collect(),
    )
}

fn none(what: &str, found: Vec<String>) -> Result<(), String> {
    if found.is_empty() {
        Ok(())
    } else {
        Err(format!("{what}: {}", found.join("; ")))
    }
}

pub fn same<T: PartialEq + Compared>(what: &str, one: &T, other: &T) -> Result<(), String> {
    if one == other {
        Ok(())
    } else {
        Err(format!("{what}: {}", one.difference(other)))
    }
}

/// What can be shown by how it differs.
pub trait Compared {
    fn difference(&self, other: &Self) -> String;
}

impl Compared for Northbound {
    fn difference(&self, other: &Self) -> String {
        diff(self, other, &Scope::All).to_string()
    }
}

macro_rules! compared {
    ($($type:ty),*) => {$(
        impl Compared for $type {
            fn difference(&self, other: &Self) -> String {
                format!("{self:#?} instead of {other:#?}")
            }
        }
    )*};
}
compared!(
    bool,
    (bool, bool),
    Vec<netloom_network::Problem>,
    std::collections::BTreeSet<netloom_network::Problem>
);
