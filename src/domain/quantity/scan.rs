//! The scanner: bytes to an exact value. It allocates nothing and computes in checked integers.
//!
//! Shape of a text: sign? digits? (`.` digits?)? suffix. The suffix is letters of `eEinumkKMGTP`, then at most one
//! sign, then digits; which of those make sense is decided by [`unit()`].

use super::{Format, MAX_NANO, NANO, Quantity};

/// Longest text that is looked at, in bytes.
const MAX_LEN: usize = 64;
/// Largest exponent, either way.
const MAX_EXPONENT: i64 = 64;

const EMPTY: &str = "it is empty; write 0, or leave the entry out";
const TOO_LONG: &str = "it is longer than 64 bytes; write fewer digits";
const CHARACTER: &str = "there is a character that no quantity has; write digits, at most one `.`, and at most one \
    of n u m k M G T P E Ki Mi Gi Ti Pi Ei";
const SUFFIX: &str =
    "the suffix is unknown; use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei, or an exponent like e3";
const EXPONENT: &str = "the exponent is beyond ±64; use a smaller one";
const RANGE: &str = "it is beyond ±9223372036854775807; use a smaller value";

/// What a text says.
pub(super) struct Scanned {
    /// The value.
    pub(super) quantity: Quantity,
    /// Whether the mantissa has a digit: `Ki` has none.
    pub(super) has_digit: bool,
}

/// What a suffix means.
enum Unit {
    /// Times 10 to this power.
    Ten(i64, Format),
    /// Times 1024 so many times.
    Kibi(u8),
}

/// Reads the whole of `text`.
pub(super) fn scan(text: &[u8]) -> Result<Scanned, &'static str> {
    if text.is_empty() {
        return Err(EMPTY);
    }
    if text.len() > MAX_LEN {
        return Err(TOO_LONG);
    }
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (whole, rest) = digits(rest);
    let (fraction, suffix) = match rest {
        [b'.', rest @ ..] => digits(rest),
        rest => (&[][..], rest),
    };
    let has_digit = !whole.is_empty() || !fraction.is_empty();
    let (magnitude, format) = match unit(suffix)? {
        Unit::Ten(power, format) => (decimal(whole, fraction, power)?, format),
        Unit::Kibi(times) => binary(whole, fraction, times),
    };
    let nano = if negative { magnitude.saturating_neg() } else { magnitude };
    // Kubernetes forgets "binary" for a value between 0 and 1.
    let format = if format == Format::BinarySI && 0 < nano && nano < NANO {
        Format::DecimalSI
    } else {
        format
    };
    Ok(Scanned { quantity: Quantity { nano, format }, has_digit })
}

/// Splits the leading ASCII digits off.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let n = text.iter().take_while(|b| b.is_ascii_digit()).count();
    text.split_at_checked(n).unwrap_or((text, &[]))
}

fn unit(suffix: &[u8]) -> Result<Unit, &'static str> {
    use Format::{DecimalExponent, DecimalSI};
    Ok(match suffix {
        b"" => Unit::Ten(0, DecimalSI),
        b"m" => Unit::Ten(-3, DecimalSI),
        b"Ki" => Unit::Kibi(1),
        b"Mi" => Unit::Kibi(2),
        b"Gi" => Unit::Kibi(3),
        b"Ti" => Unit::Kibi(4),
        b"Pi" => Unit::Kibi(5),
        b"Ei" => Unit::Kibi(6),
        b"n" => Unit::Ten(-9, DecimalSI),
        b"u" => Unit::Ten(-6, DecimalSI),
        b"k" => Unit::Ten(3, DecimalSI),
        b"M" => Unit::Ten(6, DecimalSI),
        b"G" => Unit::Ten(9, DecimalSI),
        b"T" => Unit::Ten(12, DecimalSI),
        b"P" => Unit::Ten(15, DecimalSI),
        b"E" => Unit::Ten(18, DecimalSI),
        [b'e' | b'E', power @ ..] => Unit::Ten(exponent(power)?, DecimalExponent),
        other => return Err(if other.iter().all(is_suffix_byte) { SUFFIX } else { CHARACTER }),
    })
}

/// Whether a suffix can hold the byte at all; decides only which of two reasons is given.
fn is_suffix_byte(b: &u8) -> bool {
    b"eEinumkKMGTP+-".contains(b) || b.is_ascii_digit()
}

/// The number behind `e`: a sign or none, and at least one digit.
fn exponent(text: &[u8]) -> Result<i64, &'static str> {
    let (negative, number) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
        return Err(if text.iter().all(is_suffix_byte) { SUFFIX } else { CHARACTER });
    }
    // At most 62 digits: saturating keeps "far too large" far too large.
    let n = number.iter().fold(0_i64, |n, b| n.saturating_mul(10).saturating_add(value(*b)));
    match n {
        n if n > MAX_EXPONENT => Err(EXPONENT),
        n if negative => Ok(n.saturating_neg()),
        n => Ok(n),
    }
}

/// The value of an ASCII digit.
fn value(digit: u8) -> i64 {
    i64::from(digit.saturating_sub(b'0'))
}

/// 10⁰ … 10²⁷, the scales of the short way through [`decimal`].
const POWERS_OF_TEN: [i128; 28] = {
    let mut powers = [1; 28];
    let mut rest: &mut [i128] = &mut powers;
    let mut power = 1;
    while let Some((first, others)) = rest.split_first_mut() {
        *first = power;
        power = power.saturating_mul(10);
        rest = others;
    }
    powers
};

/// |whole.fraction × 10^power| in 10⁻⁹, rounded up.
fn decimal(whole: &[u8], fraction: &[u8], power: i64) -> Result<i128, &'static str> {
    let magnitude = short_decimal(whole, fraction, power)
        .or_else(|| long_decimal(whole, fraction, power))
        .ok_or(RANGE)?;
    if magnitude > MAX_NANO { Err(RANGE) } else { Ok(magnitude) }
}

/// The usual case: no fraction, at most 18 digits, nothing finer than 10⁻⁹. Anything else is `None`.
fn short_decimal(whole: &[u8], fraction: &[u8], power: i64) -> Option<i128> {
    if whole.len() > 18 || !fraction.is_empty() {
        return None;
    }
    let n = whole.iter().fold(0_i64, |n, b| n.saturating_mul(10).saturating_add(value(*b)));
    let scale = usize::try_from(power.checked_add(9)?).ok()?;
    i128::from(n).checked_mul(*POWERS_OF_TEN.get(scale)?)
}

/// Every case, digit by digit: the digits above 10⁻⁹ make the value, one below it that is not zero rounds it up.
fn long_decimal(whole: &[u8], fraction: &[u8], power: i64) -> Option<i128> {
    let kept = i64::try_from(whole.len()).ok()?.checked_add(power)?.checked_add(9)?;
    let kept = usize::try_from(kept.max(0)).ok()?;
    let all = || whole.iter().chain(fraction);
    let padded = all().copied().chain(std::iter::repeat(b'0'));
    let n = padded
        .take(kept)
        .try_fold(0_i128, |n, b| n.checked_mul(10)?.checked_add(i128::from(value(b))))?;
    // Where even the first digit lies below 10⁻⁹, all of them are below.
    let finer = all().skip(kept).any(|b| *b != b'0');
    n.checked_add(i128::from(finer))
}

/// |whole.fraction × 1024^times| in 10⁻⁹, rounded up, capped at 2⁶³−1.
fn binary(whole: &[u8], fraction: &[u8], times: u8) -> (i128, Format) {
    let magnitude = exact_binary(whole, fraction, times).unwrap_or(MAX_NANO).min(MAX_NANO);
    (magnitude, Format::BinarySI)
}

/// As [`binary`], not capped; `None` when it is far beyond the cap.
fn exact_binary(whole: &[u8], fraction: &[u8], times: u8) -> Option<i128> {
    let mut units = whole
        .iter()
        .try_fold(0_i128, |n, b| n.checked_mul(10)?.checked_add(i128::from(value(*b))))?;
    let mut rest = [0_u8; MAX_LEN];
    for (digit, b) in rest.iter_mut().zip(fraction) {
        *digit = b.saturating_sub(b'0');
    }
    for _ in 0..times {
        let carry = if fraction.is_empty() { 0 } else { times_1024(&mut rest)? };
        units = units.checked_mul(1024)?.checked_add(i128::from(carry))?;
    }
    let (nano, finer) = rest.split_at_checked(9)?;
    let nano =
        nano.iter().try_fold(0_i128, |n, d| n.checked_mul(10)?.checked_add(i128::from(*d)))?;
    let up = i128::from(finer.iter().any(|d| *d != 0));
    units.checked_mul(NANO)?.checked_add(nano)?.checked_add(up)
}

/// Multiplies the decimal fraction `0.rest` by 1024, exactly, and returns what passes the point.
fn times_1024(rest: &mut [u8]) -> Option<u32> {
    let mut carry = 0_u32;
    for digit in rest.iter_mut().rev() {
        let n = u32::from(*digit).checked_mul(1024)?.checked_add(carry)?;
        *digit = u8::try_from(n.checked_rem(10)?).ok()?;
        carry = n.checked_div(10)?;
    }
    Some(carry)
}
