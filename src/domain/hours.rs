//! Unit-hours for people and invoices: the one place where exact amounts become decimals.
//!
//! `exact` (milli-units × milliseconds) stays the truth; hours are `exact ÷ 3,600,000,000`, rounded half to even at
//! nine digits, line by line. A total is the sum of the rounded lines.

use std::fmt;

/// Billionths of a unit-hour, already rounded: what is printed, and what totals are summed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoHours(pub i128);

/// Billionths in one.
const NANO: u128 = 1_000_000_000;

impl NanoHours {
    /// Rounds milli-units × milliseconds, half to even.
    #[must_use]
    pub const fn of(exact: i128) -> Self {
        // × 10⁹ ÷ (1000 × 3,600,000) is × 5 ÷ 18; dividing first keeps within 128 bits whatever the amount.
        let (whole, rest) = (exact.div_euclid(18), exact.rem_euclid(18));
        // At most 2^127 ÷ 18 × 5, and 17 × 5.
        let (nano, rest) = (whole.saturating_mul(5), rest.saturating_mul(5));
        let floor = nano.saturating_add(rest.div_euclid(18));
        let beyond_half = match rest.rem_euclid(18) {
            0..9 => 0,
            9 => floor.rem_euclid(2),
            _ => 1,
        };
        Self(floor.saturating_add(beyond_half))
    }

    /// The sum of two lines, `None` beyond 128 bits.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl fmt::Display for NanoHours {
    /// `34.293552500`, and `0` for nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.pad("0");
        }
        let sign = if self.0 < 0 { "-" } else { "" };
        let nano = self.0.unsigned_abs();
        let (whole, rest) = (nano.div_euclid(NANO), nano.rem_euclid(NANO));
        f.pad(&format!("{sign}{whole}.{rest:09}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_rounded_half_to_even_at_nine_digits() {
        for (exact, hours) in [
            (0, "0"),
            (3_600_000_000, "1.000000000"),
            (123_456_789_000, "34.293552500"),
            (-3_600_000_000, "-1.000000000"),
            // 1 ÷ 3.6 = 0.277…, 2 ÷ 3.6 = 0.555…
            (1, "0"),
            (2, "0.000000001"),
            // 9 × 5 ÷ 18 = 2.5 and 27 × 5 ÷ 18 = 7.5: to the even neighbour.
            (9, "0.000000002"),
            (27, "0.000000008"),
            (-9, "-0.000000002"),
            (-27, "-0.000000008"),
        ] {
            assert_eq!(NanoHours::of(exact).to_string(), hours, "{exact}");
        }
    }

    #[test]
    fn rounding_agrees_with_rational_arithmetic() {
        use num_bigint::BigInt;
        use num_rational::BigRational;
        let half = BigRational::new(1.into(), 2.into());
        let step = |n: &i128| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let random = std::iter::successors(Some(7), step).take(500);
        for exact in random.chain([i128::MAX, i128::MIN, i128::MAX - 17]) {
            let true_nano = BigRational::new(BigInt::from(exact) * 5, BigInt::from(18));
            let distance = true_nano - BigRational::from_integer(NanoHours::of(exact).0.into());
            assert!(distance <= half && distance >= -half.clone(), "{exact}");
        }
    }
}
