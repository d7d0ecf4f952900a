//! A sorted list that nearly always has at most one entry, which it keeps in place.

use serde::{Deserialize, Serialize};

/// None, one, or a few.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Few<T> {
    #[default]
    None,
    One(T),
    Many(Vec<T>),
}

impl<T: Copy> Few<T> {
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Many(entries) => entries,
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.as_slice().iter()
    }

    /// Puts `entry` behind every entry that `is_before` it.
    pub(super) fn insert(&mut self, entry: T, is_before: impl FnMut(&T) -> bool) {
        let at = self.as_slice().partition_point(is_before);
        if let Self::Many(entries) = self {
            entries.insert(at, entry);
            return;
        }
        *self = match self {
            Self::One(known) if at == 0 => Self::Many(vec![entry, *known]),
            Self::One(known) => Self::Many(vec![*known, entry]),
            _ => Self::One(entry),
        };
    }
}
