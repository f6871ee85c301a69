//! Properties of the planner under random changes: incremental equals full, a transaction takes observed to desired, a restart writes
//! nothing, a planner that stood by takes over, the order of events leaves no trace, and no row breaks a rule of the linter.
//!
//! Variables: `NETLOOM_CASES`, how many sequences of changes are tried (256 unless given; CI tries 20,000 in a release build), spread over the
//! tests of this executable; `NETLOOM_SEED`, where they begin (a new one each time unless given). A failure prints the seed that repeats it.
//! `NETLOOM_EXCEPT` names rules of the linter that are not looked at, to see past one that is being worked on.
//! Nothing is written on failure: a sequence worth keeping becomes a test in `counterexamples.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod batches;
mod counterexamples;
mod database;
mod facts;
mod generate;
mod membership;
mod run;
mod world;

use std::cell::OnceCell;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use generate::Theme;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

#[test]
fn everything_at_once() {
    holds(Theme::Everything);
}

#[test]
fn addresses_and_nodes() {
    holds(Theme::Addresses);
}

#[test]
fn networks() {
    holds(Theme::Networks);
}

#[test]
fn services() {
    holds(Theme::Services);
}

#[test]
fn policies() {
    holds(Theme::Policies);
}

/// Tries its share of the cases, each from a seed of its own.
fn holds(theme: Theme) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 % 1_000_000_000_000;
    let (cases, first) = (number("NETLOOM_CASES").unwrap_or(256), number("NETLOOM_SEED").unwrap_or_else(clock));
    let cases = cases.div_ceil(Theme::ALL.len() as u64);
    // Past the capture of the test harness, so that a run that passes can be repeated too.
    let line = format!("{theme:?}: {cases} cases from NETLOOM_SEED={first}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let strategy = generate::steps(theme);
    for seed in first..first + cases {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut runner = TestRunner::new_with_rng(config.clone(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
        let tree = strategy.new_tree(&mut runner).unwrap();
        let way = OnceCell::new();
        let outcome = runner.run_one(tree, |steps| match run::run(&steps) {
            // What is made smaller must go on failing in the same way.
            Err(why) if *way.get_or_init(|| kind(&why)) == kind(&why) => Err(TestCaseError::fail(why)),
            _ => Ok(()),
        });
        if let Err(TestError::Fail(why, steps)) = outcome {
            let steps: String = steps.iter().map(|step| format!("  {step:?}\n")).collect();
            panic!("{why}\nafter\n{steps}repeat with NETLOOM_SEED={seed} NETLOOM_CASES=1 and the name of this test");
        }
        outcome.unwrap();
    }
}

/// In which way a sequence fails: what is said before the colon.
fn kind(why: &str) -> String {
    why.split(':').next().unwrap_or_default().to_owned()
}
