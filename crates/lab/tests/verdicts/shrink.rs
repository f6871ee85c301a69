//! The smallest cluster that still shows a difference: objects, rules and their parts are left out one after the other, as long as the
//! question is answered wrongly without them.

use serde_json::Value;

use crate::ovn::Ovn;
use crate::questions::Question;
use crate::world::{Compiler, World};

/// Lists of policies whose entries may be left out.
const LISTS: [&str; 8] = ["ingress", "egress", "from", "to", "ports", "except", "rules", "protocols"];
/// How often it is tried.
const ATTEMPTS: usize = 150;

/// A smaller cluster, and what it shows.
pub async fn shrink(ovn: &mut Ovn, compiler: &mut Compiler, world: World, question: &Question, difference: String) -> (World, String) {
    let (mut world, mut difference) = (world, difference);
    let mut attempts = 0;
    let mut place = 0;
    while attempts < ATTEMPTS {
        let Some(smaller) = without(&world, question, place) else { break };
        attempts += 1;
        smaller.compile(compiler);
        ovn.become_like(compiler.planner().desired()).await;
        let answer = question.ask(&ovn.tracer(2), &smaller.evaluator());
        match answer.and_then(|answer| answer.difference) {
            Some(still) => (world, difference) = (smaller, still),
            None => place += 1,
        }
    }
    (world, difference)
}

/// The cluster without what is at a place: first whole objects, then entries of lists.
fn without(world: &World, question: &Question, mut place: usize) -> Option<World> {
    let can_go = |object: &Value| {
        let (kind, name) = (object["kind"].as_str()?, object["metadata"]["name"].as_str()?);
        (!["Node", "Namespace"].contains(&kind) && !question.names(name)).then_some(())
    };
    for (number, object) in world.objects.iter().enumerate().rev() {
        if can_go(object).is_none() {
            continue;
        }
        if place == 0 {
            let mut objects = world.objects.clone();
            objects.remove(number);
            return Some(World {
                objects,
                choice: world.choice,
            });
        }
        place -= 1;
    }
    let mut objects = world.objects.clone();
    let specs = objects.iter_mut().filter(|object| {
        object["kind"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("Policy") || kind == "SecurityGroup")
    });
    let mut specs = specs.map(|object| &mut object["spec"]);
    let gone = specs.any(|spec| leave_out(spec, &mut place));
    gone.then_some(World {
        objects,
        choice: world.choice,
    })
}

/// Leaves out the entry at a place of the lists in a value; says whether there is one.
fn leave_out(value: &mut Value, place: &mut usize) -> bool {
    match value {
        Value::Object(fields) => fields.iter_mut().any(|(name, value)| match value {
            Value::Array(list) if LISTS.contains(&name.as_str()) => {
                if *place < list.len() {
                    list.remove(*place);
                    return true;
                }
                *place -= list.len();
                list.iter_mut().any(|entry| leave_out(entry, place))
            }
            value => leave_out(value, place),
        }),
        _ => false,
    }
}
