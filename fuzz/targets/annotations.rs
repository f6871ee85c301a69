//! Annotations and settings, which every user of the cluster may write. Any text gives a value or a sentence; what was understood
//! survives being written and read again.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use netloom_network::annotations::{ADDRESSES, MAC, PREFIX, gateway, request};

fuzz_target!(|text: &str| {
    for name in [ADDRESSES, MAC, PREFIX] {
        let parsed = request(&BTreeMap::from([(name.to_owned(), text.to_owned())]));
        if let Err(problem) = &parsed {
            assert!(!problem.is_empty(), "a problem without a sentence");
        }
        if let Ok(Some(mac)) = parsed.map(|request| request.mac) {
            assert_eq!(mac.to_string().parse(), Ok(mac), "a MAC address does not survive writing and reading");
        }
    }

    if let Ok(report) = gateway(text) {
        let written = serde_json::to_string(&report).unwrap_or_default();
        assert_eq!(gateway(&written), Ok(report), "a gateway report does not survive writing and reading");
    }
});
