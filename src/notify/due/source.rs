//! What is watched of the log itself and of the clusters that it is told of.

use super::{Look, Said, Subject};
use crate::{
    domain::time::Timestamp,
    notify::notice::{Scope, What},
};

/// Heartbeats come every five minutes: three that are missing are told.
const SILENCE: i64 = 15 * 60_000;

pub(super) fn look(look: &mut Look<'_>, stopped: Option<&str>) {
    clusters(look);
    let subject = Subject { scope: Scope::of(&["log"]), group: "", key: "", declared: None };
    quarantined(look, subject);
    let last = look.last(subject.scope, What::Stopped).filter(|last| last.stands);
    match (stopped, last) {
        (Some(why), None) => {
            let said = said(look.now, "fold.stopped", 0, format!("nothing more is folded: {why}"));
            look.begin(subject, What::Stopped, said);
        }
        (None, Some(last)) => look.end(last, "fold.resumed".to_owned(), "the fold goes on"),
        _ => {}
    }
    look.watched.insert(subject.scope);
}

/// Told at the first, and again when there are twice as many.
fn quarantined(look: &mut Look<'_>, subject: Subject<'_>) {
    let all = look.ledger.quarantined();
    let Some(newest) = all.last() else { return };
    let count = i128::try_from(all.len()).unwrap_or(i128::MAX);
    let last = look.last(subject.scope, What::Quarantine);
    let before = last.and_then(|last| last.of.parse::<i128>().ok()).unwrap_or(0);
    if before == 0 || count >= before.saturating_mul(2) {
        let message = format!(
            "{count} records were not taken; the newest is at position {}: {}",
            newest.position, newest.reason
        );
        let said = said(look.now, "records.quarantined", count, message);
        look.begin(subject, What::Quarantine, said);
    }
}

fn clusters(look: &mut Look<'_>) {
    for (source, cluster) in look.ledger.clusters() {
        let name = source.strip_prefix("/clusters/").unwrap_or(source);
        let Some(synced) = cluster.synced.filter(|_| cluster.bound.is_some()) else { continue };
        let scope = Scope::of(&["cluster", name]);
        let subject = Subject { scope, group: "", key: name, declared: None };
        let last = look.last(scope, What::Silent).filter(|last| last.stands);
        let silent = synced.shifted(SILENCE);
        let is_silent = silent <= look.now && cluster.retired.is_none();
        match last {
            None if is_silent => {
                let message =
                    format!("cluster {name} is not observed: its last sign is of {synced}");
                let said =
                    Said { at: silent, exact: true, ..said(silent, "source.silent", 0, message) };
                look.begin(subject, What::Silent, said);
            }
            Some(last) if !is_silent && last.at < silent => {
                look.end(last, "source.heard".to_owned(), &format!("a sign of {synced}"));
            }
            Some(last) if cluster.retired.is_some() => {
                look.end(last, "source.lifted".to_owned(), "it was retired");
            }
            _ => {}
        }
        if !is_silent && cluster.retired.is_none() {
            look.again(silent);
        }
        look.watched.insert(scope);
    }
}

fn said(at: Timestamp, kind: &'static str, of: i128, message: String) -> Said {
    let (threshold, exact, forecast, hard) = (None, false, None, String::new());
    Said { kind, threshold, at, exact, forecast, hard, of, message }
}
