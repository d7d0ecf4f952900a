//! Mirrors: copies of the quota objects that count, in clusters whose own do not. What a mirror must say follows from the
//! ledger alone, so whoever reviews one need not know who writes it.

use super::crd::{Amount, BizGroupResourceQuotaSpec, CashPeriod};
use crate::domain::{
    admission::amount,
    book::Book,
    calendar::Every,
    event::{self, CarryOver, Charge, ModelPolicy},
    ledger::Ledger,
    names::{GroupId, Names},
};
use std::collections::BTreeMap;

/// The label of a mirror. Its value is the cluster whose object it is a copy of.
pub const MIRROR_OF: &str = "bizrq.io/mirror-of";

/// What the mirrors of all groups say of which a quota object is in force, by name.
#[must_use]
pub fn specs(ledger: &Ledger) -> BTreeMap<String, BizGroupResourceQuotaSpec> {
    let Some(book) = ledger.book() else { return BTreeMap::new() };
    let names = ledger.names();
    let specs = book.accounts().filter_map(|group| {
        Some((names.group_name(group).to_owned(), of_group(book, names, group)?))
    });
    specs.collect()
}

/// What the mirror of a group says; `None`: no quota object of it is in force.
#[must_use]
pub fn spec(ledger: &Ledger, group: &str) -> Option<BizGroupResourceQuotaSpec> {
    let names = ledger.names();
    of_group(ledger.book()?, names, names.known_group(group)?)
}

/// Whether two specifications of the object `name` mean the same, however they are written.
#[must_use]
pub fn same(name: &str, a: &BizGroupResourceQuotaSpec, b: &BizGroupResourceQuotaSpec) -> bool {
    let meant = |spec: &BizGroupResourceQuotaSpec| spec.typed().accept(name).ok();
    a == b || meant(a).is_some_and(|a| meant(b) == Some(a))
}

fn of_group(book: &Book, names: &Names, group: GroupId) -> Option<BizGroupResourceQuotaSpec> {
    let spec = &book.declaration(group)?.spec;
    let amounts = spec
        .hard
        .iter()
        .map(|(key, milli)| (names.key_name(*key).to_owned(), Amount(amount(names, *key, *milli))));
    let percentages = |told: &Option<Vec<u16>>| {
        told.as_ref().map(|told| told.iter().map(|percent| i64::from(*percent)).collect())
    };
    Some(BizGroupResourceQuotaSpec {
        parent: spec.parent.map(|parent| names.group_name(parent).to_owned()).unwrap_or_default(),
        hard: amounts.collect(),
        charge: match spec.charge {
            Charge::Steady => "Steady",
            Charge::Peak => "Peak",
        }
        .to_owned(),
        models: match spec.models {
            ModelPolicy::Declared => "Declared",
            ModelPolicy::Required => "Required",
        }
        .to_owned(),
        notify_cash: percentages(&spec.notify_cash),
        notify_consumed: percentages(&spec.notify_consumed),
        cash_period: spec.cash_period.as_deref().map(period),
    })
}

fn period(period: &event::CashPeriod) -> CashPeriod {
    CashPeriod {
        every: match period.calendar.every {
            Every::Day => "Day",
            Every::Week => "Week",
            Every::Month => "Month",
            Every::Quarter => "Quarter",
            Every::Year => "Year",
        }
        .to_owned(),
        time_zone: period.time_zone.to_string(),
        anchor: period.calendar.anchor.to_string(),
        carry_over: match period.carry_over {
            CarryOver::None => "None",
            CarryOver::Unused => "Unused",
            CarryOver::Overdraft => "Overdraft",
            CarryOver::Both => "Both",
        }
        .to_owned(),
        max: period.max_percent.map(|percent| format!("{percent}%")).unwrap_or_default(),
    }
}
