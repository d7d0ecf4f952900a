//! Which statuses are to be written: those that differ from what is shown. Of one that changes again before its turn
//! only the newest is written.

use super::Statuses;
use crate::k8s::crd::BizGroupResourceQuotaStatus;
use std::collections::BTreeMap;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// What the API server has, as far as is known.
    shown: Statuses,
    waiting: Statuses,
    /// Whether what grows all the time is written, too.
    refresh: bool,
}

impl Waiting {
    /// What the API server has now.
    pub(super) fn found(&mut self, found: Statuses) {
        self.shown = found;
        self.refresh = true;
    }

    /// What is shown.
    pub(super) const fn shown(&self) -> &Statuses {
        &self.shown
    }

    /// What is to be shown; gives how many that waited will never be written.
    pub(super) fn want(&mut self, wanted: Statuses) -> u64 {
        let refresh = std::mem::take(&mut self.refresh);
        let mut superseded = 0;
        let before = std::mem::take(&mut self.waiting);
        for (name, status) in wanted {
            let waited = before.get(&name);
            let is_shown = self.shown.get(&name).is_some_and(|shown| {
                let same = if refresh { numbers } else { essence };
                same(shown) == same(&status)
            });
            if waited.is_none() && is_shown {
                continue;
            }
            superseded += u64::from(waited.is_some_and(|w| essence(w) != essence(&status)));
            self.waiting.insert(name, status);
        }
        superseded
    }

    /// The next to be written.
    pub(super) fn next(&mut self) -> Option<(String, BizGroupResourceQuotaStatus)> {
        self.waiting.pop_first()
    }

    /// It was written.
    pub(super) fn applied(&mut self, name: String, status: BizGroupResourceQuotaStatus) {
        self.shown.insert(name, status);
    }
}

/// A status without when it was written, and by what.
fn numbers(status: &BizGroupResourceQuotaStatus) -> BizGroupResourceQuotaStatus {
    BizGroupResourceQuotaStatus { last_reconcile_time: None, position: 0, ..status.clone() }
}

/// And without what grows while pods run.
fn essence(status: &BizGroupResourceQuotaStatus) -> BizGroupResourceQuotaStatus {
    let lasting = |amounts: &BTreeMap<String, String>| {
        let of = amounts.iter().filter(|(key, _)| !key.starts_with("cash/"));
        of.map(|(key, amount)| (key.clone(), amount.clone())).collect()
    };
    let mut status = numbers(status);
    status.used = lasting(&status.used);
    status.self_used = lasting(&status.self_used);
    status.consumed.clear();
    status.summary.cash_left.clear();
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(used: &str, consumed: &str, position: u64) -> BizGroupResourceQuotaStatus {
        BizGroupResourceQuotaStatus {
            used: [("limits.cpu".into(), used.into()), ("cash/limits.cpu".into(), consumed.into())]
                .into(),
            consumed: [("cash/limits.cpu".into(), consumed.into())].into(),
            last_reconcile_time: Some(position.to_string()),
            position,
            ..BizGroupResourceQuotaStatus::default()
        }
    }

    fn one(status: BizGroupResourceQuotaStatus) -> Statuses {
        [("team".to_owned(), status)].into()
    }

    #[test]
    fn what_is_shown_already_is_not_written_again_and_hours_only_now_and_then() {
        let mut waiting = Waiting::default();
        waiting.found(one(status("4", "10", 7)));
        // wanted, listed anew before it, whether it is written
        let cases = [
            (status("4", "10", 8), false, false),
            (status("4", "11", 9), false, false),
            (status("4", "12", 10), true, true),
            (status("5", "12", 11), false, true),
            (status("5", "12", 12), true, false),
        ];
        waiting.refresh = false;
        for (wanted, listed, written) in cases {
            if listed {
                waiting.found(waiting.shown.clone());
            }
            assert_eq!(waiting.want(one(wanted.clone())), 0);
            let next = waiting.next();
            assert_eq!(next.is_some(), written, "{wanted:?}");
            if let Some((name, status)) = next {
                waiting.applied(name, status);
            }
        }
    }

    #[test]
    fn of_what_changes_before_its_turn_only_the_newest_is_written() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.want(one(status("1", "0", 1))), 0);
        assert_eq!(waiting.want(one(status("2", "0", 2))), 1);
        assert_eq!(waiting.want(one(status("2", "1", 3))), 0);
        assert_eq!(waiting.next().unwrap().1, status("2", "1", 3));
        assert_eq!(waiting.next(), None);
        // What could not be written is wanted again at the next look.
        assert_eq!(waiting.want(one(status("2", "1", 3))), 0);
        assert!(waiting.next().is_some());
    }

    #[test]
    fn what_is_wanted_no_more_is_not_written() {
        let mut waiting = Waiting::default();
        waiting.want(one(status("1", "0", 1)));
        waiting.want(Statuses::new());
        assert_eq!(waiting.next(), None);
    }
}
