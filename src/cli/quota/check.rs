//! Whether quota objects fit their tree: declared one after another in a book, as the log would have it.

use super::file::{Fault, QuotaObject};
use crate::domain::{
    admission::{Reason, Refusal},
    book::{Book, Spend, Stamp},
    event::QuotaDeclared,
    names::{GroupId, KeyId, Names},
    text::Text,
    time::Timestamp,
};
use std::collections::HashMap;

/// Nobody has spent anything: quotas without a history.
pub(super) struct NoSpend;

impl Spend for NoSpend {
    fn spent(&self, _: GroupId, _: KeyId, _: Timestamp) -> i128 {
        0
    }

    fn has_spent(&self, _: GroupId, _: Timestamp) -> bool {
        false
    }
}

/// The uid of an object that no API server has given one (contract §4): a hash of its name.
pub(super) fn uid(name: &str) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    hash.chars().take(32).collect()
}

/// What `quota apply` says of an object.
pub(super) fn declaration(object: &QuotaObject, generation: i64) -> QuotaDeclared<'static> {
    QuotaDeclared {
        uid: Text::from(uid(&object.name)),
        resource_version: Text::EMPTY,
        generation,
        spec: object.spec.clone(),
    }
}

/// How deep each object lies below the topmost of `objects`, and which lie on a circle of parents.
///
/// Each object is walked once, however long the chains are.
struct Shape {
    depth: Vec<usize>,
    on_circle: Vec<bool>,
}

impl Shape {
    fn of(parents: &[Option<usize>]) -> Self {
        let mut depth: Vec<Option<usize>> = vec![None; parents.len()];
        let mut on_circle = vec![false; parents.len()];
        let mut walk = vec![usize::MAX; parents.len()];
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
            let mut next = above;
            for i in path.iter().rev() {
                // On a circle nothing is above anything: its groups keep their order.
                depth[*i] = Some(if on_circle[*i] { 0 } else { next });
                next = depth[*i].map_or(0, |depth| depth.saturating_add(1));
            }
        }
        Self { depth: depth.into_iter().map(Option::unwrap_or_default).collect(), on_circle }
    }
}

/// By number of object the number of its parent, if that is one of `objects`.
fn parents(objects: &[&QuotaObject]) -> Vec<Option<usize>> {
    let numbers: HashMap<&str, usize> =
        objects.iter().enumerate().map(|(i, o)| (&*o.name, i)).collect();
    objects.iter().map(|o| numbers.get(&*o.spec.parent).copied()).collect()
}

/// `objects` with parents before their children, otherwise in their order.
pub(super) fn parents_first(objects: Vec<QuotaObject>) -> Vec<QuotaObject> {
    let parents = parents(&objects.iter().collect::<Vec<_>>());
    let depths = Shape::of(&parents).depth;
    let mut objects: Vec<_> = depths.into_iter().zip(objects).collect();
    objects.sort_by_key(|(depth, _)| *depth);
    objects.into_iter().map(|(_, object)| object).collect()
}

/// Declares `objects` and says which of them would not be in force, and why.
///
/// `generations` are those of the objects, in their order; the time is the declarations'.
pub(super) fn declare(
    book: &mut Book,
    names: &mut Names,
    spend: &impl Spend,
    objects: &[(QuotaObject, i64)],
    time: Timestamp,
) -> Vec<Fault> {
    let stamp = Stamp { time, ..Stamp::default() };
    let mut faults = Vec::new();
    for (object, generation) in objects {
        let group = names.group(&object.name);
        let fact = declaration(object, *generation);
        if let Err(e) = book.quota_declared(names, stamp, group, &fact, spend) {
            faults.push(fault(object, Reason::InvalidQuantity.name(), format!("spec.hard: {e}")));
        }
    }
    let all: Vec<_> = objects.iter().map(|(object, _)| object).collect();
    let parents = parents(&all);
    let on_circle = Shape::of(&parents).on_circle;
    for (i, object) in all.iter().enumerate() {
        let group = names.group(&object.name);
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
        let objects: Vec<_> = parents_first(objects).into_iter().map(|o| (o, 1)).collect();
        let (mut book, mut names) = (Book::default(), Names::default());
        let faults = declare(&mut book, &mut names, &NoSpend, &objects, Timestamp::MIN);
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
