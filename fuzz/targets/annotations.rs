//! Annotations, settings and pools, which users of the cluster write. Any text gives a value or a sentence; what was understood
//! survives being written and read again.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use netloom_network::annotations::{
    ADDRESSES, EXTERNAL_ADDRESSES, HEALTH_CHECK, MAC, external_addresses, gateway, health_check, request,
};
use netloom_network::external::Range;
use netloom_network::settings::Settings;

fuzz_target!(|text: &str| {
    for name in [ADDRESSES, MAC, "netloom.io/"] {
        let parsed = request(&BTreeMap::from([(name.to_owned(), text.to_owned())]));
        if let Err(problem) = &parsed {
            assert!(!problem.is_empty(), "a problem without a sentence");
        }
        if let Ok(Some(mac)) = parsed.map(|request| request.mac) {
            assert_eq!(
                mac.to_string().parse(),
                Ok(mac),
                "a MAC address does not survive writing and reading"
            );
        }
    }

    for name in [EXTERNAL_ADDRESSES, HEALTH_CHECK] {
        let written = BTreeMap::from([(name.to_owned(), text.to_owned())]);
        let problems = [health_check(&written).err(), external_addresses(&written).err()];
        assert!(
            problems.into_iter().flatten().all(|problem| !problem.is_empty()),
            "a problem without a sentence"
        );
    }
    for range in [text.parse::<Range>(), Range::of_cidr(text)].into_iter().flatten() {
        assert!(
            range.contains(range.first) && range.contains(range.last),
            "a range without its ends"
        );
    }
    if let Ok(settings) = text.parse::<Settings>() {
        assert_eq!(
            settings.to_string().parse(),
            Ok(settings),
            "settings do not survive writing and reading"
        );
    }

    if let Ok(report) = gateway(text) {
        let written = serde_json::to_string(&report).unwrap_or_default();
        assert_eq!(
            gateway(&written),
            Ok(report),
            "a gateway report does not survive writing and reading"
        );
    }
});
