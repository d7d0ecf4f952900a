//! `spec.cashPeriod` as it was accepted: when the budgets of a tree begin anew, and what goes over.

use crate::domain::calendar::{BadZone, Calendar, Every, Until, Zone};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// When the budgets of a tree begin anew, and what goes over. Its root says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct CashPeriod {
    /// The periods.
    pub calendar: Calendar,
    /// The name of the zone, for people: what it meant when it was accepted is in the calendar.
    pub time_zone: Box<str>,
    /// What goes over into the next period.
    pub carry_over: CarryOver,
    /// At most so many percent of a group's `hard` go over, either way; `None`: all.
    pub max_percent: Option<u16>,
}

/// What of a budget goes over into the next period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub enum CarryOver {
    /// Nothing.
    #[default]
    None,
    /// What was not used.
    Unused,
    /// What was used beyond it.
    Overdraft,
    /// Either.
    Both,
}

impl CashPeriod {
    /// Whether anything goes over.
    #[must_use]
    pub fn carries(&self) -> bool {
        self.carry_over != CarryOver::None
    }

    /// What goes over of `left` milli-units × milliseconds (below zero: overspent) of a group that lists `hard`.
    #[must_use]
    pub fn carry(&self, hard: i128, left: i128) -> i128 {
        let carry = match self.carry_over {
            CarryOver::None => 0,
            CarryOver::Unused => left.max(0),
            CarryOver::Overdraft => left.min(0),
            CarryOver::Both => left,
        };
        let Some(percent) = self.max_percent else { return carry };
        let most = hard.max(0).saturating_mul(i128::from(percent)).div_euclid(100);
        carry.clamp(most.saturating_neg(), most)
    }
}

/// The same as it is written: a zone in the words of POSIX, and before it what the rule does not say.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
struct Form {
    /// How long a period is.
    every: Every,
    /// The name of the zone in the IANA database.
    time_zone: Box<str>,
    /// The first date of any period.
    #[cfg_attr(feature = "cli", schemars(with = "String"))]
    anchor: NaiveDate,
    /// What goes over.
    carry_over: CarryOver,
    /// At most so many percent of `hard` go over, either way.
    #[serde(default)]
    max_percent: Option<u16>,
    /// Offsets of the zone that the rule does not say, in order of time.
    #[serde(default)]
    changes: Vec<Until>,
    /// After them: the zone's offsets, as a TZ rule of POSIX.
    rule: Box<str>,
}

impl TryFrom<Form> for CashPeriod {
    type Error = BadZone;

    fn try_from(form: Form) -> Result<Self, BadZone> {
        let Form { every, time_zone, anchor, carry_over, max_percent, changes, rule } = form;
        let calendar = Calendar { every, anchor, zone: Zone::new(changes, &rule)? };
        Ok(Self { calendar, time_zone, carry_over, max_percent })
    }
}

impl From<CashPeriod> for Form {
    fn from(period: CashPeriod) -> Self {
        let CashPeriod { calendar, time_zone, carry_over, max_percent } = period;
        let (changes, rule) = (calendar.zone.changes().to_vec(), calendar.zone.rule().into());
        let Calendar { every, anchor, .. } = calendar;
        Self { every, time_zone, anchor, carry_over, max_percent, changes, rule }
    }
}

#[cfg(feature = "cli")]
impl schemars::JsonSchema for CashPeriod {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CashPeriod".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Form::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(carry_over: CarryOver, max_percent: Option<u16>) -> CashPeriod {
        let zone = Zone::new(Vec::new(), "UTC0").unwrap();
        let anchor = NaiveDate::default();
        let calendar = Calendar { every: Every::Month, anchor, zone };
        CashPeriod { calendar, time_zone: "UTC".into(), carry_over, max_percent }
    }

    #[test]
    fn what_goes_over_has_its_direction_and_its_bound() {
        let all =
            |carry_over, most| [300, 0, -300].map(|left| period(carry_over, most).carry(400, left));
        assert_eq!(all(CarryOver::None, None), [0, 0, 0]);
        assert_eq!(all(CarryOver::Unused, None), [300, 0, 0]);
        assert_eq!(all(CarryOver::Overdraft, None), [0, 0, -300]);
        assert_eq!(all(CarryOver::Both, None), [300, 0, -300]);
        assert_eq!(all(CarryOver::Both, Some(50)), [200, 0, -200]);
        let huge = period(CarryOver::Both, Some(1000)).carry(i128::MAX, i128::MIN);
        assert!(huge < 0, "nothing wraps");
    }

    /// Bytes as they stand in logs: they must be read for ever.
    #[test]
    fn a_period_is_read_and_written_as_it_was() {
        let text = r#"{"every":"Quarter","timeZone":"Africa/Casablanca","anchor":"2024-01-31","carryOver":"Both","maxPercent":50,"changes":[{"until":"2026-09-20T01:00:00.000Z","offset":3600}],"rule":"<+00>0"}"#;
        let period: CashPeriod = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&period).unwrap(), text);
        let short = r#"{"every":"Day","timeZone":"UTC","anchor":"2024-01-01","carryOver":"None","rule":"UTC0"}"#;
        let period: CashPeriod = serde_json::from_str(short).unwrap();
        assert_eq!((period.max_percent, period.calendar.zone.changes().len()), (None, 0));
        let wrong = serde_json::from_str::<CashPeriod>(&short.replace("UTC0", "Europe/Berlin"));
        assert!(wrong.unwrap_err().to_string().contains("is no POSIX TZ rule"));
    }
}
