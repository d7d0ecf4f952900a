//! Calendar periods in a place's own time: in which one an instant lies, where it begins and ends, to the millisecond.
//!
//! ```text
//!  anchor (a date) ─▶ day, week, month, quarter, year number n ─▶ its first date ─▶ first instant of that date there
//! ```
//!
//! Nothing here looks at tz data: what the offsets of a place are came with the event ([`Zone`]), so that a replay
//! in ten years splits where the bill was split. [`tz`] reads tz data, when a spec is accepted.

pub mod tz;
mod zone;

pub use zone::{BadZone, Until, Zone};

use super::{event::Period, time::Timestamp};
use chrono::{DateTime, Datelike, Months, NaiveDate};
use serde::{Deserialize, Serialize};

/// Milliseconds of a day that has no change of clocks.
const DAY_MS: i64 = 86_400_000;

/// How long a period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum Every {
    /// A calendar day.
    Day,
    /// Seven of them.
    Week,
    /// A calendar month.
    Month,
    /// Three of them.
    Quarter,
    /// Twelve of them.
    Year,
}

/// Periods that follow each other without gaps. Number 0 begins on the anchor's date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// How long each is.
    pub every: Every,
    /// The first date of any of them. A month without its day of the month begins on that month's last day.
    pub anchor: NaiveDate,
    /// Where its dates begin.
    pub zone: Zone,
}

/// One period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Its number; the anchor's is 0.
    pub number: i64,
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after it.
    pub to: Timestamp,
}

impl Span {
    /// Whether `at` lies inside.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from <= at && at < self.to
    }
}

impl From<Span> for Period {
    fn from(span: Span) -> Self {
        Self { from: span.from, to: span.to }
    }
}

impl Calendar {
    /// The period that `at` lies in.
    #[must_use]
    pub fn span(&self, at: Timestamp) -> Span {
        self.numbered(self.number(at.millis()))
    }

    /// The period of this number; outside the range of timestamps it is cut to it.
    #[must_use]
    pub fn numbered(&self, number: i64) -> Span {
        let clock = |millis| Timestamp::MIN.shifted(millis);
        let to = clock(self.begin(number.saturating_add(1)));
        Span { number, from: clock(self.begin(number)), to }
    }

    /// First millisecond since 1970 of the period of this number.
    #[must_use]
    pub fn begin(&self, number: i64) -> i64 {
        let days = i64::from(self.first_date(number).to_epoch_days());
        self.zone.first_instant(days.saturating_mul(DAY_MS))
    }

    /// The number of the period that the millisecond `t` since 1970 lies in. Of periods without length (a date that
    /// a place left out) it is the one after them.
    #[must_use]
    pub fn number(&self, t: i64) -> i64 {
        // Where clocks were put back over midnight the date is one too early for an hour: the loops mend it.
        let local = t.saturating_add(self.zone.offset_ms(t));
        let mut number = self.nearby(local);
        while self.begin(number) > t {
            number = number.saturating_sub(1);
        }
        while self.begin(number.saturating_add(1)) <= t {
            number = number.saturating_add(1);
        }
        number
    }

    /// The number of the period that a local time lies in, or one beside it.
    fn nearby(&self, local: i64) -> i64 {
        let date = DateTime::from_timestamp_millis(local).unwrap_or_default().date_naive();
        let days =
            i64::from(date.to_epoch_days()).saturating_sub(i64::from(self.anchor.to_epoch_days()));
        match self.every {
            Every::Day => days,
            Every::Week => days.div_euclid(7),
            Every::Month => months(date).saturating_sub(months(self.anchor)),
            Every::Quarter => months(date).saturating_sub(months(self.anchor)).div_euclid(3),
            Every::Year => months(date).saturating_sub(months(self.anchor)).div_euclid(12),
        }
    }

    /// The date on which the period of this number begins; the last there is, beyond what dates can say.
    fn first_date(&self, number: i64) -> NaiveDate {
        let (days, months) = match self.every {
            Every::Day => (number, 0),
            Every::Week => (number.saturating_mul(7), 0),
            Every::Month => (0, number),
            Every::Quarter => (0, number.saturating_mul(3)),
            Every::Year => (0, number.saturating_mul(12)),
        };
        let end = if number < 0 { NaiveDate::MIN } else { NaiveDate::MAX };
        let by = Months::new(u32::try_from(months.unsigned_abs()).unwrap_or(u32::MAX));
        // A month is counted from the anchor, not from the one before: the 31st comes back after February.
        let date = if months < 0 {
            self.anchor.checked_sub_months(by)
        } else {
            self.anchor.checked_add_months(by)
        };
        let days = date.and_then(|date| i64::from(date.to_epoch_days()).checked_add(days));
        let date = days.and_then(|days| NaiveDate::from_epoch_days(i32::try_from(days).ok()?));
        date.unwrap_or(end)
    }
}

/// Months since year 0.
fn months(date: NaiveDate) -> i64 {
    i64::from(date.year()).saturating_mul(12).saturating_add(i64::from(date.month0()))
}

#[cfg(test)]
mod tests;
