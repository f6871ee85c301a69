//! Readiness and liveness probes: HTTP, TCP and exec, at the period the pod asks for.
//!
//! One task per probe of a running container; it reports each change of its verdict. Probes come from the node, as a real kubelet's do.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::root::NETLOOM;

/// Where a probe looks.
#[derive(Debug, Clone)]
pub struct Target {
    /// Address of the pod.
    pub address: IpAddr,
    /// Network namespace of the pod.
    pub network: Option<PathBuf>,
    /// Directory of the files its containers see in `/etc`.
    pub files: PathBuf,
    /// The container the probe belongs to.
    pub container: Container,
}

/// Probes for ever and reports each verdict that differs from the last; the container counts as failing before the first.
pub async fn watch(probe: Probe, target: Target, mut report: impl FnMut(bool)) {
    let seconds =
        |value: Option<i32>, default: u64| Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default));
    let limit = seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1));
    let mut period = tokio::time::interval(seconds(probe.period_seconds, 10).max(Duration::from_secs(1)));
    period.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tokio::time::sleep(seconds(probe.initial_delay_seconds, 0)).await;
    let (mut passed, mut failed, mut verdict) = (0, 0, None);
    loop {
        period.tick().await;
        let success = tokio::time::timeout(limit, check(&probe, &target)).await.unwrap_or(false);
        (passed, failed) = if success { (passed + 1, 0) } else { (0, failed + 1) };
        let now = if success {
            passed >= probe.success_threshold.unwrap_or(1)
        } else {
            verdict == Some(true) && failed < probe.failure_threshold.unwrap_or(3)
        };
        // A container that never passed must also be found dead, after its chances.
        let decided = success || failed >= probe.failure_threshold.unwrap_or(3) || verdict.is_some();
        if decided && verdict != Some(now) {
            verdict = Some(now);
            report(now);
        }
    }
}

/// Whether an HTTP request is answered with success.
pub async fn requested(http: &HTTPGetAction, address: IpAddr, container: &Container) -> bool {
    let Some(port) = port(&http.port, container) else { return false };
    let address = http.host.as_deref().and_then(|host| host.parse().ok()).unwrap_or(address);
    get(SocketAddr::new(address, port), http.path.as_deref().unwrap_or("/"))
        .await
        .is_ok_and(|status| (200..400).contains(&status))
}

async fn check(probe: &Probe, target: &Target) -> bool {
    if let Some(http) = &probe.http_get {
        return requested(http, target.address, &target.container).await;
    }
    if let Some(tcp) = &probe.tcp_socket {
        let Some(port) = port(&tcp.port, &target.container) else {
            return false;
        };
        return TcpStream::connect(SocketAddr::new(target.address, port)).await.is_ok();
    }
    if let Some(exec) = &probe.exec {
        let mut command = tokio::process::Command::new(NETLOOM);
        command.args(["lab", "enter"]);
        if let Some(network) = &target.network {
            command.arg("--network").arg(network);
        }
        command
            .arg("--files")
            .arg(&target.files)
            .arg("--")
            .args(exec.command.iter().flatten())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        return command.status().await.is_ok_and(|status| status.success());
    }
    true // gRPC probes are not known here and do not hold a pod back
}

async fn get(address: SocketAddr, path: &str) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: kube-probe\r\nConnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    let code = head
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| std::str::from_utf8(rest.get(2..5)?).ok()?.parse().ok());
    code.ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

fn port(port: &IntOrString, container: &Container) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name))?;
            u16::try_from(named.container_port).ok()
        }
    }
}
