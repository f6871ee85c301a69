//! How numbers grow. Flows are counted, not timed, so three sizes at equal distances say it exactly: what is flat has no first difference,
//! what is linear has no second one.

/// How a number may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Growth {
    /// It stays as it is.
    Flat,
    /// It grows with the size.
    Linear,
    /// It grows faster.
    Multiplied,
}

/// Steps may differ by this part of the first one: prefixes and ports are cut where bits change.
const TOLERANCE: f64 = 0.03;
/// And by so many flows, whatever the steps are.
const NOISE: f64 = 3.0;

impl Growth {
    /// Of a number at three sizes, each larger than the one before by the same.
    pub fn of([first, second, third]: [usize; 3]) -> Self {
        let (near, far) = (second as f64 - first as f64, third as f64 - second as f64);
        if near <= NOISE && far <= NOISE {
            Growth::Flat
        } else if far - near <= near.max(0.0) * TOLERANCE + NOISE {
            Growth::Linear
        } else {
            Growth::Multiplied
        }
    }
}

/// The power of the size with which a number grows between two sizes.
pub fn exponent((size, number): (usize, usize), (larger, more): (usize, usize)) -> f64 {
    let ratio = |a: usize, b: usize| (a.max(1) as f64 / b.max(1) as f64).ln();
    ratio(more, number) / ratio(larger, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_sizes_say_how_a_number_grows() {
        assert_eq!(Growth::of([7, 7, 7]), Growth::Flat);
        assert_eq!(Growth::of([7, 10, 13]), Growth::Flat);
        assert_eq!(Growth::of([100, 150, 200]), Growth::Linear);
        assert_eq!(Growth::of([100, 150, 160]), Growth::Linear);
        assert_eq!(Growth::of([4 * 4, 8 * 8, 12 * 12]), Growth::Multiplied);
        // A square beside a large linear part.
        let square = |n: usize| 37 * n + 2 * n * n;
        assert_eq!(Growth::of([square(3), square(6), square(9)]), Growth::Multiplied);
    }

    #[test]
    fn exponents_are_powers() {
        assert!((exponent((10, 100), (100, 10_000)) - 2.0).abs() < 1e-9);
        assert!(exponent((10, 100), (100, 100)).abs() < 1e-9);
    }
}
