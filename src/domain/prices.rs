//! Prices of unit-hours, and money: exact until it is rounded, once, for people.
//!
//! A cost is `exact ÷ (per × 3,600,000) × price`, a rational number. Lines are rounded half to even at the currency's
//! digits; a total is the sum of the rounded lines, and what it lacks of the rounded exact total is said.

use super::{
    event::Period,
    names::Map,
    quantity::Milli,
    time::{HOUR_MS, Timestamp},
};
use std::fmt;

/// Digits behind the point that a price may have.
const PRICE_DIGITS: usize = 9;

/// What an hour of a key costs, for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The key; of a model, the key with the model: `limits.nvidia.com/gpu.A30`.
    pub key: String,
    /// When it holds.
    pub period: Period,
    /// Billionths of a currency unit.
    pub nano: i128,
    /// For so many milli-units, held for an hour.
    pub per: Milli,
}

/// Prices, no two of which hold for one key at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    /// In order of key and time.
    list: Vec<Price>,
    by_key: Map<String, Vec<usize>>,
    digits: u32,
}

/// An exact amount of money: billionths, and a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    nano: i128,
    /// `part ÷ of` is at least 0 and below 1.
    part: i128,
    of: i128,
}

/// Money as it is printed, in units of the last digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded {
    /// So many of the last digit.
    pub minor: i128,
    /// Digits behind the point.
    pub digits: u32,
}

/// Why these are no prices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No plain decimal number.
    #[error(
        "`{0}` is no price; write a decimal number with at most nine digits behind the point, as in \"1.25\""
    )]
    NotAPrice(String),
    /// Nothing lies inside.
    #[error(
        "the price of {key} holds from {from} to {to}, which is no time; let it begin before it ends"
    )]
    Empty {
        /// The key.
        key: String,
        /// First instant.
        from: Timestamp,
        /// First instant after it.
        to: Timestamp,
    },
    /// Two prices for one instant.
    #[error("two prices of {key} hold from {from} to {to}; end one where the other begins")]
    Overlap {
        /// The key.
        key: String,
        /// Where both hold.
        from: Timestamp,
        /// Where one of them ends.
        to: Timestamp,
    },
    /// Nothing is the measure.
    #[error("the price of {key} is for nothing; let `per` be above 0")]
    PerNothing {
        /// The key.
        key: String,
    },
    /// Too many digits.
    #[error("amounts of money have at most nine digits behind the point, not {0}")]
    Digits(u32),
    /// A number left 128 bits.
    #[error("an amount of money exceeds 128 bits")]
    Overflow,
}

/// Reads a plain decimal number as billionths.
///
/// # Errors
/// [`Error::NotAPrice`].
pub fn parse(text: &str) -> Result<i128, Error> {
    let wrong = || Error::NotAPrice(text.chars().take(64).collect());
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > PRICE_DIGITS {
        return Err(wrong());
    }
    let number = format!("{whole}{part:0<PRICE_DIGITS$}");
    number.parse().map_err(|_| wrong())
}

impl Prices {
    /// Prices of which no two overlap; money has so many digits behind the point.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(mut list: Vec<Price>, digits: u32) -> Result<Self, Error> {
        if digits > 9 {
            return Err(Error::Digits(digits));
        }
        list.sort_by(|a, b| (&a.key, a.period.from).cmp(&(&b.key, b.period.from)));
        for Price { key, period: Period { from, to }, per, .. } in &list {
            let (from, to) = (*from, *to);
            if to <= from {
                return Err(Error::Empty { key: key.clone(), from, to });
            }
            if *per <= 0 {
                return Err(Error::PerNothing { key: key.clone() });
            }
        }
        for (a, b) in list.iter().zip(list.iter().skip(1)) {
            if a.key == b.key && b.period.from < a.period.to {
                let (from, to) = (b.period.from, a.period.to.min(b.period.to));
                return Err(Error::Overlap { key: a.key.clone(), from, to });
            }
        }
        let mut by_key: Map<String, Vec<usize>> = Map::default();
        for (number, price) in list.iter().enumerate() {
            by_key.entry(price.key.clone()).or_default().push(number);
        }
        Ok(Self { list, by_key, digits })
    }

    /// Every instant at which some price begins or ends.
    pub fn changes(&self) -> impl Iterator<Item = Timestamp> {
        self.list.iter().flat_map(|price| [price.period.from, price.period.to])
    }

    /// The price of a generic key on a model (empty for none) at an instant, by number: that of the model, else that of
    /// the key.
    #[must_use]
    pub fn of(&self, key: &str, model: &str, at: Timestamp) -> Option<usize> {
        let holds = |key: &str| {
            let numbers = self.by_key.get(key)?.iter().copied();
            let inside = |number: &usize| {
                let price = self.list.get(*number);
                price.is_some_and(|price| price.period.from <= at && at < price.period.to)
            };
            numbers.rev().find(inside)
        };
        let of_model = if model.is_empty() { None } else { holds(&with_model(key, model)) };
        of_model.or_else(|| holds(key))
    }

    /// Whether any price is one of the key, on whichever model: then all its use must have one.
    #[must_use]
    pub fn names(&self, key: &str) -> bool {
        self.list.iter().any(|price| {
            let rest = price.key.strip_prefix(key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    /// A price by number.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&Price> {
        self.list.get(number)
    }

    /// Digits behind the point of amounts of money.
    #[must_use]
    pub const fn digits(&self) -> u32 {
        self.digits
    }
}

/// A key with a model behind it.
#[must_use]
pub fn with_model(key: &str, model: &str) -> String {
    if model.is_empty() { key.to_owned() } else { [key, ".", model].concat() }
}

impl Price {
    /// What `exact` milli-units × milliseconds cost.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn cost(&self, exact: i128) -> Result<Money, Error> {
        let cost = || {
            let of = self.per.checked_mul(i128::from(HOUR_MS))?;
            let (whole, rest) = (exact.checked_div_euclid(of)?, exact.checked_rem_euclid(of)?);
            let rest = rest.checked_mul(self.nano)?;
            let nano = whole.checked_mul(self.nano)?.checked_add(rest.checked_div_euclid(of)?)?;
            Money { nano, part: rest.checked_rem_euclid(of)?, of }.reduced()
        };
        cost().ok_or(Error::Overflow)
    }
}

impl Default for Money {
    /// None.
    fn default() -> Self {
        Self { nano: 0, part: 0, of: 1 }
    }
}

impl Money {
    fn reduced(self) -> Option<Self> {
        let common = common(self.part, self.of);
        let (part, of) = (self.part.checked_div(common)?, self.of.checked_div(common)?);
        Some(Self { part, of, ..self })
    }

    /// The sum, exactly.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn plus(self, other: Self) -> Result<Self, Error> {
        let sum = || {
            let common = common(self.of, other.of);
            let (mine, theirs) = (other.of.checked_div(common)?, self.of.checked_div(common)?);
            let of = self.of.checked_mul(mine)?;
            let part = self.part.checked_mul(mine)?.checked_add(other.part.checked_mul(theirs)?)?;
            let nano = self.nano.checked_add(other.nano)?.checked_add(part.checked_div(of)?)?;
            Self { nano, part: part.checked_rem(of)?, of }.reduced()
        };
        sum().ok_or(Error::Overflow)
    }

    /// Rounded half to even.
    ///
    /// # Errors
    /// [`Error::Overflow`].
    pub fn rounded(self, digits: u32) -> Result<Rounded, Error> {
        let rounded = || {
            let unit = 10_i128.checked_pow(9_u32.checked_sub(digits)?)?;
            let (minor, rest) =
                (self.nano.checked_div_euclid(unit)?, self.nano.checked_rem_euclid(unit)?);
            // Beyond the last digit lies (rest + part ÷ of) ÷ unit: twice that is compared with 1.
            let twice = rest.checked_mul(self.of)?.checked_add(self.part)?.checked_mul(2)?;
            let one = unit.checked_mul(self.of)?;
            let up = twice > one || (twice == one && minor.checked_rem(2)? != 0);
            Some(Rounded { minor: minor.checked_add(i128::from(up))?, digits })
        };
        rounded().ok_or(Error::Overflow)
    }
}

/// The greatest common divisor of a number and a positive one.
fn common(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a, b);
    while let Some(rest) = a.checked_rem(b) {
        (a, b) = (b, rest);
    }
    a.max(1)
}

impl fmt::Display for Rounded {
    /// `-12.30`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.minor, self.digits))
    }
}

impl fmt::Display for Price {
    /// The number alone, without digits that say nothing: `1.25`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = decimal(self.nano, 9);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

fn decimal(minor: i128, digits: u32) -> String {
    let sign = if minor < 0 { "-" } else { "" };
    let one = 10_u128.saturating_pow(digits);
    let minor = minor.unsigned_abs();
    let (whole, part) = (minor.checked_div(one), minor.checked_rem(one));
    let (whole, part) = (whole.unwrap_or_default(), part.unwrap_or_default());
    match usize::try_from(digits) {
        Ok(0) | Err(_) => format!("{sign}{whole}"),
        Ok(width) => format!("{sign}{whole}.{part:0>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANO: i128 = 1_000_000_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms).unwrap()
    }

    fn price(key: &str, from: i64, to: i64, text: &str, per: Milli) -> Price {
        let period = Period { from: at(from), to: at(to) };
        Price { key: key.to_owned(), period, nano: parse(text).unwrap(), per }
    }

    #[test]
    fn money_agrees_with_rational_arithmetic() {
        use num_bigint::BigInt;
        use num_rational::BigRational;
        let ratio = |n: i128, d: i128| BigRational::new(BigInt::from(n), BigInt::from(d));
        let mut seed = 7_u64;
        let mut next = |most: i128| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i128::from(seed >> 20) % most
        };
        let (mut sum, mut truth) = (Money::default(), ratio(0, 1));
        for per in [1000, 1_073_741_824_000, 7000, 1000].repeat(50) {
            let price = Price { nano: next(5 * NANO), per, ..price("k", 0, 1, "0", 1000) };
            let exact = next(1 << 43) * 1000 - (1 << 50);
            let cost = price.cost(exact).unwrap();
            let real = ratio(exact, per * 3_600_000) * ratio(price.nano, NANO);
            (sum, truth) = (sum.plus(cost).unwrap(), truth + &real);
            for (money, real) in [(cost, &real), (sum, &truth)] {
                for digits in [0, 2, 9] {
                    let printed = money.rounded(digits).unwrap();
                    let one = 10_i128.pow(digits);
                    let off = ratio(printed.minor, one) - real;
                    let most = ratio(1, 2 * one);
                    assert!(off <= most && off >= -most, "{printed} for {real}");
                }
            }
        }
    }

    #[test]
    fn money_is_rounded_half_to_even() {
        for (exact, cost) in [
            (3_600_000_000, "1.00"),
            (18_000_000, "0.00"),
            (54_000_000, "0.02"),
            (18_000_001, "0.01"),
            (-18_000_000, "0.00"),
            (-54_000_000, "-0.02"),
        ] {
            let one = price("limits.cpu", 0, 1, "1", 1000);
            assert_eq!(one.cost(exact).unwrap().rounded(2).unwrap().to_string(), cost, "{exact}");
        }
    }

    #[test]
    fn overlapping_prices_are_refused_and_those_that_meet_are_not() {
        let a30 = "limits.nvidia.com/gpu.A30";
        let prices = |second| {
            let list = vec![price(a30, 10, 20, "2", 1000), price(a30, second, 30, "1", 1000)];
            Prices::new(list, 2)
        };
        assert!(prices(20).is_ok());
        let (key, from, to) = (a30.to_owned(), at(19), at(20));
        assert_eq!(prices(19), Err(Error::Overlap { key, from, to }));
    }

    #[test]
    fn a_models_price_counts_before_that_of_the_key() {
        let list = vec![
            price("limits.nvidia.com/gpu", 0, 100, "1", 1000),
            price("limits.nvidia.com/gpu.A30", 10, 20, "2", 1000),
        ];
        let prices = Prices::new(list, 2).unwrap();
        let of = |model, t| {
            let number = prices.of("limits.nvidia.com/gpu", model, at(t));
            number.and_then(|number| prices.get(number)).map(ToString::to_string)
        };
        assert_eq!(of("A30", 9).as_deref(), Some("1"));
        assert_eq!(of("A30", 10).as_deref(), Some("2"));
        assert_eq!(of("", 10).as_deref(), Some("1"));
        assert_eq!(of("A30", 100), None);
        assert!(prices.names("limits.nvidia.com/gpu") && !prices.names("limits.nvidia.com/g"));
    }

    #[test]
    fn a_price_is_a_plain_decimal() {
        assert_eq!(parse("0.031"), Ok(31_000_000));
        assert_eq!(parse("12"), Ok(12 * NANO));
        for wrong in ["", ".5", "1.", "-1", "1e3", "1,5", "0.0000000001", "NaN", " 1"] {
            assert_eq!(parse(wrong), Err(Error::NotAPrice(wrong.to_owned())));
        }
    }
}
