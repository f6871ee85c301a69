//! A range of addresses without parts of it, as ranges: OVN would turn every "is not" into a flow per bit, and multiply them.

use ipnet::IpNet;

/// `whole` without `parts`, in ranges that do not overlap, in order.
pub fn without(whole: IpNet, parts: &[IpNet]) -> Vec<IpNet> {
    let mut left = Vec::new();
    carve(whole, parts.to_vec(), &mut left);
    left
}

/// Halves a range until nothing of a half is left out, or all of it.
fn carve(range: IpNet, parts: Vec<IpNet>, left: &mut Vec<IpNet>) {
    let parts: Vec<IpNet> = parts
        .into_iter()
        .filter(|part| range.contains(part) || part.contains(&range))
        .collect();
    if parts.is_empty() {
        left.push(range);
    } else if !parts.iter().any(|part| part.contains(&range)) {
        let halves = range.subnets(range.prefix_len() + 1).into_iter().flatten();
        halves.for_each(|half| carve(half, parts.clone(), left));
    }
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
        assert_eq!(without_text("10.0.0.0/24", &["10.0.1.0/24", "fd00::/64"]), nets(&["10.0.0.0/24"]));
    }
}
