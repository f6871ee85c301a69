//! Apps: pods that a label puts into one virtual network of their own, closed to others until a policy opens it. The label may be on pods,
//! or on a service whose pods are meant.

use std::collections::BTreeMap;
use std::fmt;

/// The app a pod, or the pods of a service, belong to.
pub const APP: &str = "netloom.io/app";
/// The name users of OpenContrail know; it means the same.
pub const NAME: &str = "opencontrail.org/name";

/// The network of an app.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct App {
    /// Namespace.
    pub namespace: String,
    /// The label's value; none for pods whose labels disagree, which let nobody in.
    pub name: Option<String>,
}

impl fmt::Display for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name.as_deref().unwrap_or("(conflict)"))
    }
}

/// The app that an object of a namespace is labelled with.
pub fn read(namespace: &str, labels: &BTreeMap<String, String>) -> Option<App> {
    let name = match (labels.get(APP), labels.get(NAME)) {
        (None, None) => return None,
        (Some(one), Some(other)) if one != other => None,
        (Some(name), _) | (_, Some(name)) => Some(name.clone()),
    };
    let namespace = namespace.to_owned();
    Some(App { namespace, name })
}

/// Keeps the labels that name an app.
pub fn relevant(mut labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    labels.retain(|name, _| name == APP || name == NAME);
    labels
}

/// What to change about labels that disagree, and what happens until then.
pub fn conflict(labels: &BTreeMap<String, String>, meanwhile: &str) -> String {
    let value = |name| labels.get(name).map_or("", String::as_str);
    format!(
        "labels {APP} ({}) and {NAME} ({}) disagree, so {meanwhile}; remove one of them",
        value(APP),
        value(NAME)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_label_names_the_app_and_both_must_agree() {
        let of = |pairs: &[(&str, &str)]| {
            let labels = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            read("shop", &labels).map(|app| app.to_string())
        };
        assert_eq!(of(&[("app", "web")]), None);
        assert_eq!(of(&[(APP, "web")]).as_deref(), Some("shop/web"));
        assert_eq!(of(&[(NAME, "web")]).as_deref(), Some("shop/web"));
        assert_eq!(of(&[(NAME, "web"), (APP, "web")]).as_deref(), Some("shop/web"));
        assert_eq!(of(&[(NAME, "web"), (APP, "db")]).as_deref(), Some("shop/(conflict)"));
    }
}
