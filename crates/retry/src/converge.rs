//! The loop that keeps something as it should be. A [`Converge`] brings one thing to its desired state whenever something it depends on
//! changes; if that fails it is tried again after a growing delay, or at once when another change comes.

use std::time::Duration;

use tracing::warn;

use crate::Backoff;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// Something that is kept as it should be.
pub trait Converge: Send {
    /// For logs.
    const NAME: &'static str;

    /// What it depends on; [`Every`] if every change may concern it.
    type Inputs: PartialEq + Send;

    /// What it depends on as it is now. A change that leaves this equal is not looked at.
    fn inputs(&self) -> Self::Inputs;

    /// Waits until something may have changed since the last call. Must be safe to cancel.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Compares and corrects; does nothing when all is well, or its own corrections would wake it for ever.
    fn apply(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Inputs that equal none, not even themselves.
#[derive(Clone, Copy, Debug)]
pub struct Every;

impl PartialEq for Every {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// Keeps `thing` as it should be, for ever.
pub async fn converge<C: Converge>(mut thing: C) {
    let mut backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY);
    loop {
        // Taken before it is applied: what changes meanwhile is applied next.
        let applied = thing.inputs();
        match thing.apply().await {
            Ok(()) => {
                backoff.reset();
                others(&mut thing, &applied).await;
            }
            Err(error) => {
                let delay = backoff.delay();
                warn!(
                    thing = C::NAME,
                    error = format!("{error:#}"),
                    retry_in_ms = delay.as_millis() as u64,
                    "cannot apply"
                );
                tokio::select! {
                    () = others(&mut thing, &applied) => {}
                    () = tokio::time::sleep(delay) => {}
                }
            }
        }
    }
}

/// Waits until its inputs are others than these.
async fn others<C: Converge>(thing: &mut C, applied: &C::Inputs) {
    loop {
        thing.changed().await;
        if thing.inputs() != *applied {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Changes;
    use tokio::sync::{mpsc, watch};

    /// Reports when it is applied; fails while its number is odd.
    struct Even {
        number: watch::Receiver<(u32, &'static str)>,
        changes: Changes,
        applied: mpsc::UnboundedSender<u32>,
    }

    impl Converge for Even {
        const NAME: &'static str = "even number";
        type Inputs = u32;

        fn inputs(&self) -> u32 {
            self.number.borrow().0
        }

        async fn changed(&mut self) {
            self.changes.next().await;
        }

        async fn apply(&mut self) -> anyhow::Result<()> {
            let number = self.inputs();
            self.applied.send(number)?;
            anyhow::ensure!(number.is_multiple_of(2), "{number} is odd");
            Ok(())
        }
    }

    #[tokio::test]
    async fn applies_at_first_after_a_change_of_its_inputs_and_again_after_a_failure() {
        let (numbers, number) = watch::channel((0, ""));
        let (applied, mut seen) = mpsc::unbounded_channel();
        let changes = Changes::default().of(number.clone());
        tokio::spawn(converge(Even { number, changes, applied }));
        assert_eq!(seen.recv().await, Some(0));
        // Nothing it depends on; by the next change it has looked.
        numbers.send_replace((0, "still even"));
        tokio::task::yield_now().await;
        numbers.send_replace((1, "odd"));
        for _ in 0..3 {
            assert_eq!(seen.recv().await, Some(1));
        }
        numbers.send_replace((2, "even"));
        while let Some(number) = seen.recv().await {
            assert!([1, 2].contains(&number));
            if number == 2 {
                return;
            }
        }
        panic!("the loop has ended");
    }

    #[tokio::test]
    async fn what_cannot_tell_looks_at_every_change() {
        struct Always(Changes, mpsc::UnboundedSender<()>);

        impl Converge for Always {
            const NAME: &'static str = "always";
            type Inputs = Every;

            fn inputs(&self) -> Every {
                Every
            }

            async fn changed(&mut self) {
                self.0.next().await;
            }

            async fn apply(&mut self) -> anyhow::Result<()> {
                Ok(self.1.send(())?)
            }
        }

        let (ticks, tick) = watch::channel(());
        let (applied, mut seen) = mpsc::unbounded_channel();
        tokio::spawn(converge(Always(Changes::default().of(tick), applied)));
        for _ in 0..3 {
            seen.recv().await;
            ticks.send_replace(());
        }
        seen.recv().await;
    }
}
