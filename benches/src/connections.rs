//! What a connection through a service costs next to one straight to its backend, and how long an address is silent when its node dies.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use netloom_lab::echo::client::Attempt;
use netloom_lab::{Lab, Shell, Signal, Spec};

use crate::report::{Report, percentile, time};

const CONNECTIONS: usize = 2_000;
const ROUNDS: usize = 3;

const MANIFEST: &str = r#"
apiVersion: netloom.io/v1alpha1
kind: ExternalPool
metadata: { name: pool }
spec: { cidrs: [172.30.0.192/28] }
---
apiVersion: v1
kind: Service
metadata: { name: web }
spec: { selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: edge }
spec: { type: LoadBalancer, selector: { app: edge }, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: v1
kind: Pod
metadata: { name: near, labels: { app: web } }
spec: { nodeName: node1, terminationGracePeriodSeconds: 0, containers: [{ name: echo, image: any, ports: [{ containerPort: 8080 }] }] }
---
apiVersion: v1
kind: Pod
metadata: { name: client }
spec: { nodeName: node1, terminationGracePeriodSeconds: 0, containers: [{ name: echo, image: any }] }
"#;

/// Measures and prints.
pub fn run() -> Result<()> {
    let lab = Lab::up(Spec::new(format!("bench-connections-{}", std::process::id())).nodes(3))?;
    lab.apply(MANIFEST)?;
    lab.kubectl(&["wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s"])?;
    lab.kubectl(&[
        "wait",
        "service/edge",
        "--for=jsonpath={.status.loadBalancer.ingress[0].ip}",
        "--timeout=60s",
    ])?;
    let get = |object: &str, path: &str| -> Result<IpAddr> {
        lab.kubectl(&["get", object, "-o", &format!("jsonpath={path}")])?
            .parse()
            .with_context(|| format!("read an address of {object}"))
    };
    let direct = get("pod/near", "{.status.podIP}")?;
    let vip = get("service/web", "{.spec.clusterIP}")?;
    let external = get("service/edge", "{.status.loadBalancer.ingress[0].ip}")?;
    connections(&lab, direct, vip)?;
    failover(&lab, external)
}

fn connections(lab: &Lab, direct: IpAddr, vip: IpAddr) -> Result<()> {
    let client = lab.pod("default", "client");
    answered(&client, &format!("{vip}:80"))?;
    let mut report = Report::new(
        "Connections one after the other, same node: straight to the pod and through its service",
        &["round", "direct", "through the service", "ratio"],
    );
    for round in 1..=ROUNDS {
        let straight = rate(&client, &format!("{direct}:8080"))?;
        let through = rate(&client, &format!("{vip}:80"))?;
        report.row(&[
            round.to_string(),
            format!("{straight:.0}/s"),
            format!("{through:.0}/s"),
            format!("{:.2}×", through / straight),
        ]);
    }
    report.print();
    Ok(())
}

/// The node that answers for an address is killed under the client, and comes back. Backends are on the other nodes, so that only the way to
/// them is lost.
fn failover(lab: &Lab, address: IpAddr) -> Result<()> {
    let mut report = Report::new(
        "A LoadBalancer address when its node is killed",
        &["round", "silent for", "attempts", "failed"],
    );
    let outside = lab.outside();
    let target = format!("{address}:80");
    for round in 1..=ROUNDS {
        let host = lab.announcing_node("default", "edge")?;
        let others = ["node1", "node2", "node3"].into_iter().filter(|node| *node != host);
        lab.apply(&others.map(backend).collect::<String>())?;
        lab.kubectl(&["wait", "pod", "-l", "app=edge", "--for=condition=Ready", "--timeout=60s"])?;
        answered(&outside, &target)?;
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| attempts(&outside, &format!("{target} --count 500 --interval-ms 10 --timeout-ms 50")));
            // Two seconds of answers first.
            attempts(&outside, &format!("{target} --count 200 --interval-ms 10"))?;
            lab.kill_machine(&host, Signal::SIGKILL)?;
            let attempts = asking.join().map_err(|_| anyhow::anyhow!("the client panicked"))??;
            let good: Vec<f64> = attempts.iter().filter(|a| a.outcome == "ok").map(|a| a.at + a.took).collect();
            let gap = good.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            report.row(&[
                round.to_string(),
                format!("{gap:.0} ms"),
                attempts.len().to_string(),
                (attempts.len() - good.len()).to_string(),
            ]);
            anyhow::Ok(())
        })?;
        lab.restart_node(&host)?;
        lab.kubectl(&["delete", "pod", "-l", "app=edge", "--wait=true"])?;
    }
    report.print();
    Ok(())
}

fn backend(node: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: edge-{node}, labels: {{ app: edge }} }}\nspec: {{ nodeName: {node}, terminationGracePeriodSeconds: 0, containers: [{{ name: echo, image: any, ports: [{{ containerPort: 8080 }}] }}] }}\n---\n"
    )
}

/// Waits for a first answer.
fn answered(shell: &Shell<'_>, target: &str) -> Result<()> {
    let script = format!(
        "while read -r line; do [[ $line == *'\"outcome\":\"ok\"'* ]] && exit 0; done < <(exec timeout 60 netloom lab ask {target} --count 0 --interval-ms 20 --timeout-ms 200 --json); exit 1"
    );
    shell
        .run(&["bash", "-c", &script])
        .map(drop)
        .with_context(|| format!("{target} never answered"))
}

fn rate(shell: &Shell<'_>, target: &str) -> Result<f64> {
    let attempts = attempts(shell, &format!("{target} --count {CONNECTIONS}"))?;
    let mut took: Vec<Duration> = attempts.iter().map(|attempt| Duration::from_secs_f64(attempt.took / 1e3)).collect();
    took.sort();
    let last = attempts.last().context("no attempt was made")?;
    let rate = attempts.len() as f64 / ((last.at + last.took) / 1e3);
    eprintln!("{target}: median {} per connection", time(percentile(&took, 0.5)));
    Ok(rate)
}

fn attempts(shell: &Shell<'_>, arguments: &str) -> Result<Vec<Attempt>> {
    let said = shell.run(&["bash", "-c", &format!("netloom lab ask {arguments} --json || true")])?;
    let attempts: Vec<Attempt> = said
        .lines()
        .map(|line| serde_json::from_str(line).context("read an attempt"))
        .collect::<Result<_>>()?;
    // The client fails when one attempt does, which is what is measured; that it did not run at all is an error.
    anyhow::ensure!(!attempts.is_empty(), "the client made no attempt: netloom lab ask {arguments}");
    Ok(attempts)
}
