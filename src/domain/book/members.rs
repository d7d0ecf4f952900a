//! The pods of a workload that count in one group: how many, and what they reserve together.
//!
//! They mostly reserve the same, or one of a few amounts, which many workloads share. So they are counted by what they
//! reserve: that takes a few bytes a kind, and a pod that comes or goes changes a count and no sum. Only where there are
//! more kinds is the sum kept.

use crate::domain::{
    amounts::{Amounts, product},
    names::KeyId,
    quantity::Milli,
};
use std::sync::Arc;

/// So many kinds are counted: two lines of memory.
const KINDS: usize = 8;

/// Pods, by what they reserve.
#[derive(Clone, Debug, Default)]
pub(super) enum Pods {
    /// None.
    #[default]
    None,
    /// So many that reserve this, each.
    Alike(u32, Arc<Amounts>),
    /// So many of several kinds, and how many of each.
    Kinds(u32, Vec<(u32, Arc<Amounts>)>),
    /// So many that reserve this together.
    Mixed(u32, Amounts),
}

impl Pods {
    pub(super) fn count(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Alike(n, _) | Self::Kinds(n, _) | Self::Mixed(n, _) => *n,
        }
    }

    /// Looks at what a pod that comes or goes will touch; see [`crate::domain::ledger::ahead`].
    pub(super) fn look(&self) -> Milli {
        match self {
            Self::Mixed(_, sum) => sum.iter().fold(0, |seen, (_, amount)| seen ^ amount),
            Self::Kinds(_, kinds) => kinds.iter().fold(0, |seen, (n, _)| seen ^ Milli::from(*n)),
            // A product, of what many workloads share.
            Self::None | Self::Alike(..) => 0,
        }
    }

    /// Their sum under `key`.
    pub(super) fn get(&self, key: KeyId) -> Milli {
        match self {
            Self::None => 0,
            Self::Alike(n, one) => times(one.get(key), *n),
            Self::Kinds(_, kinds) => kinds
                .iter()
                .fold(0, |sum: Milli, (n, one)| sum.wrapping_add(times(one.get(key), *n))),
            Self::Mixed(_, sum) => sum.get(key),
        }
    }

    pub(super) fn sum(&self) -> Amounts {
        match self {
            Self::None => Amounts::default(),
            Self::Alike(n, one) => one.iter().map(|(k, a)| (k, times(a, *n))).collect(),
            Self::Kinds(_, kinds) => {
                let mut sum = Amounts::default();
                for (n, one) in kinds {
                    sum.merge(one, |_, sum, amount| sum.wrapping_add(times(amount, *n)));
                }
                sum
            }
            Self::Mixed(_, sum) => sum.clone(),
        }
    }

    pub(super) fn put(&mut self, pod: &Arc<Amounts>) {
        self.shift(pod, true);
    }

    pub(super) fn take(&mut self, pod: &Arc<Amounts>) {
        self.shift(pod, false);
    }

    /// Puts a pod in or takes one out; calls `each` with every key of it, and the sum under it before and after.
    pub(super) fn shift_each(
        &mut self,
        pod: &Arc<Amounts>,
        joins: bool,
        mut each: impl FnMut(KeyId, Milli, Milli),
    ) {
        for (key, amount) in pod.iter() {
            let before = match &*self {
                Self::Alike(n, one) if Arc::ptr_eq(one, pod) => times(amount, *n),
                other => other.get(key),
            };
            each(key, before, before.wrapping_add(signed(amount, joins)));
        }
        self.shift(pod, joins);
    }

    /// Puts a pod in or takes one out.
    pub(super) fn shift(&mut self, pod: &Arc<Amounts>, joins: bool) {
        let n = self.count();
        let after = if joins { n.saturating_add(1) } else { n.saturating_sub(1) };
        if after == 0 {
            *self = Self::None;
            return;
        }
        match self {
            Self::None => *self = Self::Alike(after, Arc::clone(pod)),
            Self::Alike(count, one) if is_same(one, pod) => *count = after,
            Self::Alike(count, one) if joins => {
                *self = Self::Kinds(after, vec![(*count, Arc::clone(one)), (1, Arc::clone(pod))]);
            }
            Self::Kinds(count, kinds) => {
                match kinds.iter().position(|(_, one)| is_same(one, pod)) {
                    Some(at) => {
                        *count = after;
                        shift_kind(kinds, at, joins);
                    }
                    None if joins && kinds.len() < KINDS => {
                        *count = after;
                        kinds.push((1, Arc::clone(pod)));
                    }
                    None => self.mix(pod, joins),
                }
            }
            Self::Mixed(count, sum) => {
                *count = after;
                sum.merge(pod, |_, sum, amount| sum.wrapping_add(signed(amount, joins)));
            }
            Self::Alike(..) => self.mix(pod, joins),
        }
    }

    /// There are too many kinds to count them.
    fn mix(&mut self, pod: &Arc<Amounts>, joins: bool) {
        *self = Self::Mixed(self.count(), self.sum());
        self.shift(pod, joins);
    }
}

/// Counts one pod more, or less, of the kind at `at`.
fn shift_kind(kinds: &mut Vec<(u32, Arc<Amounts>)>, at: usize, joins: bool) {
    let Some((n, _)) = kinds.get_mut(at) else { return };
    *n = if joins { n.saturating_add(1) } else { n.saturating_sub(1) };
    if *n == 0 {
        kinds.swap_remove(at);
    }
}

/// Pods that reserve the same mostly share it.
fn is_same(one: &Arc<Amounts>, other: &Arc<Amounts>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// Every amount is below 2^90 (`book::MOST`), so no sum of them leaves 128 bits.
const fn signed(amount: Milli, joins: bool) -> Milli {
    if joins { amount } else { amount.wrapping_neg() }
}

/// `n` times an amount below 2^90 (`book::MOST`).
fn times(amount: Milli, n: u32) -> Milli {
    product(amount, n.into()).unwrap_or(Milli::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_come_and_go_and_their_sum_is_that_of_those_that_are_there() {
        // Few kinds and many; two of the kinds are equal without being shared.
        for kinds in [1, 2, 3, KINDS as u32, 20] {
            let kind =
                |n: u32| Arc::new((0..=n % 3).map(|k| (KeyId(k), Milli::from(n) + 1)).collect());
            let kinds: Vec<Arc<Amounts>> = (0..kinds).chain([0]).map(kind).collect();
            let (mut pods, mut there) = (Pods::None, Vec::<Arc<Amounts>>::new());
            let mut chance = 7_u64;
            for step in 0..2_000 {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let pick = (chance >> 33) as usize;
                // It grows, then shrinks to nothing, and again.
                let joins = there.is_empty() || (pick % 8 < 5) == (step % 500 < 250);
                let pod = if joins {
                    there.push(Arc::clone(&kinds[pick % kinds.len()]));
                    Arc::clone(&kinds[pick % kinds.len()])
                } else {
                    there.swap_remove(pick % there.len())
                };
                let before = pods.clone();
                let mut told = Vec::new();
                pods.shift_each(&pod, joins, |key, was, is| told.push((key, was, is)));
                let sum = |key| there.iter().map(|pod| pod.get(key)).sum::<Milli>();
                let keys = (0..4).map(KeyId);
                assert!(keys.clone().all(|key| pods.get(key) == sum(key)), "{step}: {pods:?}");
                assert!(
                    keys.clone().all(|key| pods.sum().get(key) == sum(key)),
                    "{step}: {pods:?}"
                );
                assert_eq!(pods.count() as usize, there.len());
                let expected = pod.iter().map(|(key, _)| (key, before.get(key), pods.get(key)));
                assert_eq!(told, expected.collect::<Vec<_>>());
            }
        }
    }
}
