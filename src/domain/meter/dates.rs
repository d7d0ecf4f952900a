//! Hours in which a date begins somewhere: what was entered before the place was known, entered into their parts.

use super::Meter;
use crate::domain::{
    amounts::{Overflow, product},
    calendar::Zone,
    history::Unit,
    names::{GroupId, KeyId},
    time::Timestamp,
};
use std::collections::BTreeMap;

impl Meter {
    /// From now on usage is exact for ever where a date begins at `zone`: in hours that begin after the end of any
    /// pod that was already forgotten.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn keep_dates(&mut self, zone: &Zone) -> Result<(), Overflow> {
        let from = self.forgotten_until.map_or(Timestamp::MIN, |until| Unit::Hour.end_of(until));
        let Some(mut place) = self.splits.news(zone, from) else { return Ok(()) };
        let mut parts = BTreeMap::<(GroupId, Timestamp), BTreeMap<KeyId, i128>>::new();
        let (mut sum, splits) = (Ok(()), &self.splits);
        let mut enter = |group, key, at, exact: &dyn Fn(i64) -> Option<i128>| {
            place.each_end(at, |end| {
                if splits.is_kept(end) == Some(true) {
                    return;
                }
                let part = parts.entry((group, end)).or_default().entry(key).or_default();
                match exact(end.since(at)).and_then(|exact| part.checked_add(exact)) {
                    Some(more) => *part = more,
                    None => sum = Err(Overflow),
                }
            });
        };
        self.each_segment(Timestamp::MAX, |_, group, measure, segment| {
            for (key, milli) in measure.usage.iter() {
                enter(group, key, segment.from, &|rest| product(milli, rest));
                if let Some(to) = segment.to {
                    enter(group, key, to, &|rest| product(milli.checked_neg()?, rest));
                }
            }
        });
        for a in self.adjusted.as_slice() {
            enter(a.group, a.key, a.at, &|_| Some(a.exact));
        }
        sum?;
        for ((group, end), keys) in parts {
            let Some(sums) = self.groups.get_mut(group.index()) else { continue };
            let slots: Vec<_> =
                keys.into_iter().map(|(key, exact)| (sums.slot(key), exact)).collect();
            // Of a part that nothing was entered into, there is no row.
            sums.history_mut().map_or(Ok(()), |history| history.split(end, &slots))?;
        }
        self.splits.keep(place);
        Ok(())
    }
}
