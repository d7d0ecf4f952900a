//! Whether quota objects fit their tree: declared one after another in a book, as the log would have it.

use super::file::{Fault, QuotaObject};
use crate::domain::{
    admission::{Reason, Refusal},
    event::{Data, Event, Kind, QuotaDeclared},
    ident::Parts,
    ledger::{Ledger, Stop},
    merkle::Hash,
    text::Text,
    time::Timestamp,
};
use std::collections::HashMap;

/// The event that declares an object where no API server does.
///
/// Its id holds the generation: of an object without versions nothing else tells one declaration from the next.
pub(in crate::cli) fn event(
    object: &QuotaObject,
    generation: i64,
    source: &str,
    time: Timestamp,
) -> Event<'static> {
    let uid = crate::domain::quota::uid_of(&object.name);
    let parts = Parts::of(Kind::QuotaDeclared).text(source).text(&uid);
    let id = parts.bytes(&generation.to_be_bytes()).id();
    let data = QuotaDeclared {
        uid: Text::from(uid),
        resource_version: Text::EMPTY,
        generation,
        spec: object.spec.clone(),
    };
    Event {
        id,
        source: Text::from(source.to_owned()),
        subject: Text::from(format!("quotas/{}", object.name)),
        time,
        recorded_at: time,
        data: Data::QuotaDeclared(data),
    }
}

/// How deep each object lies below the topmost of `objects`, and which lie on a circle of parents.
///
/// Each object is walked once, however long the chains are.
struct Shape {
    depth: Vec<usize>,
    on_circle: Vec<bool>,
    /// By object the topmost above it, or one on the circle that it leads to.
    top: Vec<usize>,
}

impl Shape {
    fn of(parents: &[Option<usize>]) -> Self {
        let mut depth: Vec<Option<usize>> = vec![None; parents.len()];
        let mut on_circle = vec![false; parents.len()];
        let mut walk = vec![usize::MAX; parents.len()];
        let mut top: Vec<usize> = (0..parents.len()).collect();
        for start in 0..parents.len() {
            let (mut path, mut at) = (Vec::new(), Some(start));
            while let Some(i) = at.filter(|i| depth[*i].is_none() && walk[*i] != start) {
                walk[i] = start;
                path.push(i);
                at = parents[i];
            }
            // Where the walk ended: above everything, at what was walked before, or on its own path.
            let closes = at.filter(|i| depth[*i].is_none());
            if let Some(first) = closes.and_then(|i| path.iter().position(|p| *p == i)) {
                path.iter().skip(first).for_each(|i| on_circle[*i] = true);
            }
            let above = at.and_then(|i| depth[i]).map_or(0, |depth| depth.saturating_add(1));
            let highest = at.map_or_else(|| path.last().copied().unwrap_or(start), |i| top[i]);
            path.iter().for_each(|i| top[*i] = highest);
            let mut next = above;
            for i in path.iter().rev() {
                // On a circle nothing is above anything: its groups keep their order.
                depth[*i] = Some(if on_circle[*i] { 0 } else { next });
                next = depth[*i].map_or(0, |depth| depth.saturating_add(1));
            }
        }
        let depth = depth.into_iter().map(Option::unwrap_or_default).collect();
        Self { depth, on_circle, top }
    }
}

/// By number of object the number of its parent, if that is one of `objects`.
fn parents(objects: &[&QuotaObject]) -> Vec<Option<usize>> {
    let numbers: HashMap<&str, usize> =
        objects.iter().enumerate().map(|(i, o)| (&*o.name, i)).collect();
    objects.iter().map(|o| numbers.get(&*o.spec.parent).copied()).collect()
}

/// `objects` with parents before their children, and trees that begin with a root before what hangs from something
/// else; otherwise in their order.
///
/// What waits for a parent is judged again after each declaration, so it had better come last.
pub(crate) fn parents_first(objects: Vec<QuotaObject>) -> Vec<QuotaObject> {
    let parents = parents(&objects.iter().collect::<Vec<_>>());
    let Shape { depth, top, .. } = Shape::of(&parents);
    let hangs = |i: usize| objects.get(i).is_some_and(|o| !o.spec.parent.is_empty());
    let order: Vec<_> = top.into_iter().map(hangs).zip(depth).collect();
    let mut objects: Vec<_> = order.into_iter().zip(objects).collect();
    objects.sort_by_key(|(order, _)| *order);
    objects.into_iter().map(|(_, object)| object).collect()
}

/// Applies `events`, which declare some of `objects`, and says which of all of them are not in force then, and
/// why.
///
/// # Errors
/// [`Stop`]: the ledger's positions have run out.
pub(in crate::cli) fn declare(
    ledger: &mut Ledger,
    objects: &[QuotaObject],
    events: &[Event<'_>],
) -> Result<Vec<Fault>, Stop> {
    let mut faults = Vec::new();
    for event in events {
        let quarantined = ledger.quarantined().len();
        ledger.apply(ledger.position().saturating_add(1), Hash::default(), event)?;
        for told in ledger.quarantined().iter().skip(quarantined) {
            let declared =
                |o: &&QuotaObject| event.subject.strip_prefix("quotas/") == Some(&o.name);
            let why = format!("spec.hard: {}", told.reason);
            let object = objects.iter().find(declared);
            faults.extend(object.map(|o| fault(o, Reason::InvalidQuantity.name(), why)));
        }
    }
    faults.extend(unfit(ledger, objects));
    Ok(faults)
}

/// Which of `objects` are not in force, and why.
pub(in crate::cli) fn unfit(ledger: &Ledger, objects: &[QuotaObject]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let (names, Some(book)) = (ledger.names(), ledger.book()) else { return faults };
    let all: Vec<_> = objects.iter().collect();
    let parents = parents(&all);
    let on_circle = Shape::of(&parents).on_circle;
    for (i, object) in all.iter().enumerate() {
        let Some(group) = names.known_group(&object.name) else { continue };
        let Some(invalid) = book.invalid(group) else { continue };
        // A circle in a file is never closed in the book: each of its groups waits for its parent.
        let (reason, why) = if on_circle.get(i) == Some(&true) {
            (Reason::Cycle, circle(&all, &parents, i))
        } else {
            let refusal = Refusal::fault(names, group, &invalid.fault);
            (refusal.reason, refusal.message)
        };
        faults.push(fault(object, reason.name(), why));
    }
    faults
}

fn fault(object: &QuotaObject, reason: &'static str, why: String) -> Fault {
    Fault { place: object.place.clone(), group: object.name.clone(), reason, why }
}

/// What is said of a group on a circle, with the circle, or its beginning.
fn circle(all: &[&QuotaObject], parents: &[Option<usize>], start: usize) -> String {
    let next = |i: &usize| parents.get(*i).copied().flatten();
    let name = |i: usize| all.get(i).map_or("", |o| &*o.name);
    let round = std::iter::successors(next(&start), next).take_while(|i| *i != start);
    let mut path: Vec<_> = std::iter::once(start).chain(round).map(name).take(9).collect();
    if path.len() == 9 {
        path.push("…");
    }
    path.push(name(start));
    let path = path.join(" → ");
    format!("spec.parent: {path} is a circle; name a parent that is not below the group")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::quota::TypedSpec;

    fn object(name: &str, parent: &str, hard: &[(&str, &str)]) -> QuotaObject {
        let typed = TypedSpec { parent, hard: hard.to_vec(), ..TypedSpec::default() };
        let spec = typed.accept(name).unwrap();
        QuotaObject { name: name.to_owned(), spec, place: format!("{name}.yaml:1") }
    }

    fn told(objects: Vec<QuotaObject>) -> Vec<String> {
        let objects = parents_first(objects);
        let events: Vec<_> = objects.iter().map(|o| event(o, 1, "/t", Timestamp::MIN)).collect();
        let faults = declare(&mut Ledger::default(), &objects, &events).unwrap();
        faults.iter().map(|f| format!("{}: {}: {}", f.group, f.reason, f.why)).collect()
    }

    #[test]
    fn a_tree_that_fits_is_fine_in_any_order() {
        let cpu = |amount| [("limits.cpu", amount)];
        let tree = vec![
            object("team-a", "dept", &cpu("4")),
            object("team-b", "dept", &cpu("6")),
            object("dept", "org", &cpu("10")),
            object("org", "", &cpu("10")),
            object("team-c", "dept", &[]),
        ];
        assert_eq!(told(tree), [""; 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let cpu = |amount| [("limits.cpu", amount)];
        for (objects, reason, group) in [
            (vec![object("a", "nobody", &[])], "ParentNotFound", "a"),
            (vec![object("a", "a", &[])], "Cycle", "a"),
            (vec![object("a", "b", &[]), object("b", "a", &[])], "Cycle", "a"),
            (vec![object("o", "", &[]), object("a", "o", &cpu("1"))], "KeyNotInParent", "a"),
            (
                vec![
                    object("o", "", &cpu("4")),
                    object("a", "o", &cpu("3")),
                    object("b", "o", &cpu("2")),
                ],
                "ParentExceeded",
                "b",
            ),
        ] {
            let told = told(objects);
            assert!(told[0].starts_with(&format!("{group}: {reason}: ")), "{told:#?}");
        }
    }

    #[test]
    fn roots_and_their_trees_come_before_what_waits() {
        let names = |objects: Vec<QuotaObject>| {
            parents_first(objects).into_iter().map(|o| o.name).collect::<Vec<_>>().join(" ")
        };
        let tree = [
            ("c", "b"),
            ("x", "nobody"),
            ("b", "a"),
            ("p", "q"),
            ("q", "p"),
            ("a", ""),
            ("y", "x"),
        ];
        let tree = tree.map(|(name, parent)| object(name, parent, &[])).to_vec();
        assert_eq!(names(tree), "a b c x p q y");
    }

    #[test]
    fn below_a_circle_the_parent_is_what_is_missing() {
        let tree = vec![object("a", "b", &[]), object("b", "a", &[]), object("c", "b", &[])];
        let told = told(tree);
        assert_eq!(told.len(), 3);
        assert!(told[0].contains("a → b → a"), "{told:#?}");
        let long: Vec<_> = (0..20_000)
            .map(|i| object(&format!("g{i}"), &format!("g{}", (i + 1) % 20_000), &[]))
            .collect();
        let shape = Shape::of(&parents(&long.iter().collect::<Vec<_>>()));
        assert!(shape.on_circle.iter().all(|on| *on));
        assert!(told[2].starts_with("c: ParentNotFound"), "{told:#?}");
    }
}
