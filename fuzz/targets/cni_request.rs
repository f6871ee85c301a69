//! What reaches the agent's socket. Any local process may connect to it: no request panics the agent, and every refusal carries a message
//! that a container runtime can show.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_agent::cni::request::parse_request;

fuzz_target!(|data: &[u8]| {
    if let Err(error) = parse_request(data) {
        assert!(!error.to_string().is_empty(), "a refusal without a message");
    }
});
