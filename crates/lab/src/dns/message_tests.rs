//! Messages byte by byte.
#![allow(clippy::unwrap_used)]

use super::*;

fn question(name: &str, kind: u16, extra: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, if extra.is_empty() { 0 } else { 1 }];
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes.extend_from_slice(extra);
    bytes
}

fn edns(size: u16) -> Vec<u8> {
    let size = size.to_be_bytes();
    vec![0, 0, 41, size[0], size[1], 0, 0, 0, 0, 0, 0]
}

fn addresses(count: u8) -> Answer {
    Answer {
        authoritative: true,
        answers: (0..count)
            .map(|n| (Name::new("web.default"), Data::A(Ipv4Addr::new(10, 0, 0, n))))
            .collect(),
        ..Answer::bare(Code::NoError)
    }
}

#[test]
fn a_question_comes_back_as_it_was_asked() {
    let bytes = question("Web.Default", kind::A, &[]);
    let query = Query::decode(&bytes).unwrap();
    assert_eq!((query.name.to_string().as_str(), query.kind), ("web.default.", kind::A));
    let answer = query.encode(&addresses(1), 5);
    assert_eq!(answer[..12], [0xab, 0xcd, 0x85, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(answer[12..bytes.len()], bytes[12..]);
    // The owner's name is a reference to the question's.
    assert_eq!(answer[bytes.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 0, 0, 0]);
}

#[test]
fn targets_of_services_are_written_in_full_and_other_names_are_not() {
    let query = Query::decode(&question("_http._tcp.web.default", kind::SRV, &[])).unwrap();
    let target = Name::new("a.web.default");
    let answer = Answer {
        answers: vec![(
            query.name.clone(),
            Data::Srv {
                weight: 50,
                port: 80,
                target: target.clone(),
            },
        )],
        additional: vec![(target, Data::A(Ipv4Addr::LOCALHOST))],
        ..Answer::bare(Code::NoError)
    };
    let bytes = query.encode(&answer, 5);
    let full = b"\x01a\x03web\x07default\x00";
    let at = bytes.windows(full.len()).position(|window| window == full).unwrap();
    assert_eq!(bytes[at - 8..at], [0, 21, 0, 0, 0, 50, 0, 80]);
    // What follows refers to it.
    assert_eq!(usize::from(u16::from_be_bytes([bytes[at + 15], bytes[at + 16]]) & 0x3fff), at);
}

#[test]
fn too_long_for_a_datagram_says_so() {
    let plain = Query::decode(&question("web.default", kind::A, &[])).unwrap();
    let fits = plain.encode_datagram(&addresses(20), 5);
    assert_eq!((fits[2] & 2, fits[7]), (0, 20));
    let cut = plain.encode_datagram(&addresses(40), 5);
    assert_eq!((cut[2] & 2, cut[7]), (2, 0));
    assert_eq!(plain.encode(&addresses(40), 5)[7], 40);
    // A client that can take more gets more, and is told what this server can take.
    let modern = Query::decode(&question("web.default", kind::A, &edns(4096))).unwrap();
    let whole = modern.encode_datagram(&addresses(40), 5);
    assert_eq!((whole[2] & 2, whole[7], whole[11]), (0, 40, 1));
    assert_eq!(modern.encode_datagram(&addresses(100), 5)[2] & 2, 2);
}

#[test]
fn what_is_no_question_is_refused_or_ignored() {
    let good = question("web.default", kind::A, &edns(1232));
    assert!(Query::decode(&good).is_ok());
    for length in 0..good.len() {
        match Query::decode(&good[..length]) {
            Err(None) => assert!(length < 12),
            Err(Some(refusal)) => assert_eq!((refusal.len(), refusal[3] & 15), (12, 1)),
            Ok(query) => panic!("{length} bytes gave {query:?}"),
        }
    }
    let changed = |place: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[place] = value;
        Query::decode(&bytes)
            .map(|_| ())
            .map_err(|refusal| refusal.map(|refusal| refusal[3] & 15))
    };
    assert_eq!(changed(2, 0x81), Err(None), "a response");
    assert_eq!(changed(2, 0x29), Err(Some(4)), "an update");
    assert_eq!(changed(5, 2), Err(Some(1)), "two questions");
    assert_eq!(changed(12, 0xc0), Err(Some(1)), "a reference in the question");
    assert_eq!(changed(good.len() - 12, 3), Err(Some(5)), "another class");
}

#[test]
fn any_bytes_are_survived() {
    // A generator of its own, so that the bytes are the same every time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let good = question("web.default", kind::A, &edns(1232));
    for round in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=round % 8 {
            let place = usize::from(next()) % bytes.len();
            bytes[place] = next();
        }
        if let Ok(query) = Query::decode(&bytes) {
            let answer = query.encode_datagram(&addresses(next() % 60), 5);
            assert!(answer.len() <= LARGEST_DATAGRAM);
        }
    }
}
