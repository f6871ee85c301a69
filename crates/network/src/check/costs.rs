//! What OVN multiplies out. A conjunction costs the sum of its terms only when each term is about one field; a disjunction over several
//! fields makes it the product. `!=` becomes a flow for each bit that may differ, and over a set the product of those.

use crate::check::Broken;
use crate::check::expression::{Comparison, Expression, Relation, Value};
use crate::check::reading::Reading;

pub(super) fn negated(reading: &Reading<'_>) -> Vec<Broken> {
    of_matches(reading, |tree| {
        let negated = |(comparison, negated): &(&Comparison, bool)| match comparison.relation {
            Relation::Equal => *negated,
            Relation::NotEqual => !*negated,
            Relation::Order => false,
        };
        let found = tree.comparisons().into_iter().find(negated)?.0;
        let many = if is_many(found) { "a set" } else { "one constant" };
        Some(format!("it compares {} with != over {many}", found.field))
    })
}

pub(super) fn multiplied(reading: &Reading<'_>) -> Vec<Broken> {
    of_matches(reading, product)
}

fn of_matches(reading: &Reading<'_>, find: impl Fn(&Expression) -> Option<String>) -> Vec<Broken> {
    let read = reading.matches.iter().filter_map(|(id, read)| Some((*id, read.as_ref().ok()?)));
    read.filter_map(|(id, tree)| Some((reading.named(id), find(tree)?))).collect()
}

/// The first conjunction whose terms OVN multiplies.
fn product(tree: &Expression) -> Option<String> {
    match tree {
        Expression::Not(inner) => product(inner),
        Expression::Any(parts) => parts.iter().find_map(product),
        Expression::All(_) => {
            let terms = tree.conjuncts();
            let mixed = |term: &Expression| matches!(term, Expression::Any(_)) && term.fields().len() > 1 && has_many(term);
            let pair = terms.iter().enumerate().find_map(|(index, over)| {
                let others = terms.iter().enumerate().filter(|(other, _)| *other != index);
                let other = others.map(|(_, term)| term).find(|term| has_many(term))?;
                mixed(over).then_some((over, other))
            });
            let list = |term: &Expression| term.fields().into_iter().collect::<Vec<_>>().join(", ");
            let found = pair.map(|(over, other)| format!("a disjunction over {} is multiplied with {}", list(over), list(other)));
            found.or_else(|| terms.into_iter().find_map(product))
        }
        Expression::Predicate(_) | Expression::Compare(_) => None,
    }
}

/// Whether it stands for more values than it has fields, so that their number may grow.
fn has_many(tree: &Expression) -> bool {
    let comparisons = tree.comparisons();
    let leaves = comparisons.len();
    let fields = tree.fields().len();
    comparisons.into_iter().any(|(comparison, _)| is_many(comparison)) || leaves > fields
}

fn is_many(comparison: &Comparison) -> bool {
    let set = |value: &Value| matches!(value, Value::Set(_) | Value::Group(_));
    comparison.values.len() > 1 || comparison.values.iter().any(set) || comparison.relation == Relation::Order
}
