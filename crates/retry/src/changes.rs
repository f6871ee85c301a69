//! Several channels whose changes wake the same thing.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::sync::watch;

/// Notifies of a change of any of several channels.
#[derive(Default)]
pub struct Changes(Vec<Box<dyn Source>>);

impl Changes {
    /// Also of this channel, from now on.
    pub fn of<T: Send + Sync + 'static>(mut self, channel: watch::Receiver<T>) -> Self {
        self.0.push(Box::new(channel));
        self
    }

    /// Waits for a change that was not waited for yet. Safe to cancel.
    pub async fn next(&mut self) {
        let mut waits: Vec<_> = self.0.iter_mut().map(|source| source.changed()).collect();
        poll_fn(|context| {
            if waits.iter_mut().any(|wait| wait.as_mut().poll(context).is_ready()) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// A channel, whatever it carries.
trait Source: Send + Sync {
    fn changed(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl<T: Send + Sync> Source for watch::Receiver<T> {
    fn changed(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            // Senders live as long as the process; a closed channel only means that it is ending.
            if watch::Receiver::changed(self).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether there is a change now.
    async fn changed(changes: &mut Changes) -> bool {
        tokio::select! {
            biased;
            () = changes.next() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn every_channel_wakes_once_and_a_closed_one_never() {
        let (numbers, number) = watch::channel(0);
        let (words, word) = watch::channel("");
        let mut changes = Changes::default().of(number).of(word);
        numbers.send_replace(1);
        words.send_replace("one");
        assert!(changed(&mut changes).await);
        assert!(changed(&mut changes).await);
        assert!(!changed(&mut changes).await, "nothing has changed since");
        drop(numbers);
        assert!(!changed(&mut changes).await, "a closed channel is no change");
        words.send_replace("two");
        assert!(changed(&mut changes).await);
    }
}
