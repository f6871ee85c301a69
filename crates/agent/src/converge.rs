//! The agent's one place for trying again. A [`Converge`] brings one thing on the node to its desired state whenever
//! something it depends on changes; if that fails it is tried again after a growing delay, or at once when another
//! change comes. The node's ports, gateway flows, services and the node's annotation run this way; nothing else retries.

use std::time::Duration;

use tracing::warn;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// Something that is kept as it should be.
pub trait Converge: Send {
    /// For logs.
    const NAME: &'static str;

    /// Waits until something it depends on has changed since the last call. Must be safe to cancel.
    fn woken(&mut self) -> impl Future<Output = ()> + Send;

    /// Compares and corrects; does nothing when all is well, or its own corrections would wake it for ever.
    fn apply(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Keeps `thing` as it should be, for ever.
pub async fn converge<C: Converge>(mut thing: C) {
    let mut delay = FIRST_DELAY;
    loop {
        match thing.apply().await {
            Ok(()) => {
                delay = FIRST_DELAY;
                thing.woken().await;
            }
            Err(error) => {
                warn!(
                    thing = C::NAME,
                    error = format!("{error:#}"),
                    retry_in_ms = delay.as_millis() as u64,
                    "cannot apply"
                );
                tokio::select! {
                    () = thing.woken() => {}
                    () = tokio::time::sleep(delay) => {}
                }
                delay = (delay * 2).min(LONGEST_DELAY);
            }
        }
    }
}
