//! Instants as integers. The domain never asks what time it is; every [`Timestamp`] came in an event
//! or an argument.

use chrono::{DateTime, Datelike, NaiveDate};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 3_600_000;

/// Milliseconds in a day.
const DAY_MS: i64 = 86_400_000;

/// The instant that sums of `amount × time` count from: 2026-01-01T00:00:00Z.
///
/// Near the data on purpose: an open segment adds `amount × start` to a sum, and 2⁶³ bytes times the
/// milliseconds since 1970 would leave little room in 128 bits.
pub const ORIGIN: Timestamp = Timestamp(1_767_225_600_000);

/// An instant, in milliseconds since 1970-01-01T00:00:00Z, between [`Timestamp::MIN`] and
/// [`Timestamp::MAX`].
///
/// Text form: RFC 3339 in UTC with exactly three decimals (`2026-11-29T16:00:00.000Z`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Why a text or a number is no [`Timestamp`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// Not RFC 3339.
    #[error("`{0}` is no RFC 3339 time; write it like 2026-11-29T16:00:00.000Z")]
    Malformed(String),
    /// Finer than a millisecond.
    #[error("`{0}` is finer than a millisecond; drop the digits after the third decimal")]
    TooFine(String),
    /// Outside the range that bizrq keeps.
    #[error("`{0}` is outside 1970-01-01 to 2199-12-31; check the unit (seconds or milliseconds)")]
    OutOfRange(String),
}

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// 2199-12-31T23:59:59.999Z, the last millisecond.
    pub const MAX: Self = Self(7_258_118_399_999);

    /// An instant from milliseconds since 1970.
    ///
    /// # Errors
    /// [`TimestampError::OutOfRange`] before [`Self::MIN`] or after [`Self::MAX`].
    pub fn from_millis(millis: i64) -> Result<Self, TimestampError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&millis) {
            Ok(Self(millis))
        } else {
            Err(TimestampError::OutOfRange(millis.to_string()))
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Milliseconds from `earlier` to `self`; negative when `self` is the earlier one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        // Both lie within 230 years of each other: no overflow.
        self.0.saturating_sub(earlier.0)
    }

    /// `self` moved by `millis`, kept within [`Self::MIN`] and [`Self::MAX`].
    #[must_use]
    pub fn shifted(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis).clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Parses RFC 3339, any offset, at most three decimals that count.
    ///
    /// # Errors
    /// [`TimestampError`] naming the text.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        let (whole, finer) = Self::split(text)?;
        if finer { Err(TimestampError::TooFine(text.to_owned())) } else { Ok(whole) }
    }

    /// Parses RFC 3339 and drops what is finer than a millisecond (towards the past), as the
    /// Kubernetes API server drops what is finer than a second.
    ///
    /// # Errors
    /// [`TimestampError`] naming the text.
    pub fn parse_floor(text: &str) -> Result<Self, TimestampError> {
        Self::split(text).map(|(whole, _)| whole)
    }

    fn split(text: &str) -> Result<(Self, bool), TimestampError> {
        if let Some(millis) = canonical(text.as_bytes()) {
            return Self::from_millis(millis)
                .map(|t| (t, false))
                .map_err(|_| TimestampError::OutOfRange(text.to_owned()));
        }
        let Ok(parsed) = DateTime::parse_from_rfc3339(text) else {
            return Err(TimestampError::Malformed(text.chars().take(64).collect()));
        };
        let finer = parsed.timestamp_subsec_nanos().checked_rem(1_000_000) != Some(0);
        Self::from_millis(parsed.timestamp_millis())
            .map(|t| (t, finer))
            .map_err(|_| TimestampError::OutOfRange(text.to_owned()))
    }
}

/// The two forms that events and the API server write, without a general parser:
/// `YYYY-MM-DDTHH:MM:SSZ` and `YYYY-MM-DDTHH:MM:SS.mmmZ`. Anything else is `None`.
fn canonical(text: &[u8]) -> Option<i64> {
    let (head, millis) = match text {
        [head @ .., b'.', m1, m2, m3, b'Z'] if text.len() == 24 => {
            (head, pair(b'0', *m1)?.checked_mul(100)?.checked_add(pair(*m2, *m3)?)?)
        }
        [head @ .., b'Z'] if text.len() == 20 => (head, 0),
        _ => return None,
    };
    let [y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b'T', h1, h2, b':', mi1, mi2, b':', s1, s2] =
        head
    else {
        return None;
    };
    let year = pair(*y1, *y2)?.checked_mul(100)?.checked_add(pair(*y3, *y4)?)?;
    let days = days(year, pair(*mo1, *mo2)?, pair(*d1, *d2)?)?;
    let (h, m, s) = (pair(*h1, *h2)?, pair(*mi1, *mi2)?, pair(*s1, *s2)?);
    if h > 23 || m > 59 || s > 59 {
        return None;
    }
    let seconds = days.checked_mul(24)?.checked_add(h)?.checked_mul(60)?.checked_add(m)?;
    seconds.checked_mul(60)?.checked_add(s)?.checked_mul(1000)?.checked_add(millis)
}

/// The number that two ASCII digits write.
fn pair(tens: u8, ones: u8) -> Option<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    let number = i64::from(tens).checked_mul(10)?.checked_add(i64::from(ones))?;
    (tens < 10 && ones < 10).then_some(number)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; `None` for what is no date.
///
/// A year is counted from March, so that the day of the year does not depend on leap years: by month that
/// is `(153 × months since March + 2) ÷ 5`, the known sequence of 31 and 30 days.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let longest = match month {
        2 => 28_i64.checked_add(i64::from(leap))?,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    let since_march = month.checked_add(9)?.rem_euclid(12);
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let leaps =
        year.div_euclid(4).checked_sub(year.div_euclid(100))?.checked_add(year.div_euclid(400))?;
    let in_year = since_march.checked_mul(153)?.checked_add(2)?.div_euclid(5);
    let from_year_0 =
        year.checked_mul(365)?.checked_add(leaps)?.checked_add(in_year)?.checked_add(day)?;
    // 1970-01-01 is day 719,469 when 0000-03-01 is day 1.
    from_year_0.checked_sub(719_469)
}

impl Timestamp {
    /// The text form. Written by hand: it stands several times in every event.
    fn text(self) -> Option<[u8; 24]> {
        let day =
            i32::try_from(self.0.div_euclid(DAY_MS)).ok().and_then(NaiveDate::from_epoch_days)?;
        let millis = self.0.rem_euclid(DAY_MS);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (range, mut value) in [
            (0..4, i64::from(day.year())),
            (5..7, i64::from(day.month())),
            (8..10, i64::from(day.day())),
            (11..13, millis / HOUR_MS),
            (14..16, millis / 60_000 % 60),
            (17..19, millis / 1000 % 60),
            (20..23, millis % 1000),
        ] {
            for byte in text.get_mut(range)?.iter_mut().rev() {
                // '0' is 0x30: the low bits are the digit.
                *byte = b'0' | u8::try_from(value % 10).ok()?;
                value /= 10;
            }
        }
        Some(text)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text().ok_or(fmt::Error)?;
        f.pad(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_i64(self.millis());
        }
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::parse(text).map_err(E::custom)
            }
        }
        if !deserializer.is_human_readable() {
            let millis = i64::deserialize(deserializer)?;
            return Self::from_millis(millis).map_err(de::Error::custom);
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(feature = "cli")]
impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "format": "date-time",
            "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_short_forms_and_the_general_parser_agree() {
        for text in ["2026-11-29T16:00:00Z", "2024-02-29T23:59:59.999Z", "1970-01-01T00:00:00.001Z"]
        {
            let general = DateTime::parse_from_rfc3339(text).unwrap().timestamp_millis();
            assert_eq!(canonical(text.as_bytes()), Some(general), "{text}");
        }
        assert_eq!(
            Timestamp::parse("2026-11-29T17:00:00.25+01:00").unwrap().to_string(),
            "2026-11-29T16:00:00.250Z"
        );
    }

    #[test]
    fn the_text_is_what_the_general_formatter_writes() {
        let odd = (0..2000).map(|n| n * 3_629_059_199 + n);
        for millis in odd.chain([Timestamp::MAX.0, 951_782_400_000, 951_868_799_999]) {
            let general = DateTime::from_timestamp_millis(millis).unwrap();
            let general = general.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
            let text = Timestamp::from_millis(millis).unwrap().to_string();
            assert_eq!(text, general);
            assert_eq!(Timestamp::parse(&text).unwrap().millis(), millis);
        }
    }

    #[test]
    fn every_day_of_four_centuries_has_chronos_number() {
        let first = chrono::NaiveDate::from_ymd_opt(1899, 1, 1).unwrap();
        for date in first.iter_days().take(146_097) {
            let text = date.format("%Y-%m-%d").to_string();
            let [y, m, d] = [&text[..4], &text[5..7], &text[8..]].map(|n| n.parse().unwrap());
            assert_eq!(days(y, m, d), Some(i64::from(date.to_epoch_days())), "{text}");
        }
        for (y, m, d) in [
            (2023, 2, 29),
            (2100, 2, 29),
            (2024, 2, 30),
            (2024, 4, 31),
            (2024, 13, 1),
            (2024, 0, 1),
            (2024, 1, 0),
        ] {
            assert_eq!(days(y, m, d), None, "{y}-{m}-{d}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused_by_name() {
        assert!(matches!(
            Timestamp::parse("2026-02-30T00:00:00Z"),
            Err(TimestampError::Malformed(_))
        ));
        assert!(matches!(
            Timestamp::parse("2026-11-29T16:00:00.0001Z"),
            Err(TimestampError::TooFine(_))
        ));
        assert!(matches!(
            Timestamp::parse("9999-01-01T00:00:00Z"),
            Err(TimestampError::OutOfRange(_))
        ));
        assert!(matches!(
            Timestamp::parse("1969-12-31T23:59:59Z"),
            Err(TimestampError::OutOfRange(_))
        ));
        assert_eq!(
            Timestamp::parse_floor("2026-11-29T16:00:00.0009Z").unwrap().to_string(),
            "2026-11-29T16:00:00.000Z"
        );
    }
}
