//! Delays between attempts that double up to a limit.

use std::time::Duration;

/// How long to wait before each attempt.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Delays that begin with `first` and double up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The delay before the next attempt.
    pub fn delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.longest);
        delay
    }

    /// Begins again with the first delay, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_begin_again() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        let delays: Vec<Duration> = (0..5).map(|_| backoff.delay()).collect();
        assert_eq!(delays, [1, 2, 4, 5, 5].map(seconds));
        backoff.reset();
        assert_eq!(backoff.delay(), seconds(1));
    }
}
