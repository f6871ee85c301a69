//! Random changes of every kind of object. Names and addresses are few, so that objects meet, come before what they refer to, ask for what
//! another has, and are created again with another UID.

mod cluster_policies;
mod nodes;
mod pods;
mod policies;
mod services;

use proptest::prelude::*;

use crate::run::Step;

/// Which kinds a sequence has most of. A few of the others are always among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    Everything,
    Addresses,
    Networks,
    Services,
    Policies,
}

impl Theme {
    pub const ALL: [Self; 5] = [Self::Everything, Self::Addresses, Self::Networks, Self::Services, Self::Policies];

    fn weight(self, theme: Self) -> u32 {
        match self {
            Self::Everything => 3,
            _ if self == theme => 8,
            _ => 1,
        }
    }
}

/// Short sequences: what goes wrong needs few objects that meet, not many.
pub fn steps(theme: Theme) -> BoxedStrategy<Vec<Step>> {
    let namespaces = prop::collection::vec(policies::namespace(), 0..3).prop_map(|some| policies::namespaces().chain(some));
    let networks = prop::collection::vec(policies::network(), 0..2);
    let settled = prop_oneof![1 => Just(vec![]), 4 => (nodes::two_nodes(), namespaces, networks).prop_map(move |(nodes, namespaces, networks)| {
        let networks = networks.into_iter().filter(|_| theme == Theme::Networks);
        nodes.into_iter().chain(namespaces).chain(networks).collect()
    })];
    let changes = prop::collection::vec(step(theme), 1..26);
    (settled, changes)
        .prop_map(|(first, rest)| first.into_iter().map(Step::Apply).chain(rest).collect())
        .boxed()
}

fn step(theme: Theme) -> BoxedStrategy<Step> {
    let of = |other| theme.weight(other);
    let pods = if theme == Theme::Services { 3 } else { 9 };
    let object = prop_oneof![
        of(Theme::Addresses) => nodes::cluster_network(),
        2 + 2 * of(Theme::Addresses) + of(Theme::Policies) => nodes::node(),
        pods => pods::pod(),
        3 * of(Theme::Services) => services::service(),
        3 * of(Theme::Services) => services::slice(),
        of(Theme::Services) => services::pool(),
        1 + of(Theme::Networks) + of(Theme::Policies) => policies::namespace(),
        2 * of(Theme::Networks) => policies::network(),
        of(Theme::Policies) => policies::network_policy(),
        of(Theme::Policies) => cluster_policies::policy(),
        of(Theme::Policies) => policies::security_group(),
    ]
    .boxed();
    prop_oneof![
        20 => object.clone().prop_map(Step::Apply),
        6 => object.prop_map(Step::Remove),
        9 => Just(Step::Compile),
        1 => Just(Step::Idle),
        2 => Just(Step::TakeOver),
        1 => any::<u8>().prop_map(Step::Restart),
    ]
    .boxed()
}

/// One of these texts.
fn text(of: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop::sample::select(of).prop_map(str::to_owned)
}

/// One of these texts, or none.
fn maybe(probability: f64, of: &'static [&'static str]) -> impl Strategy<Value = Option<String>> + Clone {
    prop::option::weighted(probability, text(of))
}
