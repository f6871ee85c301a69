//! The CNI plugin a container runtime executes: it carries one request from the environment and stdin to the agent's
//! unix socket and the answer back to stdout. It decides nothing about networks, so that it starts in a millisecond
//! and never has to be replaced in step with the agent. Invariant: whatever happens, stdout holds exactly one valid
//! CNI document (or nothing, where the specification wants nothing) and the exit code agrees with it.

mod failure;
mod request;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use netloom_contract::cni::{Code, Version};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::request::Request;

/// The agent answers every request within its own deadlines; this only bounds the wait for one that hangs.
const REPLY_TIMEOUT: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let mut stdin = Vec::new();
    let read = std::io::stdin().read_to_end(&mut stdin);
    let command = std::env::var("CNI_COMMAND").unwrap_or_default();

    if command == "VERSION" {
        return print(&version(&stdin), ExitCode::SUCCESS);
    }
    let outcome = read
        .map_err(|error| Failure::new(Code::Io, format!("cannot read the network configuration from stdin: {error}")))
        .and_then(|_| Request::gather(&command, &stdin, |name| std::env::var(name).ok()))
        .and_then(|request| ask(&request));
    match outcome {
        Ok(Some(result)) => print(&result, ExitCode::SUCCESS),
        Ok(None) => ExitCode::SUCCESS,
        Err(failure) => print(&failure.to_json(request::version_of(&stdin).as_str()), ExitCode::FAILURE),
    }
}

/// The answer to VERSION, which must work without an agent: the runtime asks it before anything else.
fn version(stdin: &[u8]) -> Value {
    json!({ "cniVersion": request::version_of(stdin).as_str(), "supportedVersions": Version::ALL.map(Version::as_str) })
}

/// Sends the request and reads the reply: a result to print, nothing to print, or the agent's error.
fn ask(request: &Request) -> Result<Option<Value>, Failure> {
    let reply = exchange(request).map_err(|error| unreachable(request, &error))?;
    if reply.is_empty() {
        return Err(unreachable(request, &"the agent closed the connection without an answer"));
    }
    let reply: Value =
        serde_json::from_slice(&reply).map_err(|error| Failure::new(Code::Decode, format!("the agent's reply is not JSON: {error}")))?;
    match &reply {
        Value::Object(fields) if fields.contains_key("code") => Err(Failure::from_reply(&reply)),
        Value::Object(fields) if fields.is_empty() => Ok(None),
        _ => Ok(Some(reply)),
    }
}

fn exchange(request: &Request) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(&request.socket)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.write_all(request.body.to_string().as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    Ok(reply)
}

/// An agent that is away is never an answer, not even to DEL: the runtime must come back, or the port would leak.
fn unreachable(request: &Request, cause: &dyn std::fmt::Display) -> Failure {
    let code = if request.command == "STATUS" {
        Code::NotAvailable
    } else {
        Code::TryAgain
    };
    Failure::new(code, format!("cannot reach the netloom agent at {}: {cause}", request.socket)).details(
        "is the agent of this node running? look at its pod (kubectl -n netloom get pods -o wide) or at its log; \
         the path comes from `socket` in the network configuration",
    )
}

fn print(document: &Value, code: ExitCode) -> ExitCode {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{document}").and_then(|()| stdout.flush()) {
        Ok(()) => code,
        Err(_) => ExitCode::FAILURE,
    }
}
