//! Publishes the gateway's facts as annotation `netloom.io/gateway` of this Node. The Node is watched, so that an
//! annotation that was lost (the Node was registered anew) is written again, and nothing is written that is there.

use std::sync::Arc;

use netloom_contract::annotation::GATEWAY;
use netloom_retry::{Changes, Converge, Every};
use tokio::sync::watch;
use tracing::info;

use super::EXTERNAL_BRIDGE;
use super::facts;
use crate::node::Node;
use crate::own_node::{Observed, OwnNodeApi};

/// Keeps the annotation as it should be.
pub struct Annotation {
    node: Arc<Node>,
    own: OwnNodeApi,
    kernel: Changes,
}

impl Annotation {
    /// `kernel` tells of changed addresses.
    pub fn new(node: Arc<Node>, own: OwnNodeApi, kernel: watch::Receiver<u64>) -> Self {
        let kernel = Changes::default().of(kernel);
        Self { node, own, kernel }
    }
}

impl Converge for Annotation {
    const NAME: &'static str = "gateway annotation";
    type Inputs = Every;

    fn inputs(&self) -> Every {
        Every
    }

    async fn changed(&mut self) {
        tokio::select! {
            () = self.own.changed() => {}
            () = self.kernel.next() => {}
        }
    }

    async fn apply(&mut self) -> anyhow::Result<()> {
        let Observed::Present(own) = self.own.read() else {
            return Ok(());
        };
        let Some(facts) = facts::read(&self.node.netlink, EXTERNAL_BRIDGE).await? else {
            return Ok(());
        };
        let wanted = serde_json::to_string(&facts)?;
        if own.gateway.as_ref() == Some(&wanted) {
            return Ok(());
        }
        self.own.annotate(&[(GATEWAY, Some(&wanted))]).await?;
        info!(gateway = wanted, "gateway published");
        Ok(())
    }
}
