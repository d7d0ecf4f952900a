//! What is watched of one limit: whether it is nearly full, and what no review admitted.

use super::{Look, Said, Subject};
use crate::{
    domain::{
        book::{Book, Mark, Outlay},
        names::{GroupId, KeyId},
    },
    notify::notice::What,
};

/// A limit is nearly full when the group itself uses so many percent of what it leaves beside the children.
const FULL: u16 = 90;
/// Below so many percent that is over: pods come and go.
const FREE: u16 = 80;

pub(super) fn look(
    look: &mut Look<'_>,
    book: &Book,
    (group, key, hard): (GroupId, KeyId, i128),
    subject: Subject<'_>,
) {
    let line = book.line(group, key);
    let given = line.used.saturating_sub(line.self_used);
    let outlay = Outlay { own: line.self_used, given, consumed: 0 };
    let (own, used) = (look.text(key, hard.saturating_sub(given)), look.text(key, line.self_used));
    let said = |look: &Look<'_>, kind, threshold, message| Said {
        kind,
        threshold,
        at: look.now,
        exact: false,
        forecast: None,
        hard: look.text(key, hard),
        of: hard.saturating_sub(given),
        message,
    };
    let Subject { scope, group: name, key: text, .. } = subject;
    let passes = |percent| Mark::Own { percent, hard }.is_passed(&outlay);
    let last = look.last(scope, What::Full).filter(|last| last.stands);
    match last {
        None if passes(FULL) => {
            let message = format!("{name} uses {used} of its own {own} of {text}");
            let said = said(look, "limit.full", Some(FULL), message);
            look.begin(subject, What::Full, said);
        }
        Some(last) if !passes(FREE) => {
            let why = format!("{used} of {own} are used");
            look.end(last, "limit.free".to_owned(), &why);
        }
        _ => {}
    }
    let unreviewed = book.unreviewed(group, key);
    let last = look.last(scope, What::Unreviewed).filter(|last| last.stands);
    match last {
        None if unreviewed > 0 => {
            let amount = look.text(key, unreviewed);
            let message = format!("{name} uses {amount} of {text} that no review admitted");
            let said = said(look, "limit.unreviewed", None, message);
            look.begin(subject, What::Unreviewed, said);
        }
        Some(last) if unreviewed == 0 => {
            look.end(last, "limit.reviewed".to_owned(), "everything is admitted, or gone");
        }
        _ => {}
    }
    look.watched.insert(scope);
    look.lift(scope, |what| matches!(what, What::Full | What::Unreviewed));
}
