//! What runs on models that it was not admitted for: a node has another one than the workload declares, or than it was
//! to have.
//!
//! What no review admitted of a key with a model (`limits.cpu.A30`), although reviews admitted it of the key without
//! one: the cores were asked for, these cores were not. What nobody reviewed at all is `limit.unreviewed`.

use super::{Look, Said, Subject};
use crate::{
    domain::{
        book::{Book, Declaration},
        names::{GroupId, KeyId},
        quota::Known,
    },
    notify::notice::{Scope, What},
};
use std::collections::BTreeMap;

/// Which keys have a model, and the same keys without it; each is split once a look.
#[derive(Debug)]
pub(super) struct Models {
    known: Known,
    generic: BTreeMap<KeyId, Option<KeyId>>,
}

impl Models {
    pub(super) const fn new(known: Known) -> Self {
        Self { known, generic: BTreeMap::new() }
    }
}

/// Looks at what `group` itself is charged, if it or a group above it limits models of the same key.
pub(super) fn look(look: &mut Look<'_>, book: &Book, group: GroupId, declared: &Declaration) {
    for key in book.keys(group) {
        let Some(generic) = generic(look, *key) else { continue };
        let unreviewed = |key| book.line(group, key).self_unreviewed;
        let strays = unreviewed(*key).saturating_sub(unreviewed(generic));
        let counts = strays > 0 && limits_models(look, book, group, generic);
        let strays = if counts { strays } else { 0 };
        let names = look.ledger.names();
        let (name, text) = (names.group_name(group), names.key_name(*key));
        let scope = Scope::of(&["model", &declared.uid.to_string(), text]);
        let subject = Subject { scope, group: name, key: text, declared: Some(declared) };
        let last = look.last(scope, What::Model).filter(|last| last.stands);
        match last {
            None if strays > 0 => {
                let amount = look.text(*key, strays);
                let message = format!(
                    "{name} uses {amount} of {text} that was admitted for another model, or for none"
                );
                let said = Said {
                    kind: "model.mismatch",
                    threshold: None,
                    at: look.now,
                    exact: false,
                    forecast: None,
                    hard: book
                        .line(group, *key)
                        .limit
                        .map_or_else(String::new, |hard| look.text(*key, hard)),
                    of: strays,
                    message,
                };
                look.begin(subject, What::Model, said);
            }
            Some(last) if strays == 0 => {
                look.end(last, "model.matched".to_owned(), "it was admitted, or is gone");
            }
            _ => {}
        }
        look.watched.insert(scope);
    }
}

/// Whether `group` or one above it limits any model of `generic`.
fn limits_models(look: &mut Look<'_>, book: &Book, group: GroupId, generic: KeyId) -> bool {
    let mut of_model = |key: KeyId| self::generic(look, key) == Some(generic);
    book.above(group).into_iter().any(|above| {
        let hard =
            book.declaration(above).into_iter().flat_map(|declared| declared.spec.hard.iter());
        hard.into_iter().any(|(key, _)| of_model(*key))
    })
}

/// Of a key with a model the key without.
fn generic(look: &mut Look<'_>, key: KeyId) -> Option<KeyId> {
    let Models { known, generic } = &mut look.models;
    let names = look.ledger.names();
    *generic.entry(key).or_insert_with(|| {
        let (generic, model) = known.split(names.key_name(key));
        model.and_then(|_| names.known_key(generic))
    })
}
