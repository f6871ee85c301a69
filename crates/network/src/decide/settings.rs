//! The addressing: what is written if it is sound and does not take away what is in use, else what is in force.

use crate::cluster::View;
use crate::decide::{Choice, Outcome};
use crate::problem::Problem;
use crate::settings::Settings;

pub(super) fn decide(view: &View<'_>) -> Outcome {
    let current = view.settings();
    let keep = || Outcome::of(Choice::Settings(current.cloned()));
    let refuse = |reason, why| keep().but(Problem::new(view.network_ref(), reason, why));
    let Some(network) = view.cluster_network() else {
        return Outcome::of(Choice::Settings(Some(current.cloned().unwrap_or_default())));
    };
    let wanted = match Settings::from_spec(&network.spec) {
        Ok(wanted) => wanted,
        Err(why) => return refuse("InvalidNetwork", why),
    };
    match current {
        Some(current) if *current != wanted && view.slotted_nodes().next().is_some() => match current.may_become(&wanted) {
            Ok(()) => Outcome::of(Choice::Settings(Some(wanted))),
            Err(why) => refuse("ChangeRefused", why),
        },
        _ => Outcome::of(Choice::Settings(Some(wanted))),
    }
}
