//! ACLs that tell what they did. Who asks for it, a namespace or a cluster-wide policy, has one meter, which limits each of its ACLs on each node
//! on its own. OVN tells every packet of an allowed connection, so that of what is allowed a second ACL tells the first packets only.

use std::collections::BTreeSet;

use crate::cluster::View;
use crate::key::Key;
use crate::northbound::{ids, put};
use crate::policy::log::{Log, POLICY_LOG, Verdict, asks};
use crate::problem::{ObjectRef, Problem};
use crate::rows::{Acl, Meter, MeterBand};
use crate::unit::Fragment;

/// Lines a second, of one ACL on one node.
const RATE: i64 = 10;
/// Lines at once.
const BURST: i64 = 30;
/// The longest name OVN takes.
const LONGEST: usize = 63;

fn meter(asker: &str) -> String {
    format!("policy-log_{asker}")
}

impl Log {
    /// The same ACL, logged under a name.
    pub(super) fn on(&self, row: Acl, name: &str) -> Acl {
        let mut name: String = name.to_owned();
        if name.chars().count() > LONGEST {
            name = name.chars().take(LONGEST - 1).chain(['…']).collect();
        }
        Acl {
            log: true,
            name: Some(name),
            severity: Some("info".to_owned()),
            meter: Some(meter(&self.asker)),
            ..row
        }
    }
}

/// Those packets that open a connection.
pub(super) fn first_of_connections(condition: &str) -> String {
    format!("{condition} && ct.new")
}

/// The others, also those of no connection.
pub(super) fn not_first_of_connections(condition: &str) -> String {
    format!("{condition} && (!ct.trk || !ct.new)")
}

/// What a namespace asks for.
pub(in crate::unit) fn compile(view: &View<'_>, namespace: &str, fragment: &mut Fragment) {
    if let Some(annotation) = view.namespace_log(namespace) {
        put_meter(annotation, namespace, &view.namespace_ref(namespace), fragment);
    }
}

/// The meter of one whose annotation asks for anything.
pub(super) fn put_meter(annotation: &str, asker: &str, owner: &ObjectRef, fragment: &mut Fragment) {
    match [Verdict::Allowed, Verdict::Dropped].map(|verdict| asks(annotation, verdict)) {
        [Some(false), Some(false)] => return,
        [Some(_), Some(_)] => {}
        _ => {
            let why =
                format!("{POLICY_LOG}: \"{annotation}\" is unknown; write dropped, allowed, all or none (until then nothing is logged)");
            return fragment.problems.push(Problem::new(owner.clone(), "InvalidPolicyLog", why));
        }
    }
    let (key, band) = (
        Key::new(format!("policy-log/{asker}")),
        Key::new(format!("policy-log/{asker}/rate")),
    );
    let rate = MeterBand {
        action: "drop".to_owned(),
        rate: RATE,
        burst_size: BURST,
        external_ids: ids(&band, owner),
    };
    let rate = put(fragment, &band, rate).uuid();
    let row = Meter {
        name: meter(asker),
        unit: "pktps".to_owned(),
        fair: Some(true),
        bands: BTreeSet::from([rate]),
        external_ids: ids(&key, owner),
    };
    put(fragment, &key, row);
}
