//! Runs the agent alone, without the `netloom` command around it: `agent NODE SOUTHBOUND-REMOTE DEADLINE-SECONDS [KUBECONFIG]`.
//! The world tests start it this way so that they can kill it.

use std::time::Duration;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let mut arguments = std::env::args().skip(1);
    let (Some(node), Some(southbound), Some(seconds)) = (arguments.next(), arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: agent NODE SOUTHBOUND-REMOTE DEADLINE-SECONDS [KUBECONFIG]");
    };
    let mut options = netloom_agent::Options::new(node, southbound);
    options.deadline = Duration::from_secs(seconds.parse()?);
    options.kubeconfig = arguments.next().map(Into::into);
    options.health = Some(([127, 0, 0, 1], 9642).into());
    netloom_agent::run(options).await
}
