//! Isolation of namespaces: what its annotations say, read into one of three degrees. The virtual network `<namespace>-vn` that isolation
//! gives a namespace is made of groups and sets, so pods keep their addresses whatever is said here.
//!
//! What cannot be read isolates as strictly as it may have been meant.

use std::collections::BTreeMap;

/// How far a namespace is isolated: `none`, `pods` or `services`.
pub const ISOLATION: &str = "netloom.io/isolation";
/// The name users of OpenContrail know: `"true"` is `pods`.
pub const ISOLATED: &str = "opencontrail.kubernetes.isolated";

/// How far a namespace is isolated from pods of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// Not at all.
    #[default]
    None,
    /// Its pods are reached through services only.
    Pods,
    /// Its pods and its services are not reached.
    Services,
}

impl Isolation {
    /// As [`ISOLATION`] says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pods => "pods",
            Self::Services => "services",
        }
    }
}

/// Something wrong with the annotations: a reason, and what to change.
pub type Complaint = (&'static str, String);

/// Reads the annotations of a namespace.
pub fn read(annotations: &BTreeMap<String, String>) -> (Isolation, Vec<Complaint>) {
    let mut complaints = Vec::new();
    let mut said = |name: &str, of: fn(&str) -> Option<Isolation>, strictest: Isolation, known: &str| {
        let text = annotations.get(name)?;
        Some(of(text.trim()).unwrap_or_else(|| {
            let why = format!(
                "annotation {name}: \"{text}\" is unknown, so the namespace is isolated as by \"{}\"; write {known}",
                strictest.as_str()
            );
            complaints.push(("InvalidIsolation", why));
            strictest
        }))
    };
    let ours = said(ISOLATION, degree, Isolation::Services, "none, pods or services");
    let theirs = said(ISOLATED, truth, Isolation::Pods, "\"true\" or \"false\"");
    let isolation = ours.max(theirs).unwrap_or_default();
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && (ours == Isolation::None) != (theirs == Isolation::None)
        && complaints.is_empty()
    {
        let why = format!(
            "annotations {ISOLATION} and {ISOLATED} disagree; the stricter of them holds, \"{}\"; remove one",
            isolation.as_str()
        );
        complaints.push(("ConflictingIsolation", why));
    }
    (isolation, complaints)
}

fn degree(text: &str) -> Option<Isolation> {
    [Isolation::None, Isolation::Pods, Isolation::Services]
        .into_iter()
        .find(|isolation| isolation.as_str() == text)
}

fn truth(text: &str) -> Option<Isolation> {
    match text {
        "true" => Some(Isolation::Pods),
        "false" => Some(Isolation::None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> (Isolation, Vec<&'static str>) {
        let annotations = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (isolation, complaints) = read(&annotations);
        (isolation, complaints.into_iter().map(|(reason, _)| reason).collect())
    }

    #[test]
    fn both_annotations_are_read() {
        assert_eq!(of(&[]), (Isolation::None, vec![]));
        assert_eq!(of(&[(ISOLATED, "true")]), (Isolation::Pods, vec![]));
        assert_eq!(of(&[(ISOLATED, "false")]), (Isolation::None, vec![]));
        assert_eq!(of(&[(ISOLATION, "none")]), (Isolation::None, vec![]));
        assert_eq!(of(&[(ISOLATION, " pods ")]), (Isolation::Pods, vec![]));
        assert_eq!(of(&[(ISOLATION, "services")]), (Isolation::Services, vec![]));
    }

    #[test]
    fn the_stricter_of_two_holds_and_only_contradictions_are_told() {
        assert_eq!(of(&[(ISOLATION, "pods"), (ISOLATED, "true")]), (Isolation::Pods, vec![]));
        assert_eq!(of(&[(ISOLATION, "services"), (ISOLATED, "true")]), (Isolation::Services, vec![]));
        let conflict = vec!["ConflictingIsolation"];
        assert_eq!(of(&[(ISOLATION, "none"), (ISOLATED, "true")]), (Isolation::Pods, conflict.clone()));
        assert_eq!(of(&[(ISOLATION, "services"), (ISOLATED, "false")]), (Isolation::Services, conflict));
    }

    #[test]
    fn what_nobody_knows_isolates() {
        let invalid = vec!["InvalidIsolation"];
        assert_eq!(of(&[(ISOLATION, "strict")]), (Isolation::Services, invalid.clone()));
        assert_eq!(of(&[(ISOLATED, "yes")]), (Isolation::Pods, invalid.clone()));
        assert_eq!(of(&[(ISOLATED, "True"), (ISOLATION, "none")]), (Isolation::Pods, invalid));
    }
}
