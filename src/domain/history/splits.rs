//! Where hours are kept in two parts: a date begins inside them at a place that is not whole hours from UTC.
//!
//! ```text
//!  hour   18:00 ├──────────────┼──────────────┤ 19:00      18:30 in UTC is midnight in Kolkata
//!                 first part    │ begins anew
//! ```
//!
//! Budgets begin anew where a date begins, so whatever a calendar's anchor and length, its boundaries are among these.
//! A place is known from the first declaration on that names it. Of the hours before it those are split, too, all of
//! whose pods are still remembered then; a boundary that lies farther back counts at its hour's end, for ever.

use super::Unit;
use crate::domain::{
    calendar::{BadZone, Calendar, Every, Span, Until, Zone},
    time::Timestamp,
};
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

/// The places. There are some twenty in the world, so they are looked at one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Splits {
    places: Vec<Place>,
}

/// One of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub(in crate::domain) struct Place {
    dates: Calendar,
    /// Hours from this one on are kept in parts.
    from: Timestamp,
    /// The date that was asked for last: the next question is mostly about the same.
    date: Span,
}

/// A place as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Form {
    changes: Vec<Until>,
    rule: Box<str>,
    from: Timestamp,
}

impl Splits {
    /// `zone` as a place to be kept from the hour `from` on; `None` if it is kept already, or all its dates begin on
    /// whole hours.
    pub(in crate::domain) fn news(&self, zone: &Zone, from: Timestamp) -> Option<Place> {
        let is_known = self.places.iter().any(|place| place.dates.zone == *zone);
        (!is_known && !zone.keeps_hours()).then(|| Place::new(zone.clone(), from))
    }

    /// Keeps `place`; what is entered from now on is entered there, too.
    pub(in crate::domain) fn keep(&mut self, place: Place) {
        self.places.push(place);
    }

    /// The ends of parts behind `at` in its hour, each once: what is entered at `at` counts before them.
    pub(in crate::domain) fn after(&mut self, at: Timestamp) -> Vec<Timestamp> {
        let mut ends = Vec::new();
        for place in &mut self.places {
            place.each_end(at, |end| {
                if !ends.contains(&end) {
                    ends.push(end);
                }
            });
        }
        ends
    }

    /// Whether any part ends behind `at` in its hour.
    pub(in crate::domain) fn has_after(&mut self, at: Timestamp) -> bool {
        self.places.iter_mut().any(|place| {
            let mut any = false;
            place.each_end(at, |_| any = true);
            any
        })
    }

    /// Whether the parts of the hour of `at` that meet at `at` are kept; `None` where none meet.
    pub(in crate::domain) fn is_kept(&self, at: Timestamp) -> Option<bool> {
        let here = self.places.iter().filter(|place| place.is_end(at));
        here.map(|place| place.from <= at).reduce(|one, other| one || other)
    }
}

impl Place {
    fn new(zone: Zone, from: Timestamp) -> Self {
        let dates = Calendar { every: Every::Day, anchor: NaiveDate::default(), zone };
        let date = dates.span(from);
        Self { dates, from, date }
    }

    /// Calls `each` with the beginnings of dates behind `at` in its hour.
    pub(in crate::domain) fn each_end(&mut self, at: Timestamp, mut each: impl FnMut(Timestamp)) {
        if at < self.from {
            return;
        }
        if !self.date.contains(at) {
            self.date = self.dates.span(at);
        }
        let (hour, mut date) = (Unit::Hour.end_of(at), self.date);
        while date.to < hour {
            each(date.to);
            date = self.dates.numbered(date.number.saturating_add(1));
        }
    }

    fn is_end(&self, at: Timestamp) -> bool {
        let Span { from, to, .. } = self.date;
        at == from || at == to || (!self.date.contains(at) && self.dates.span(at).from == at)
    }
}

/// The same place; what was asked last is no matter.
impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        (&self.dates, self.from) == (&other.dates, other.from)
    }
}

impl Eq for Place {}

impl TryFrom<Form> for Place {
    type Error = BadZone;

    fn try_from(Form { changes, rule, from }: Form) -> Result<Self, BadZone> {
        Ok(Self::new(Zone::new(changes, &rule)?, from))
    }
}

impl From<Place> for Form {
    fn from(Place { dates, from, .. }: Place) -> Self {
        Self { changes: dates.zone.changes().to_vec(), rule: dates.zone.rule().into(), from }
    }
}
