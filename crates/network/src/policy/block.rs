//! A range of addresses without parts of it, as ranges: OVN would turn every "is not" into a flow per bit, and multiply them.

use ipnet::IpNet;

/// `whole` without `parts`, in ranges that do not overlap.
pub fn without(whole: IpNet, parts: &[IpNet]) -> Vec<IpNet> {
    let mut left = vec![whole];
    for part in parts {
        left = left.into_iter().flat_map(|range| cut(range, *part)).collect();
    }
    left.sort();
    left
}

/// Halves `range` until `part` is one of the halves, and leaves that one out.
fn cut(range: IpNet, part: IpNet) -> Vec<IpNet> {
    if part.contains(&range) {
        return Vec::new();
    }
    let (mut left, mut rest) = (Vec::new(), range);
    while rest.contains(&part) && rest != part {
        let Ok(halves) = rest.subnets(rest.prefix_len() + 1) else { break };
        for half in halves {
            if half.contains(&part) {
                rest = half;
            } else {
                left.push(half);
            }
        }
    }
    if rest != part {
        left.push(rest); // they have nothing in common
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn without_text(whole: &str, parts: &[&str]) -> Vec<IpNet> {
        without(whole.parse().unwrap(), &nets(parts))
    }

    #[test]
    fn what_is_left_is_exact() {
        assert_eq!(without_text("10.0.0.0/24", &[]), nets(&["10.0.0.0/24"]));
        assert_eq!(
            without_text("10.0.0.0/24", &["10.0.0.64/26"]),
            nets(&["10.0.0.0/26", "10.0.0.128/25"])
        );
        assert_eq!(
            without_text("10.0.0.0/30", &["10.0.0.1/32", "10.0.0.2/32"]),
            nets(&["10.0.0.0/32", "10.0.0.3/32"])
        );
        assert_eq!(without_text("10.0.0.0/24", &["10.0.0.0/24"]), nets(&[]));
        assert_eq!(
            without_text("10.0.0.0/24", &["10.0.0.0/25", "10.0.0.0/26"]),
            nets(&["10.0.0.128/25"])
        );
        assert_eq!(without_text("fd00::/126", &["fd00::/127"]), nets(&["fd00::2/127"]));
    }
}
