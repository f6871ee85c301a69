//! Who may talk to whom, which users of the cluster write: policies, cluster-wide ones, isolation, apps and security groups. Any manifest gives
//! rows and problems, for the compiler and for the evaluator, and what the log of verdicts is told is understood or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_agent::policy_log::line::Line;
use netloom_kubernetes::manifest;
use netloom_network::{Planner, check};
use serde_json::{Deserializer, Value};

fuzz_target!(|text: &str| {
    if let Some(line) = Line::parse(text) {
        assert!(!line.protocol.is_empty(), "a packet without a protocol");
    }
    let (mut planner, mut cluster) = (Planner::default(), netloom_policy::Cluster::default());
    for value in Deserializer::from_str(text).into_iter::<Value>().map_while(Result::ok) {
        for object in manifest::read(&value).into_iter().flatten() {
            planner.apply(object);
        }
        if let Err(problem) = cluster.add_manifest(&value) {
            assert!(!problem.is_empty(), "a problem without a sentence");
        }
    }
    planner.compile();
    assert_eq!(check::check(planner.desired()), [], "rows that contradict each other");
    assert!(
        planner.problems().iter().all(|problem| !problem.message.is_empty())
            && cluster.problems().iter().all(|problem| !problem.message.is_empty()),
        "a problem without a sentence"
    );
});
