//! What people should know, found by the planner and published by `report`. A value: what objects show already is not in it, so that a
//! large cluster at rest has next to none.

use std::collections::{BTreeMap, BTreeSet};

use netloom_network::plan::News;
use netloom_network::{ObjectRef, Problem, Shows};
use tokio::sync::watch;

/// What is to be reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What users have to change.
    pub problems: BTreeSet<Problem>,
    /// What the database refuses.
    pub refused: BTreeSet<Problem>,
    /// What objects have to show.
    pub statuses: BTreeMap<ObjectRef, Shows>,
    /// Grows when another controller may have reported something in between.
    pub term: u64,
}

/// What was found and is published once it is in the database: an address that is not recorded may still be given to another.
#[derive(Default)]
pub struct Unpublished {
    news: News,
    term: Option<u64>,
}

impl Unpublished {
    /// Adds what differs now.
    pub fn add(&mut self, news: News) {
        self.news.problems.extend(news.problems);
        self.news.statuses.extend(news.statuses);
    }

    /// A new term began.
    pub fn begin(&mut self, term: u64) {
        self.term = Some(term);
    }

    /// Publishes what there is, if anything. Statuses of objects that the database refuses wait until it takes their rows.
    pub fn publish(&mut self, refused: BTreeSet<Problem>, findings: &watch::Sender<Findings>) {
        let Self { news, term } = std::mem::take(self);
        let refuses = |object: &ObjectRef| refused.iter().any(|problem| problem.object == *object);
        let (withheld, statuses): (BTreeMap<_, _>, BTreeMap<_, _>) = news.statuses.into_iter().partition(|(object, _)| refuses(object));
        self.news.statuses = withheld;
        let news = News { statuses, ..news };
        findings.send_if_modified(|findings| {
            let changed = !news.is_empty() || term.is_some() || refused != findings.refused;
            findings.term = term.unwrap_or(findings.term);
            findings.refused = refused;
            for (problem, there) in news.problems {
                if there {
                    findings.problems.insert(problem);
                } else {
                    findings.problems.remove(&problem);
                }
            }
            for (object, shows) in news.statuses {
                match shows {
                    Some(shows) => drop(findings.statuses.insert(object, shows)),
                    None => drop(findings.statuses.remove(&object)),
                }
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> ObjectRef {
        ObjectRef::cluster("Node", name, "")
    }

    fn shows(names: &[&str]) -> News {
        let status = |name: &&str| (node(name), Some(Shows::Subnets(name.to_string())));
        News {
            statuses: names.iter().map(status).collect(),
            ..News::default()
        }
    }

    #[test]
    fn what_the_database_refuses_shows_nothing_until_it_is_taken() {
        let (sender, findings) = watch::channel(Findings::default());
        let shown = || -> Vec<String> { findings.borrow().statuses.keys().map(|object| object.name.clone()).collect() };
        let mut unpublished = Unpublished::default();
        unpublished.add(shows(&["a", "b"]));
        assert_eq!(shown(), Vec::<String>::new(), "nothing before it is published");
        unpublished.publish([Problem::new(node("b"), "RefusedByDatabase", "taken")].into(), &sender);
        assert_eq!(shown(), ["a"]);
        unpublished.publish(BTreeSet::new(), &sender);
        assert_eq!(shown(), ["a", "b"]);
    }
}
