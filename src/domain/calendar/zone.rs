//! The offsets of a place from UTC, as they were known when a quota object was accepted: a rule in the words of POSIX
//! (`CET-1CEST,M3.5.0,M10.5.0/3`), and before it what the rule does not say.

use crate::domain::time::{HOUR_MS, Timestamp};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// No offset is farther from UTC.
const FARTHEST_MS: i64 = 26 * 3_600_000;

/// When dates begin at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    changes: Vec<Until>,
    rule: Box<str>,
    parsed: TimeZone,
}

/// An offset that the rule does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct Until {
    /// First instant at which it does not hold any more.
    pub until: Timestamp,
    /// Seconds east of UTC.
    pub offset: i32,
}

/// Why something is no zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadZone {
    /// Not in the words of POSIX.
    #[error("`{0}` is no POSIX TZ rule; write it like CET-1CEST,M3.5.0,M10.5.0/3")]
    Rule(String),
    /// An offset that no place has.
    #[error("an offset of {0} s is farther than 26 hours from UTC")]
    Offset(i32),
    /// Not in order of time.
    #[error("the change at {0} does not come after the one before it")]
    Order(Timestamp),
}

impl Zone {
    /// A place where `changes` say the offset, one after the other, and after the last of them `rule`.
    ///
    /// # Errors
    /// [`BadZone`].
    pub fn new(changes: Vec<Until>, rule: &str) -> Result<Self, BadZone> {
        let bad = || BadZone::Rule(rule.chars().take(64).collect());
        let parsed = TimeZone::posix(rule).map_err(|_| bad())?;
        let mut before = None;
        for change in &changes {
            if i64::from(change.offset).saturating_mul(1000).saturating_abs() > FARTHEST_MS {
                return Err(BadZone::Offset(change.offset));
            }
            if before.replace(change.until).is_some_and(|before| change.until <= before) {
                return Err(BadZone::Order(change.until));
            }
        }
        Ok(Self { changes, rule: rule.into(), parsed })
    }

    /// What holds in the beginning.
    #[must_use]
    pub fn changes(&self) -> &[Until] {
        &self.changes
    }

    /// What holds from then on.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Whether every date there begins on a whole hour of UTC.
    pub(in crate::domain) fn keeps_hours(&self) -> bool {
        let is_hour = |ms: i64| ms.rem_euclid(HOUR_MS) == 0;
        let is_offset = |seconds: i32| is_hour(i64::from(seconds).saturating_mul(1000));
        let changes = |c: &Until| is_hour(c.until.millis()) && is_offset(c.offset);
        let last = self.changes.last().map_or(0, |change| change.until.millis());
        // By a rule clocks change at the same times of day every year: two years show all that it can do.
        let mut following = self.parsed.following(instant(last)).take(4);
        self.changes.iter().all(changes)
            && is_hour(self.offset_ms(last))
            && following
                .all(|c| is_hour(c.timestamp().as_millisecond()) && is_offset(c.offset().seconds()))
    }

    /// Milliseconds east of UTC at the millisecond `t` since 1970.
    pub(super) fn offset_ms(&self, t: i64) -> i64 {
        let next = self.changes.partition_point(|change| change.until.millis() <= t);
        let seconds = match self.changes.get(next) {
            Some(change) => change.offset,
            None => self.parsed.to_offset(instant(t)).seconds(),
        };
        i64::from(seconds).saturating_mul(1000)
    }

    /// The first instant, in milliseconds since 1970, at which clocks there show `local` (milliseconds since 1970
    /// if it were UTC) or later: of a time that they show twice the first, of one that they leave out the change.
    pub(super) fn first_instant(&self, local: i64) -> i64 {
        let mut from = local.saturating_sub(FARTHEST_MS);
        loop {
            let shown = local.saturating_sub(self.offset_ms(from)).max(from);
            match self.next_change(from).filter(|change| *change <= shown) {
                Some(change) => from = change,
                None => return shown,
            }
        }
    }

    /// The next instant after `t` at which the offset may change.
    fn next_change(&self, t: i64) -> Option<i64> {
        let next = self.changes.partition_point(|change| change.until.millis() <= t);
        match self.changes.get(next) {
            Some(change) => Some(change.until.millis()),
            None => {
                let change = self.parsed.following(instant(t)).next()?;
                Some(change.timestamp().as_millisecond())
            }
        }
    }
}

/// Beyond what a library of calendars holds, the nearest that it does.
pub(super) fn instant(t: i64) -> jiff::Timestamp {
    let end = if t < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_millisecond(t).unwrap_or(end)
}
