//! Amounts under several keys at once: what a pod holds, what a workload asks for.

use super::{ids::KeyId, quantity::Milli};
use serde::{Deserialize, Serialize};

/// A sum left 128 bits; whoever meets it stops or quarantines, never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an amount exceeds 128 bits")]
pub struct Overflow;

/// `amount × millis`, or `None` when it leaves 128 bits.
#[must_use]
pub fn product(amount: Milli, millis: i64) -> Option<i128> {
    products(amount, [millis]).map(|[product]| product)
}

/// `amount` times each of `factors`, or `None` when one of them leaves 128 bits.
#[must_use]
pub fn products<const N: usize>(amount: Milli, factors: [i64; N]) -> Option<[i128; N]> {
    let Ok(short) = i64::try_from(amount) else {
        let mut products = [0; N];
        for (product, factor) in products.iter_mut().zip(factors) {
            *product = amount.checked_mul(factor.into())?;
        }
        return Some(products);
    };
    // The usual case is one multiplication each; two 64-bit factors cannot leave 128 bits.
    Some(factors.map(|factor| i128::from(short).wrapping_mul(factor.into())))
}

/// `a + b`, or the end of 128 bits that it passes: [`i128::saturating_add`] by a branch that is never taken, where that
/// computes the end each time.
#[must_use]
pub fn more(a: Milli, b: Milli) -> Milli {
    a.checked_add(b).unwrap_or_else(|| beyond(a))
}

/// `a - b`, in the same way.
#[must_use]
pub fn less(a: Milli, b: Milli) -> Milli {
    a.checked_sub(b).unwrap_or_else(|| beyond(a))
}

/// The end on the side of `a`.
#[cold]
const fn beyond(a: Milli) -> Milli {
    if a < 0 { Milli::MIN } else { Milli::MAX }
}

/// Milli-units by key, sorted by key, no key twice; a key that is not listed counts 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Amounts(Vec<(KeyId, Milli)>);

impl Amounts {
    /// Nothing under any key.
    pub const EMPTY: Self = Self(Vec::new());

    /// The amount under `key`.
    #[must_use]
    pub fn get(&self, key: KeyId) -> Milli {
        let i = self.0.binary_search_by_key(&key, |(k, _)| *k).ok();
        i.and_then(|i| self.0.get(i)).map_or(0, |(_, amount)| *amount)
    }

    /// Adds `amount` under `key`.
    ///
    /// # Errors
    /// [`Overflow`]; nothing is changed.
    pub fn add(&mut self, key: KeyId, amount: Milli) -> Result<(), Overflow> {
        match self.0.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(i) => {
                if let Some((_, sum)) = self.0.get_mut(i) {
                    *sum = sum.checked_add(amount).ok_or(Overflow)?;
                }
            }
            Err(i) => self.0.insert(i, (key, amount)),
        }
        Ok(())
    }

    /// Raises `key` to `amount` where it is less.
    pub fn raise(&mut self, key: KeyId, amount: Milli) {
        match self.0.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(i) => {
                if let Some((_, most)) = self.0.get_mut(i) {
                    *most = amount.max(*most);
                }
            }
            Err(i) => self.0.insert(i, (key, amount)),
        }
    }

    /// Raises every key to its amount in `other` where it is less.
    pub fn raise_all(&mut self, other: &Self) {
        let mut i = 0;
        for (key, amount) in other.iter() {
            while self.0.get(i).is_some_and(|(k, _)| *k < key) {
                i = i.saturating_add(1);
            }
            match self.0.get_mut(i).filter(|(k, _)| *k == key) {
                Some((_, most)) => *most = amount.max(*most),
                None => self.0.insert(i, (key, amount)),
            }
        }
    }

    /// Every key of `other` gets the amount that `change` makes of the key, its amount and the one in `other`.
    pub fn merge(&mut self, other: &Self, mut change: impl FnMut(KeyId, Milli, Milli) -> Milli) {
        let mut i: usize = 0;
        for (key, theirs) in other.iter() {
            while self.0.get(i).is_some_and(|(k, _)| *k < key) {
                i = i.saturating_add(1);
            }
            match self.0.get_mut(i).filter(|(k, _)| *k == key) {
                Some((_, ours)) => *ours = change(key, *ours, theirs),
                None => self.0.insert(i, (key, change(key, 0, theirs))),
            }
        }
    }

    /// Becomes the same as `other`, in the room that it has.
    pub fn set(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    /// Becomes nothing, and keeps its room.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds `other` `times` times.
    ///
    /// # Errors
    /// [`Overflow`]; `self` is then of no use.
    pub fn add_times(&mut self, other: &Self, times: i128) -> Result<(), Overflow> {
        if self.0.is_empty() {
            // Room for one key more: the object's own count comes next.
            self.0.reserve_exact(other.0.len().saturating_add(1));
            for (key, amount) in other.iter() {
                self.0.push((key, amount.checked_mul(times).ok_or(Overflow)?));
            }
            return Ok(());
        }
        for (key, amount) in other.iter() {
            self.add(key, amount.checked_mul(times).ok_or(Overflow)?)?;
        }
        Ok(())
    }

    /// To look up amounts of keys that come in their order.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk(&self.0)
    }

    /// Keys and amounts in order of key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (KeyId, Milli)> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Whether every amount is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|(_, amount)| *amount == 0)
    }
}

/// A walk through amounts by key, upwards: a step a key instead of a search.
#[derive(Clone, Debug)]
pub struct Walk<'a>(&'a [(KeyId, Milli)]);

impl Walk<'_> {
    /// The amount under `key`, which is above every key that was asked for before.
    pub fn at(&mut self, key: KeyId) -> Milli {
        while let Some(((next, amount), rest)) =
            self.0.split_first().filter(|((k, _), _)| *k <= key)
        {
            self.0 = rest;
            if *next == key {
                return *amount;
            }
        }
        0
    }
}

impl FromIterator<(KeyId, Milli)> for Amounts {
    /// Of a key that comes twice the larger amount counts.
    fn from_iter<I: IntoIterator<Item = (KeyId, Milli)>>(entries: I) -> Self {
        let mut amounts = Self::default();
        for (key, amount) in entries {
            amounts.raise(key, amount);
        }
        amounts
    }
}
