//! `spec.cashPeriod` as a person typed it, and what is recorded of it.

use super::{
    Why,
    spec::{Place, SpecError},
};
use crate::domain::{
    calendar::{Calendar, Every, tz},
    event::{CarryOver, CashPeriod},
    time::Timestamp,
};
use chrono::NaiveDate;

/// `spec.cashPeriod` as it was typed; what was left out is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypedPeriod<'a> {
    /// `Day`, `Week`, `Month`, `Quarter` or `Year`.
    pub every: &'a str,
    /// A name of the IANA database; empty for UTC.
    pub time_zone: &'a str,
    /// The first date of any period; empty for one on which weeks, months and years begin.
    pub anchor: &'a str,
    /// `None`, `Unused`, `Overdraft`, `Both`, or empty for `None`.
    pub carry_over: &'a str,
    /// Percent of `hard`, like `50%`; empty for no bound.
    pub max: &'a str,
}

/// A part of `spec.cashPeriod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodField {
    /// All of it.
    Whole,
    /// `every`.
    Every,
    /// `timeZone`.
    TimeZone,
    /// `anchor`.
    Anchor,
    /// `carryOver`.
    CarryOver,
    /// `max`.
    Max,
}

impl PeriodField {
    /// Path of the field.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Whole => "spec.cashPeriod",
            Self::Every => "spec.cashPeriod.every",
            Self::TimeZone => "spec.cashPeriod.timeZone",
            Self::Anchor => "spec.cashPeriod.anchor",
            Self::CarryOver => "spec.cashPeriod.carryOver",
            Self::Max => "spec.cashPeriod.max",
        }
    }
}

const EVERY: [(&str, Every); 5] = [
    ("Day", Every::Day),
    ("Week", Every::Week),
    ("Month", Every::Month),
    ("Quarter", Every::Quarter),
    ("Year", Every::Year),
];
const CARRY_OVER: [(&str, CarryOver); 4] = [
    ("None", CarryOver::None),
    ("Unused", CarryOver::Unused),
    ("Overdraft", CarryOver::Overdraft),
    ("Both", CarryOver::Both),
];

/// A Monday, and the first of a month, a quarter and a year.
const ANCHOR: &str = "2024-01-01";
const ANCHOR_WHY: &str =
    "is no date from 1970-01-01 to 2199-12-31; write the first date of any period, like 2026-04-01";
const MAX_WHY: &str =
    "is no whole percentage from 1% to 1000%; write how much of hard may go over, like 50%";

impl TypedPeriod<'_> {
    /// What is recorded of it, for a group that is a root if `is_root`; what is wrong goes to `errors`.
    pub(super) fn accept(&self, is_root: bool, errors: &mut Vec<SpecError>) -> Option<CashPeriod> {
        let before = errors.len();
        if !is_root {
            let why = "is for a root, and holds for its whole tree; remove it here";
            errors.push(wrong(PeriodField::Whole, self.every, why));
        }
        let every = choose(PeriodField::Every, self.every, &EVERY, errors);
        let name = if self.time_zone.is_empty() { "UTC" } else { self.time_zone };
        let zone = tz::find(name);
        if zone.is_none() {
            let why = format!(
                "is no time zone of the IANA database {}; write one like Europe/Berlin, Asia/Kolkata or UTC",
                tz::release()
            );
            errors.push(wrong(PeriodField::TimeZone, name, why));
        }
        let anchor = date(if self.anchor.is_empty() { ANCHOR } else { self.anchor });
        if anchor.is_none() {
            errors.push(wrong(PeriodField::Anchor, self.anchor, ANCHOR_WHY));
        }
        let carry_over = if self.carry_over.is_empty() { "None" } else { self.carry_over };
        let carry_over = choose(PeriodField::CarryOver, carry_over, &CARRY_OVER, errors);
        let max_percent = self.max_percent(carry_over, errors);
        if errors.len() > before {
            return None;
        }
        let ((time_zone, zone), every, anchor) = (zone?, every?, anchor?);
        let calendar = Calendar { every, anchor, zone };
        Some(CashPeriod {
            calendar,
            time_zone: time_zone.into(),
            carry_over: carry_over?,
            max_percent,
        })
    }

    fn max_percent(
        &self,
        carry_over: Option<CarryOver>,
        errors: &mut Vec<SpecError>,
    ) -> Option<u16> {
        if self.max.is_empty() {
            return None;
        }
        if carry_over == Some(CarryOver::None) {
            let why = "bounds what goes over, and carryOver says that nothing does; \
                       write carryOver: Both, Unused or Overdraft, or remove max";
            errors.push(wrong(PeriodField::Max, self.max, why));
            return None;
        }
        let digits = self.max.strip_suffix('%').filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let percent = digits.and_then(|digits| digits.parse().ok());
        let percent = percent.filter(|percent| (1..=1000).contains(percent));
        if percent.is_none() {
            errors.push(wrong(PeriodField::Max, self.max, MAX_WHY));
        }
        percent
    }
}

/// A date as ISO 8601 writes it, that lies where timestamps do.
fn date(text: &str) -> Option<NaiveDate> {
    let date: NaiveDate = text.parse().ok().filter(|date: &NaiveDate| date.to_string() == text)?;
    let millis = date.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis();
    Timestamp::from_millis(millis).ok().map(|_| date)
}

fn choose<T: Copy>(
    field: PeriodField,
    typed: &str,
    choices: &[(&str, T)],
    errors: &mut Vec<SpecError>,
) -> Option<T> {
    let choice = choices.iter().find(|(name, _)| *name == typed).map(|(_, choice)| *choice);
    if choice.is_none() {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let why = format!("is unknown; write one of {}", names.join(", "));
        errors.push(wrong(field, typed, why));
    }
    choice
}

fn wrong(field: PeriodField, value: &str, why: impl Into<Why>) -> SpecError {
    SpecError::new(Place::Period(field), value, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(typed: TypedPeriod<'_>, is_root: bool) -> Result<CashPeriod, Vec<String>> {
        let mut errors = Vec::new();
        let accepted = typed.accept(is_root, &mut errors);
        accepted.ok_or_else(|| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_left_out_is_utc_calendar_periods_and_nothing_goes_over() {
        let month = accept(TypedPeriod { every: "Month", ..TypedPeriod::default() }, true).unwrap();
        assert_eq!((&*month.time_zone, month.carry_over), ("UTC", CarryOver::None));
        assert_eq!((month.max_percent, &*month.calendar.anchor.to_string()), (None, ANCHOR));
        let typed = TypedPeriod {
            every: "Week",
            time_zone: "asia/kolkata",
            anchor: "2026-01-31",
            carry_over: "Both",
            max: "50%",
        };
        let week = accept(typed, true).unwrap();
        assert_eq!((&*week.time_zone, week.calendar.zone.rule()), ("Asia/Kolkata", "IST-5:30"));
        assert_eq!((week.max_percent, week.carry_over), (Some(50), CarryOver::Both));
    }

    #[test]
    fn every_fault_of_a_period_is_told_with_field_value_and_remedy() {
        let typed = TypedPeriod {
            every: "month",
            time_zone: "Europe/Berln",
            anchor: "2026-02-30",
            carry_over: "All",
            max: "50",
        };
        assert_eq!(
            accept(typed, false).unwrap_err(),
            [
                "spec.cashPeriod: `month` is for a root, and holds for its whole tree; remove it here".to_owned(),
                "spec.cashPeriod.every: `month` is unknown; write one of Day, Week, Month, Quarter, Year".to_owned(),
                format!(
                    "spec.cashPeriod.timeZone: `Europe/Berln` is no time zone of the IANA database {}; \
                     write one like Europe/Berlin, Asia/Kolkata or UTC",
                    tz::release()
                ),
                "spec.cashPeriod.anchor: `2026-02-30` is no date from 1970-01-01 to 2199-12-31; \
                 write the first date of any period, like 2026-04-01"
                    .to_owned(),
                "spec.cashPeriod.carryOver: `All` is unknown; write one of None, Unused, Overdraft, Both".to_owned(),
                "spec.cashPeriod.max: `50` is no whole percentage from 1% to 1000%; \
                 write how much of hard may go over, like 50%"
                    .to_owned(),
            ]
        );
        for max in ["0%", "1001%", "-5%", "+5%", "5 %", "%", "99999999999%"] {
            let typed =
                TypedPeriod { every: "Day", carry_over: "Both", max, ..TypedPeriod::default() };
            assert_eq!(accept(typed, true).unwrap_err().len(), 1, "{max}");
        }
        let idle = TypedPeriod { every: "Day", max: "50%", ..TypedPeriod::default() };
        assert!(accept(idle, true).unwrap_err()[0].contains("carryOver says that nothing does"));
        for anchor in ["1969-12-31", "2200-01-01", "2026-1-1", "26-01-01", "+2026-01-01", "today"] {
            let typed = TypedPeriod { every: "Day", anchor, ..TypedPeriod::default() };
            assert_eq!(accept(typed, true).unwrap_err().len(), 1, "{anchor}");
        }
    }
}
