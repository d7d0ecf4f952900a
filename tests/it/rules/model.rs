//! The executable model's fold, ported: slow and obvious. Nothing is kept but what was read; every charge, every
//! sum and every edge is worked out anew from it, each time it is asked for.

use super::world::{Adm, Dem, GROUPS, Prop, QSpec, Rec, Till};
use bizrq::domain::event::Operation::{Create, Update};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(crate) const NONE: i64 = i64::MAX;
type Group = &'static str;

#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    declared: Option<(u32, QSpec)>,
    place: Option<Group>,
    proposals: Vec<(u64, Prop)>,
    newest: u64,
    pub(crate) invalid: Option<(u32, QSpec)>,
}

#[derive(Clone, Debug, Default)]
struct Work {
    observed: Option<(u64, Group, Dem)>,
    group: Option<Group>,
    had_pods: bool,
    open: Vec<(u64, usize, Adm)>,
    resizes: Vec<(u64, usize, Adm, bool)>,
    kept: Vec<(u64, Group, Dem)>,
}

impl Work {
    /// Of which nothing is known but pods, or that it is gone.
    fn is_blank(&self) -> bool {
        let waits = !(self.open.is_empty() && self.resizes.is_empty() && self.kept.is_empty());
        self.observed.is_none() && !waits
    }
}

#[derive(Clone, Debug)]
struct Pod {
    top: u32,
    group: Group,
    dem: Dem,
    apart: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) accounts: BTreeMap<Group, Account>,
    works: BTreeMap<u32, Work>,
    /// Workloads that are gone, most of a long history, which copies share.
    gone: Arc<BTreeSet<u32>>,
    pods: BTreeMap<u32, Pod>,
    gone_quotas: BTreeSet<u32>,
    invalid: Vec<Group>,
    pub(crate) position: u64,
}

fn most(a: Dem, b: Dem) -> Dem {
    [a[0].max(b[0]), a[1].max(b[1])]
}

fn sum(a: Dem, b: Dem) -> Dem {
    [a[0] + b[0], a[1] + b[1]]
}

/// Charges.
impl Model {
    fn members(&self, top: u32, apart: bool) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(move |p| p.top == top && p.apart == apart)
    }

    fn is_real(&self, uid: u32) -> bool {
        self.gone.contains(&uid)
            || self.works.get(&uid).is_some_and(|w| {
                w.observed.is_some()
                    || w.had_pods
                    || !w.resizes.is_empty()
                    || w.open.iter().any(|(_, _, adm)| adm.op == Update)
            })
    }

    /// What every group's own workloads are charged.
    pub(crate) fn own(&self) -> BTreeMap<Group, Dem> {
        let mut own = BTreeMap::new();
        let mut charge = |group: Group, dem: Dem| {
            let all = own.entry(group).or_insert([0, 0]);
            *all = sum(*all, dem);
        };
        let charged = self.works.iter().filter(|(_, w)| !w.is_blank() || w.had_pods);
        for uid in charged.map(|(uid, _)| uid) {
            let (groups, dem) = self.main_charge(*uid);
            groups.into_iter().for_each(|group| charge(group, dem));
            for group in GROUPS {
                let pods = self.members(*uid, true).filter(|p| p.group == group).map(|p| p.dem);
                let pods = pods.fold([0, 0], sum);
                charge(
                    group,
                    sum(pods, self.resized(*uid, |adm, apart| apart && adm.group == group)),
                );
            }
        }
        let mut same = BTreeMap::new();
        for (_, adm) in self.creates() {
            let largest = same.entry((adm.name, adm.group)).or_insert([0, 0]);
            *largest = most(*largest, adm.dem);
        }
        same.into_iter().for_each(|((_, group), dem)| charge(group, dem));
        own
    }

    /// Unconfirmed creates of what nothing real was seen of.
    fn creates(&self) -> impl Iterator<Item = (u32, &Adm)> {
        let works = self.works.iter().filter(|(uid, _)| !self.is_real(**uid));
        works.flat_map(|(uid, w)| {
            w.open.iter().filter(|(_, _, adm)| adm.op == Create).map(|(_, _, adm)| (*uid, adm))
        })
    }

    fn main_charge(&self, uid: u32) -> (BTreeSet<Group>, Dem) {
        let w = &self.works[&uid];
        let (mut groups, mut dem) = (BTreeSet::new(), [0, 0]);
        let mut is_in = |group, asks| {
            groups.insert(group);
            dem = most(dem, asks);
        };
        if let Some((_, group, asks)) = w.observed {
            is_in(group, asks);
        }
        w.kept.iter().for_each(|(_, group, asks)| is_in(group, *asks));
        let real = self.is_real(uid);
        for (_, _, adm) in w.open.iter().filter(|(_, _, adm)| real || adm.op != Create) {
            is_in(
                adm.group,
                adm.old
                    .filter(|(g, _)| *g != adm.group)
                    .map_or(adm.dem, |(_, old)| most(adm.dem, old)),
            );
        }
        if self.members(uid, false).next().is_some() {
            is_in(w.group.unwrap(), self.members(uid, false).map(|p| p.dem).fold([0, 0], sum));
        }
        for (_, _, adm, _) in w.resizes.iter().filter(|(_, _, _, apart)| !apart) {
            groups.insert(w.group.unwrap_or(adm.group));
        }
        (groups, sum(dem, self.resized(uid, |_, apart| !apart)))
    }

    /// What a workload is charged at present, and where.
    pub(crate) fn charge_of(&self, uid: u32) -> (BTreeSet<Group>, Dem) {
        if self.works.contains_key(&uid) { self.main_charge(uid) } else { Default::default() }
    }

    /// What open resizes add: the largest of each version of each pod.
    fn resized(&self, uid: u32, which: impl Fn(&Adm, bool) -> bool) -> Dem {
        let mut by = BTreeMap::new();
        for (_, _, adm, apart) in &self.works[&uid].resizes {
            let (pod, from, to) = adm.resize.unwrap();
            if which(adm, *apart) {
                let more = [(to[0] - from[0]).max(0), (to[1] - from[1]).max(0)];
                let entry = by.entry((pod, adm.old_rv)).or_insert([0, 0]);
                *entry = most(*entry, more);
            }
        }
        by.into_values().fold([0, 0], sum)
    }
}

/// The tree.
impl Model {
    fn specs(&self, group: Group) -> Vec<QSpec> {
        let Some(a) = self.accounts.get(group) else { return Vec::new() };
        let proposed = a.proposals.iter().filter_map(|(_, p)| p.spec);
        a.declared.iter().map(|(_, spec)| *spec).chain(proposed).collect()
    }

    /// What it claims: the larger.
    pub(crate) fn claim(&self, group: Group) -> [i64; 3] {
        [0, 1, 2].map(|k| self.specs(group).iter().filter_map(|s| s.1[k]).max().unwrap_or(0))
    }

    /// What it may use: the smaller; [`NONE`] where it is not listed.
    pub(crate) fn limit(&self, group: Group) -> [i64; 3] {
        if self.accounts.get(group).is_none_or(|a| a.declared.is_none()) {
            return [NONE; 3];
        }
        [0, 1, 2].map(|k| self.specs(group).iter().filter_map(|s| s.1[k]).min().unwrap_or(NONE))
    }

    fn places(&self, group: Group) -> BTreeSet<Group> {
        let place = self.accounts.get(group).and_then(|a| a.place);
        self.specs(group).iter().map(|s| s.0).chain(place).collect()
    }

    pub(crate) fn parents(&self, group: Group) -> BTreeSet<Group> {
        self.places(group).into_iter().filter(|p| !p.is_empty()).collect()
    }

    fn children(&self, group: Group) -> Vec<Group> {
        self.accounts.keys().copied().filter(|c| self.parents(c).contains(group)).collect()
    }

    pub(crate) fn used(&self) -> BTreeMap<Group, Dem> {
        let own = self.own();
        GROUPS.iter().map(|g| (*g, self.used_by(g, &own))).collect()
    }

    fn used_by(&self, group: Group, own: &BTreeMap<Group, Dem>) -> Dem {
        let mut used = own.get(group).copied().unwrap_or_default();
        for child in self.children(group) {
            let claim = self.claim(child);
            used = sum(used, most([claim[0], claim[1]], self.used_by(child, own)));
        }
        used
    }

    /// Core-ticks: own spend and what was given.
    pub(crate) fn budget_used(&self, group: Group, till: &Till, now: i64) -> i128 {
        let given = self
            .children(group)
            .into_iter()
            .map(|c| i128::from(self.claim(c)[2]).max(self.budget_used(c, till, now)));
        till.spent(group, now) + given.sum::<i128>()
    }

    fn reach(&self, group: Group, next: impl Fn(Group) -> Vec<Group>) -> BTreeSet<Group> {
        let (mut found, mut open) = (BTreeSet::new(), vec![group]);
        while let Some(group) = open.pop() {
            if found.insert(group) {
                open.extend(next(group));
            }
        }
        found
    }

    pub(crate) fn above(&self, group: Group) -> BTreeSet<Group> {
        self.reach(group, |g| self.parents(g).into_iter().collect())
    }

    pub(crate) fn below(&self, group: Group) -> BTreeSet<Group> {
        self.reach(group, |g| self.children(g))
    }

    pub(crate) fn roots(&self, group: Group) -> BTreeSet<Group> {
        let root = |g: &Group| self.parents(g).is_empty() || self.places(g).contains("");
        self.above(group).into_iter().filter(root).collect()
    }

    pub(crate) fn frozen(&self, group: Group) -> bool {
        if group.is_empty() {
            return false;
        }
        let Some(a) = self.accounts.get(group).filter(|a| a.declared.is_some()) else {
            return true;
        };
        a.proposals.iter().any(|(_, p)| p.spec.is_none())
            || self.places(group).len() > 1
            || self.roots(group).len() > 1
    }

    pub(crate) fn root_in_force(&self, group: Group) -> Group {
        match self.accounts.get(group).and_then(|a| a.place) {
            Some(parent) if !parent.is_empty() => self.root_in_force(parent),
            _ => group,
        }
    }

    pub(crate) fn busy(&self, group: Group, till: &Till, now: i64) -> bool {
        let own = self.own();
        self.below(group)
            .into_iter()
            .any(|g| own.get(g).is_some_and(|dem| *dem != [0, 0]) || till.busy(g, now))
    }

    /// Whether what it says is in force.
    pub(crate) fn declared(&self, group: Group) -> Option<(u32, QSpec)> {
        self.accounts.get(group).and_then(|a| a.declared)
    }
}

/// The fold.
impl Model {
    pub(crate) fn apply(&mut self, record: &Rec, till: &Till, now: i64) {
        self.position += 1;
        match record {
            Rec::Admitted(batch) => {
                for (item, adm) in batch.iter().enumerate() {
                    self.reserve(self.position, item, adm);
                }
            }
            Rec::Proposed(proposal) => self.propose(self.position, proposal),
            Rec::Expired { position, uid: Some(uid), .. } => {
                if let Some(w) = self.works.get_mut(uid) {
                    w.open.retain(|(p, _, _)| p != position);
                    w.resizes.retain(|(p, _, _, _)| p != position);
                    w.kept.retain(|(p, _, _)| p != position);
                }
            }
            Rec::Expired { position, quota, .. } => {
                if let Some(a) = self.accounts.get_mut(quota) {
                    a.proposals.retain(|(p, _)| p != position);
                }
            }
            Rec::Observed { uid, rv, group, dem, .. } => self.observed(*uid, *rv, group, *dem),
            Rec::Gone { uid } => {
                let position = self.position;
                if Arc::make_mut(&mut self.gone).insert(*uid) {
                    let w = self.works.entry(*uid).or_default();
                    w.kept.extend(w.observed.take().map(|(_, g, d)| (position, g, d)));
                    w.open.clear();
                }
            }
            Rec::Pod { uid, top, group, dem, .. } => self.pod(*uid, *top, group, *dem),
            Rec::Ended { uid } => {
                self.pods.remove(uid);
            }
            Rec::Declared { name, uid, rv, spec } => {
                self.declare(name, *uid, *rv, *spec, till, now)
            }
            Rec::Removed { name, uid } => {
                self.gone_quotas.insert(*uid);
                let a = self.accounts.entry(name).or_default();
                a.proposals.retain(|(_, p)| p.uid != *uid);
                if a.declared.is_some_and(|(u, _)| u == *uid) {
                    a.declared = None;
                }
                if a.invalid.is_some_and(|(u, _)| u == *uid) {
                    a.invalid = None;
                    self.invalid.retain(|g| g != name);
                }
                self.retry(till, now);
            }
        }
        self.forget_blank();
    }

    /// Of what nothing is known any more, nothing is remembered but that it is gone.
    fn forget_blank(&mut self) {
        let tops: BTreeSet<_> = self.pods.values().map(|p| p.top).collect();
        self.works.retain(|uid, w| !w.is_blank() || tops.contains(uid));
    }

    pub(crate) fn reserve(&mut self, position: u64, item: usize, adm: &Adm) {
        if let Some((pod, _, to)) = adm.resize {
            let known = self.pods.get(&pod).cloned();
            if known.as_ref().is_some_and(|p| p.dem == to) {
                return;
            }
            let top = known.as_ref().map_or(adm.uid, |p| p.top);
            let apart = known.as_ref().is_some_and(|p| p.apart);
            let group = known.filter(|p| p.apart).map_or(adm.group, |p| p.group);
            let adm = Adm { group, ..adm.clone() };
            self.works.entry(top).or_default().resizes.push((position, item, adm, apart));
            return;
        }
        let w = self.works.entry(adm.uid).or_default();
        let newest = w.observed.map_or(0, |(rv, _, _)| rv);
        let over = newest > 0 && (adm.op == Create || newest > adm.old_rv);
        if !(self.gone.contains(&adm.uid) || over) {
            w.open.push((position, item, adm.clone()));
        }
    }

    pub(crate) fn unreserve(&mut self, position: u64) {
        for w in self.works.values_mut() {
            w.open.retain(|(p, _, _)| *p != position);
            w.resizes.retain(|(p, _, _, _)| *p != position);
        }
    }

    fn observed(&mut self, uid: u32, rv: u64, group: Group, dem: Dem) {
        let position = self.position;
        let gone = self.gone.contains(&uid);
        let w = self.works.entry(uid).or_default();
        if gone || w.observed.is_some_and(|(newest, _, _)| rv <= newest) {
            return;
        }
        let first = w.observed.is_none();
        if let Some((_, g, d)) = w.observed
            && (g != group || dem[0] < d[0] || dem[1] < d[1])
        {
            w.kept.push((position, g, d));
        }
        w.observed = Some((rv, group, dem));
        w.group = Some(group);
        w.open.retain(|(_, _, adm)| adm.op != Create && adm.old_rv >= rv);
        for pod in self.pods.values_mut().filter(|p| p.top == uid) {
            pod.apart = if first { pod.group != group } else { pod.apart && pod.group != group };
        }
    }

    fn pod(&mut self, uid: u32, top: u32, group: Group, dem: Dem) {
        let known = self.pods.get(&uid).cloned();
        let same = known.as_ref().filter(|p| p.top == top && p.group == group);
        if same.is_some_and(|p| p.dem == dem) {
            return;
        }
        self.pods.remove(&uid);
        let others =
            self.members(top, false).next().is_some() || self.members(top, true).next().is_some();
        let w = self.works.entry(top).or_default();
        let real = w.resizes.iter().filter(|(_, _, adm, _)| {
            adm.resize.is_some_and(|(pod, _, to)| pod == uid && to == dem)
        });
        if let Some(real) = real.map(|(_, _, adm, _)| adm.old_rv).max() {
            w.resizes.retain(|(_, _, adm, _)| adm.resize.unwrap().0 != uid || adm.old_rv > real);
        }
        w.had_pods = true;
        let apart = match same {
            Some(pod) => pod.apart,
            None => {
                if w.group.is_none() || (w.observed.is_none() && !others) {
                    w.group = Some(group);
                }
                w.group != Some(group)
            }
        };
        self.pods.insert(uid, Pod { top, group, dem, apart });
    }

    pub(crate) fn propose(&mut self, position: u64, p: &Prop) {
        let circle =
            p.spec.is_some_and(|(par, _)| !par.is_empty() && self.above(par).contains(p.name));
        let gone = self.gone_quotas.contains(&p.uid);
        let a = self.accounts.entry(p.name).or_default();
        let real = p.op == Create && a.declared.is_some_and(|(u, _)| u == p.uid);
        let over = p.op != Create && a.newest > p.old_rv;
        if !(circle || gone || real || over) {
            a.proposals.push((position, p.clone()));
        }
    }

    fn declare(&mut self, name: Group, uid: u32, rv: u64, spec: QSpec, till: &Till, now: i64) {
        let gone = self.gone_quotas.contains(&uid);
        let a = self.accounts.entry(name).or_default();
        if gone || rv <= a.newest {
            return;
        }
        a.newest = rv;
        let mut reviewed = false;
        a.proposals.retain(|(_, p)| {
            reviewed |= p.uid == uid && p.old_rv < rv && p.spec == Some(spec);
            if p.uid == uid { p.old_rv >= rv } else { !(0 < p.old_rv && p.old_rv < rv) }
        });
        if self.put_in_force(name, uid, spec, reviewed, till, now) {
            self.retry(till, now);
        }
    }

    fn put_in_force(
        &mut self,
        name: Group,
        uid: u32,
        spec: QSpec,
        reviewed: bool,
        till: &Till,
        now: i64,
    ) -> bool {
        let ok = self.may_be(name, uid, spec, reviewed, till, now);
        self.invalid.retain(|g| *g != name);
        let a = self.accounts.get_mut(name).unwrap();
        if ok {
            (a.declared, a.place, a.invalid) = (Some((uid, spec)), Some(spec.0), None);
        } else {
            a.invalid = Some((uid, spec));
            self.invalid.push(name);
        }
        ok
    }

    fn may_be(
        &self,
        name: Group,
        uid: u32,
        spec: QSpec,
        reviewed: bool,
        till: &Till,
        now: i64,
    ) -> bool {
        let (parent, hard) = spec;
        if !reviewed && !parent.is_empty() {
            let there = self.declared(parent).is_some() && !self.above(parent).contains(name);
            let above = self.above(parent);
            let listed = |k: usize| above.iter().any(|g| self.limit(g)[k] < NONE);
            let needs = |k: usize| hard[k].is_some() || self.given(name, k) > 0;
            if !there || (0..3).any(|k| needs(k) && !listed(k)) {
                return false;
            }
        }
        if self.accounts[name].place.is_some() {
            let root = if parent.is_empty() { name } else { self.root_in_force(parent) };
            if root != self.root_in_force(name) && self.busy(name, till, now) {
                return false;
            }
        }
        if reviewed {
            return true;
        }
        let mut after = self.clone();
        let a = after.accounts.get_mut(name).unwrap();
        (a.declared, a.place) = (Some((uid, spec)), Some(parent));
        let old = self.declared(name).map_or([None; 3], |(_, (_, hard))| hard);
        let below_children = (0..3).any(|k| match (hard[k], old[k]) {
            (Some(new), old) => old.is_none_or(|old| new < old) && new < self.given(name, k),
            (None, Some(_)) => parent.is_empty() && self.given(name, k) > 0,
            (None, None) => false,
        });
        !below_children && after.grown_from(self, name, till, now)
    }

    /// Whether nothing above `name` was raised above its limit.
    pub(crate) fn grown_from(&self, before: &Self, name: Group, till: &Till, now: i64) -> bool {
        let (was, is) = (before.used(), self.used());
        let fits = |g: &Group| {
            let limit = self.limit(g);
            let sums = (0..2).all(|k| is[g][k] <= was[g][k] || is[g][k] <= limit[k]);
            let cash = (before.budget_used(g, till, now), self.budget_used(g, till, now));
            sums && (cash.1 <= cash.0 || limit[2] == NONE || cash.1 <= i128::from(limit[2]))
        };
        GROUPS.iter().filter(|g| **g != name).all(fits)
    }

    /// What the nearest groups below that list a key claim together.
    fn given(&self, group: Group, k: usize) -> i64 {
        let children = self.children(group).into_iter();
        children
            .map(|c| {
                let listed = self.claim(c)[k] > 0 || self.limit(c)[k] < NONE;
                if listed { self.claim(c)[k] } else { self.given(c, k) }
            })
            .sum()
    }

    fn retry(&mut self, till: &Till, now: i64) {
        let mut again = true;
        while again {
            again = false;
            for name in self.invalid.clone() {
                if let Some((uid, spec)) = self.accounts[name].invalid {
                    again |= self.put_in_force(name, uid, spec, false, till, now);
                }
            }
        }
    }

    /// Everything that waits for its end: position, workload, quota.
    pub(crate) fn open(&self) -> Vec<(u64, Option<u32>, Group)> {
        let mut open = Vec::new();
        for (uid, w) in &self.works {
            open.extend(w.open.iter().map(|(p, _, _)| (*p, Some(*uid), "")));
            open.extend(w.resizes.iter().map(|(p, _, _, _)| (*p, Some(*uid), "")));
            open.extend(w.kept.iter().map(|(p, _, _)| (*p, Some(*uid), "")));
        }
        for (name, a) in &self.accounts {
            open.extend(a.proposals.iter().map(|(p, _)| (*p, None, *name)));
        }
        open
    }
}
