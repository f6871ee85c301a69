//! Numbers that look random and follow from a seed alone, on every machine and with every version of every library.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 to one less than this.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From the first to the last.
    pub fn between(&mut self, (first, last): (u64, u64)) -> u64 {
        first + self.below(last - first + 1)
    }

    /// True so many times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let place = self.below(from.len() as u64);
        &from[usize::try_from(place).unwrap()]
    }

    /// Between so many and so many of what `make` makes.
    pub fn several<T>(&mut self, range: (u64, u64), mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.between(range);
        (0..count).map(|_| make(self)).collect()
    }
}
