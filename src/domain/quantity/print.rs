//! The canonical text of a quantity, as Kubernetes prints a computed one: never the text that was read.

use super::{Format, NANO, Quantity};
use std::fmt;

const SI: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            _ if self.nano == 0 => f.write_str("0"),
            Format::BinarySI => binary(self.nano, f),
            Format::DecimalSI => decimal(self.nano, f),
            Format::DecimalExponent => exponent(self.nano, f),
        }
    }
}

/// Divides by `base` while that is exact, at most `most` times: the quotient and how often.
fn reduced(mut n: i128, base: i128, most: usize) -> (i128, usize) {
    let mut times = 0_usize;
    while times < most && n.checked_rem(base) == Some(0) {
        let Some(quotient) = n.checked_div(base) else { break };
        (n, times) = (quotient, times.saturating_add(1));
    }
    (n, times)
}

/// The largest suffix that leaves an integer.
fn decimal(nano: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (n, thousands) = reduced(nano, 1000, SI.len().saturating_sub(1));
    write!(f, "{n}{}", SI.get(thousands).copied().unwrap_or_default())
}

/// As [`decimal`], with `e3` for `k`.
fn exponent(nano: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (n, thousands) = reduced(nano, 1000, 12);
    match i8::try_from(thousands).unwrap_or_default().saturating_sub(3).saturating_mul(3) {
        0 => write!(f, "{n}"),
        power => write!(f, "{n}e{power}"),
    }
}

/// The largest binary suffix that leaves an integer; decimal below 1024 or with a fraction.
fn binary(nano: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (units, fraction) = (nano.checked_div(NANO), nano.checked_rem(NANO));
    match (units, fraction) {
        (Some(units), Some(0)) if units.unsigned_abs() >= 1024 => {
            let (n, times) = reduced(units, 1024, BINARY.len().saturating_sub(1));
            write!(f, "{n}{}", BINARY.get(times).copied().unwrap_or_default())
        }
        _ => decimal(nano, f),
    }
}
