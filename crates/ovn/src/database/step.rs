//! What to do about the file before it is served: a pure function of what is there.

use anyhow::{Context as _, Result};

/// What the file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    Missing,
    Standalone,
    /// Of a member of a cluster, at this address.
    Clustered(String),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Serve it as it is. The leader converts a cluster's schema when all are up.
    Serve,
    /// Bring it to the schema of this image, and serve it.
    Convert,
    /// Make an empty file.
    Make,
    /// Make a cluster of what is in it.
    MakeClusterFrom,
    /// Make an empty cluster, or join the one there is.
    MakeOrJoin,
    /// Join the others.
    Join,
}

/// The number at the end of a member's name.
pub fn place(member: &str) -> Result<u32> {
    let number = member.rsplit('-').next().and_then(|number| number.parse().ok());
    number.with_context(|| format!("read the member's place from `{member}`: its name has to end in -0, -1, ..."))
}

/// Chooses; an error says what somebody has to do.
pub fn choose(file: &File, own: &str, replicas: u32, place: u32) -> Result<Step, String> {
    match (replicas, file) {
        (0 | 1, File::Missing) => Ok(Step::Make),
        (0 | 1, File::Standalone) => Ok(Step::Convert),
        (0 | 1, File::Clustered(_)) => Err(
            "it belongs to a cluster of several members, and one alone has no majority; go back to that number, \
             or turn it into a plain file with `ovsdb-tool cluster-to-standalone` and put that in its place"
                .to_owned(),
        ),
        (_, File::Missing) if place == 0 => Ok(Step::MakeOrJoin),
        (_, File::Missing) => Ok(Step::Join),
        (_, File::Standalone) if place == 0 => Ok(Step::MakeClusterFrom),
        (_, File::Standalone) => Err(
            "it is a plain file, which only the first member may turn into a cluster; move it away, and this member joins the others"
                .to_owned(),
        ),
        (_, File::Clustered(address)) if address == own => Ok(Step::Serve),
        // The others know this member by its address. Joining anew could drop the only copy of what the last majority wrote.
        (_, File::Clustered(address)) => Err(format!(
            "it belongs to the member at {address}, and this node is {own}; if the node's address has changed for good and the other \
             members serve, move the file away and this member joins them anew"
        )),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const OWN: &str = "ssl:10.0.0.1:6643";

    #[test]
    fn a_place_is_the_number_at_the_end() {
        assert_eq!(place("netloom-ovn-12").unwrap(), 12);
        assert!(place("netloom-ovn").is_err());
    }

    #[test]
    fn one_member_has_a_plain_file() {
        assert_eq!(choose(&File::Missing, OWN, 1, 0), Ok(Step::Make));
        assert_eq!(choose(&File::Standalone, OWN, 1, 0), Ok(Step::Convert));
        assert!(
            choose(&File::Clustered(OWN.into()), OWN, 1, 0)
                .unwrap_err()
                .contains("cluster-to-standalone")
        );
    }

    #[test]
    fn only_the_first_of_several_may_make_a_cluster() {
        assert_eq!(choose(&File::Missing, OWN, 3, 0), Ok(Step::MakeOrJoin));
        assert_eq!(choose(&File::Missing, OWN, 3, 1), Ok(Step::Join));
        assert_eq!(choose(&File::Standalone, OWN, 3, 0), Ok(Step::MakeClusterFrom));
        assert!(choose(&File::Standalone, OWN, 3, 2).is_err());
    }

    #[test]
    fn a_member_is_its_address() {
        assert_eq!(choose(&File::Clustered(OWN.into()), OWN, 3, 2), Ok(Step::Serve));
        let moved = choose(&File::Clustered("ssl:10.0.0.9:6643".into()), OWN, 3, 0).unwrap_err();
        assert!(moved.contains("10.0.0.9"), "{moved}");
    }
}
