//! Kubernetes quantities, exactly: parsed into integers of 10⁻⁹, printed canonically. No float is ever computed with.
//!
//! Deviations from Kubernetes (each a row of the golden test; nothing else differs):
//! * a decimal value beyond ±(2⁶³−1) is refused, where Kubernetes keeps it (`12E`, `1e20`, `9223372036854775808`);
//! * an exponent beyond ±64 is refused, where Kubernetes wraps it to 32 bits or never returns (`1e2147483648`);
//! * a text longer than 64 bytes is refused.
//!
//! In JSON two things cannot be seen here, because the reader has decoded the text before: a space that was written
//! as an escape counts as a space, and a bare number with a point or exponent arrives as binary floating point: its
//! shortest decimal text is parsed (exact to 17 digits) and remembered as [`Format::DecimalSI`].

mod json;
mod print;
mod scan;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use std::{cmp::Ordering, hash};

/// An amount in thousandths of a base unit (core, byte, card, item): the inner unit of everything
/// that is charged or metered.
pub type Milli = i128;

/// Largest magnitude that a text may have, in 10⁻⁹: (2⁶³−1) base units.
const MAX_NANO: i128 = 9_223_372_036_854_775_807 * NANO;

/// 10⁻⁹ units in a base unit.
const NANO: i128 = 1_000_000_000;

/// How a quantity was written, which decides how it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Format {
    /// `1500m`, `2k`.
    #[default]
    DecimalSI,
    /// `64Mi`.
    BinarySI,
    /// `12e3`.
    DecimalExponent,
}

/// A Kubernetes quantity: an exact value and the format that it is printed in.
///
/// Two quantities are equal when their values are, whatever the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

/// A quantity that somebody declared (`spec.hard`, an import map): needs a digit and is not negative.
///
/// Deserializes as [`Quantity`] does, with the stricter rules of [`Quantity::parse_declared`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Declared(pub Quantity);

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no quantity: {why}")]
pub struct InvalidQuantity {
    /// The text, cut at 64 bytes, control characters escaped.
    pub text: String,
    /// What is wrong, and what would be right.
    pub why: &'static str,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nano: 0, format: Format::DecimalSI };

    /// Parses `text` as Kubernetes does, except for the deviations listed in [`crate::domain::quantity`].
    ///
    /// Nothing is trimmed. `Ki`, `m`, `.` and `-` are 0, as in Kubernetes. A negative value is returned as one.
    /// Finer than 10⁻⁹ is rounded away from zero; a binary value is capped at ±(2⁶³−1).
    ///
    /// # Errors
    /// [`InvalidQuantity`] with the text and the reason.
    pub fn parse(text: &str) -> Result<Self, InvalidQuantity> {
        match scan::scan(text.as_bytes()) {
            Ok(scanned) => Ok(scanned.quantity),
            Err(why) => Err(InvalidQuantity::new(text, why)),
        }
    }

    /// Parses the content of a JSON or YAML string: as [`Self::parse`], surrounding spaces dropped.
    ///
    /// Control characters (a line feed, say) are no spaces here: JSON can only hold them as escapes, and those
    /// Kubernetes refuses.
    ///
    /// # Errors
    /// [`InvalidQuantity`] with the text and the reason.
    pub fn parse_json_text(text: &str) -> Result<Self, InvalidQuantity> {
        Self::parse(trimmed(text))
    }

    /// Parses what somebody declared (`spec.hard`, an import map): spaces dropped, a digit needed, not negative.
    ///
    /// # Errors
    /// [`InvalidQuantity`] with the text and the reason.
    pub fn parse_declared(text: &str) -> Result<Self, InvalidQuantity> {
        let text = trimmed(text);
        let checked = scan::scan(text.as_bytes()).and_then(|scanned| match scanned {
            s if !s.has_digit => Err(NO_DIGIT),
            s if s.quantity.is_negative() => Err(NEGATIVE),
            s => Ok(s.quantity),
        });
        checked.map_err(|why| InvalidQuantity::new(text, why))
    }

    /// A quantity of `milli` thousandths.
    #[must_use]
    pub fn from_milli(milli: Milli, format: Format) -> Self {
        // What a text can say is 10¹⁰ times smaller than what saturates here.
        Self { nano: milli.saturating_mul(1_000_000), format }
    }

    /// The same quantity rounded up to thousandths, as every entry of a resource list is.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        Self::from_milli(self.milli(), self.format)
    }

    /// The value in thousandths, rounded up.
    #[must_use]
    pub fn milli(self) -> Milli {
        // Nearly every amount fits 64 bits, which divide ten times as fast.
        match i64::try_from(self.nano) {
            Ok(nano) if nano < i64::MAX.saturating_sub(999_999) => {
                i128::from(nano.saturating_add(999_999).div_euclid(1_000_000))
            }
            _ => self.nano.saturating_add(999_999).div_euclid(1_000_000),
        }
    }

    /// The format that it is printed in.
    #[must_use]
    pub const fn format(self) -> Format {
        self.format
    }

    /// Whether it is below zero, even by less than a thousandth.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether [`Self::parse`] takes its text: within ±(2⁶³−1). Sums can leave that range.
    #[must_use]
    pub const fn is_expressible(self) -> bool {
        -MAX_NANO <= self.nano && self.nano <= MAX_NANO
    }

    /// The sum, in the format of `self`, or of `other` where `self` is zero. `None` beyond 128 bits.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let format = if self.is_zero() { other.format } else { self.format };
        Some(Self { nano: self.nano.checked_add(other.nano)?, format })
    }

    /// The difference, in the format of `self`, or of `other` where `self` is zero. `None` beyond 128 bits.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let format = if self.is_zero() { other.format } else { self.format };
        Some(Self { nano: self.nano.checked_sub(other.nano)?, format })
    }

    /// `count` times the quantity. `None` beyond 128 bits.
    #[must_use]
    pub fn checked_mul(self, count: u64) -> Option<Self> {
        Some(Self { nano: self.nano.checked_mul(i128::from(count))?, format: self.format })
    }
}

const NO_DIGIT: &str = "it has no digit; write 0 if zero is meant";
const NEGATIVE: &str = "it is negative; amounts are zero or more";

/// `text` without the white space around it that a JSON string can hold unescaped.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c >= ' ' && c.is_whitespace())
}

impl InvalidQuantity {
    /// The error for `text`, of which the first 64 bytes are kept.
    fn new(text: &str, why: &'static str) -> Self {
        let mut kept = String::new();
        for c in text.chars() {
            if kept.len() >= 64 {
                break;
            }
            if c.is_control() { kept.extend(c.escape_default()) } else { kept.push(c) }
        }
        Self { text: kept, why }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl hash::Hash for Quantity {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.nano.hash(state);
    }
}
