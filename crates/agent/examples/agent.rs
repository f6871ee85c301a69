//! Runs the agent alone, without the `netloom` command around it: `agent NODE SOUTHBOUND-REMOTE DEADLINE-SECONDS [KUBECONFIG]`.
//! The world tests start it this way so that they can kill it. With `NODE_IP` in the environment it owns the whole node.

use std::time::Duration;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let mut arguments = std::env::args().skip(1);
    let (Some(node), Some(southbound), Some(seconds)) = (arguments.next(), arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: agent NODE SOUTHBOUND-REMOTE DEADLINE-SECONDS [KUBECONFIG]");
    };
    let mut options = netloom_agent::Options::new(node, netloom_agent::databases::Southbound::Fixed(southbound.parse()?));
    options.deadline = Duration::from_secs(seconds.parse()?);
    options.kubeconfig = arguments.next().map(Into::into);
    options.health = Some(([127, 0, 0, 1], 9642).into());
    if let Ok(address) = std::env::var("NODE_IP") {
        options.node_ip = Some(address.parse()?);
        options.set_up_switch = true;
        options.uplink = netloom_agent::uplink::Choice::Auto;
        options.datapath = netloom_agent::set_up::Datapath::Userspace;
        options.state_directory = Some("/var/lib/netloom".into());
        options.cni_files = Some(netloom_agent::install::Files {
            plugin: "/opt/cni/bin/netloom-cni".into(),
            binaries: "/opt/installed/bin".into(),
            configurations: "/opt/installed/net.d".into(),
            version: "1.0.0".to_owned(),
            socket: options.socket.clone(),
        });
    }
    netloom_agent::run(options).await
}
