//! Random histories of an API server and those around it, folded by the book and by the model: the two agree
//! after every record, and no decision raises a sum above a limit.

use super::{
    model::{Model, NONE},
    world::{Adm, CASH, CPU, Dem, GROUPS, Hard, KEYS, Prop, QSpec, Real, Rec},
};
use crate::{oracle::world::Dice, restored};
use bizrq::domain::{
    admission::Reason,
    book::Frozen,
    event::Operation::{Create, Delete, Update},
    ledger::Options,
};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus, seq::IndexedRandom};
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 3] = ["w0", "w1", "w2"];

#[derive(Clone, Debug)]
struct Obj {
    uid: u32,
    rv: u64,
    group: &'static str,
    dem: Dem,
}

#[derive(Clone, Debug)]
struct LivePod {
    top: u32,
    rv: u64,
    group: &'static str,
    dem: Dem,
    bound: bool,
}

#[derive(Clone, Debug)]
enum Ask {
    Work(Adm),
    Quota(Prop),
}

/// How often each kind of thing happened, so that a run that shows nothing fails.
#[derive(Debug, Default)]
struct Seen(BTreeMap<&'static str, u32>);

impl Seen {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }
}

struct World {
    rng: Xoshiro256PlusPlus,
    /// Everybody keeps to the rules: controllers stay within demands, nothing bypasses the webhook.
    strict: bool,
    rv: u64,
    next_uid: u32,
    objects: BTreeMap<&'static str, Obj>,
    pods: BTreeMap<u32, LivePod>,
    quotas: BTreeMap<&'static str, (u32, u64, QSpec)>,
    facts: Vec<Rec>,
    read: usize,
    read_again: usize,
    /// Allowed, and not yet known to be done or lost; with the record.
    allowed: Vec<(u64, Ask)>,
    real: Real,
    model: Model,
    seen: Seen,
    trace: Vec<String>,
}

impl World {
    fn new(seed: u64, strict: bool) -> Self {
        let mut world = Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            strict,
            rv: 0,
            next_uid: 1,
            objects: BTreeMap::new(),
            pods: BTreeMap::new(),
            quotas: BTreeMap::new(),
            facts: Vec::new(),
            read: 0,
            read_again: 0,
            allowed: Vec::new(),
            real: Real::new(),
            model: Model::default(),
            seen: Seen::default(),
            trace: Vec::new(),
        };
        let hard = |cpu, gpu, cash| [cpu, gpu, cash];
        for (name, parent, hard) in [
            ("R", "", hard(Some(8), Some(4), Some(400))),
            ("A", "R", hard(Some(4), None, Some(200))),
            ("B", "R", hard(None, Some(2), None)),
            ("S", "", hard(Some(4), None, None)),
        ] {
            let uid = world.uid();
            world.rv += 1;
            world.quotas.insert(name, (uid, world.rv, (parent, hard)));
            world.facts.push(Rec::Declared { name, uid, rv: world.rv, spec: (parent, hard) });
        }
        world.deliver(9);
        world
    }

    fn uid(&mut self) -> u32 {
        self.next_uid += 1;
        self.next_uid
    }

    fn up_to(&mut self, most: i64) -> i64 {
        self.rng.random_range(0..=most)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    fn a_group(&mut self) -> &'static str {
        let groups = if self.strict { &GROUPS[..5] } else { &GROUPS[..] };
        groups.choose(&mut self.rng).unwrap()
    }

    /// Applies a record to both, and compares them.
    fn append(&mut self, record: Rec) {
        self.trace.push(format!("{} t={} {record:?}", self.model.position + 1, self.real.now));
        let before = self.strict.then(|| (self.model.used(), self.is_stale(&record)));
        self.model.apply(&record, &self.real.till, self.real.now);
        self.real.apply(&record);
        if let Some((before, false)) = before {
            let after = self.model.used();
            for (group, used) in &after {
                let limit = self.model.limit(group);
                for k in 0..2 {
                    let raised = used[k] > before[group][k] && used[k] > limit[k];
                    assert!(!raised, "{group} is raised to {used:?} without a review");
                }
            }
        }
        self.compare();
    }

    /// Late news about what has ended or moved on is charged until its end is told: harmless.
    fn is_stale(&self, record: &Rec) -> bool {
        match record {
            Rec::Pod { uid, top, group, .. } => {
                let live = self.pods.get(uid);
                let moved = live.is_none_or(|pod| pod.group != *group);
                let others = self.facts[self.read..]
                    .iter()
                    .any(|f| matches!(f, Rec::Ended { .. } | Rec::Gone { .. } | Rec::Pod { .. }));
                moved || others || !self.objects.values().any(|o| o.uid == *top)
            }
            Rec::Observed { uid, group, name, .. } => {
                let live = self.objects.values().any(|o| o.uid == *uid && o.group == *group);
                // One of several creates of a name became real: the others still count.
                let clash =
                    self.model.open().iter().filter(|(_, uid, _)| uid.is_some()).count() > 1;
                !live || (clash && self.clashes(name))
            }
            // Judged on what its decider had seen, not on the facts that came between.
            Rec::Admitted(_) => true,
            _ => false,
        }
    }

    fn clashes(&self, name: &str) -> bool {
        self.trace.iter().filter(|t| t.contains("Create") && t.contains(name)).count() > 1
    }

    fn compare(&mut self) {
        let (own, used) = (self.model.own(), self.model.used());
        let (now, time) = (self.real.now, self.real.time());
        for group in GROUPS {
            let (real, id) = (&self.real, self.real.names.known_group(group).unwrap());
            assert_eq!(real.own(group), own.get(group).copied().unwrap_or_default(), "own {group}");
            assert_eq!(real.used(group), used[group], "used {group}");
            let unreviewed = real.of(group, |line| line.self_unreviewed);
            assert!((0..2).all(|k| (0..=real.own(group)[k]).contains(&unreviewed[k])));
            let (claim, limit) = (self.model.claim(group), self.model.limit(group));
            for (k, key) in [KEYS[0], KEYS[1], CASH].into_iter().enumerate() {
                let Some(key) = real.names.known_key(key) else { continue };
                let line = real.book.line(id, key);
                let unit = if k == 2 { 1000 * 3_600_000 } else { 1000 };
                assert_eq!(line.claim, i128::from(claim[k]) * unit, "claim {group} {k}");
                let limit = (limit[k] != NONE).then(|| i128::from(limit[k]) * unit);
                assert_eq!(line.limit, limit, "limit {group} {k}");
            }
            let mut parents: Vec<_> =
                real.book.parents(id).iter().map(|p| real.names.group_name(*p)).collect();
            parents.sort_unstable();
            assert_eq!(parents, self.model.parents(group).into_iter().collect::<Vec<_>>());
            assert_eq!(real.book.frozen(id).is_some(), self.model.frozen(group), "frozen {group}");
            let cpu = real.names.known_key(CPU).unwrap();
            let spent = real.book.budget_used(id, cpu, &real.till, time);
            let expected = self.model.budget_used(group, &real.till, now) * 1000 * 3_600_000;
            assert_eq!(spent, expected, "budget {group}");
        }
        let mut open: Vec<_> = self.real.book.reservations().map(|o| o.ticket.position).collect();
        let proposals = self.real.book.accounts().flat_map(|g| self.real.book.proposals(g));
        open.extend(proposals.map(|p| p.position));
        open.sort_unstable();
        let mut expected: Vec<_> = self.model.open().iter().map(|(p, _, _)| *p).collect();
        expected.sort_unstable();
        assert_eq!(open, expected, "open");
    }

    /// The first observer reads on.
    fn deliver(&mut self, most: usize) {
        for _ in 0..most {
            let Some(fact) = self.facts.get(self.read).cloned() else { return };
            self.read += 1;
            self.append(fact);
        }
    }

    /// A second observer says it again, late.
    fn deliver_again(&mut self) {
        if self.read_again < self.read {
            let fact = self.facts[self.read_again].clone();
            self.read_again += 1;
            if !matches!(fact, Rec::Pod { .. } | Rec::Ended { .. }) {
                self.seen.note("repeated");
                self.append(fact);
            }
        }
    }
}

/// Judging, once more, by the model.
impl World {
    fn judge(&self, ledger: &mut Model, position: u64, adm: &Adm) -> Result<bool, Reason> {
        let (till, now) = (&self.real.till, self.real.now);
        let (group, before) = (adm.group, ledger.used());
        let (groups, charge) = ledger.charge_of(adm.uid);
        let (mut ask, mut old) = (adm.dem, [0, 0]);
        let mut moved = false;
        let mut present = if groups.contains(group) { charge } else { [0, 0] };
        if let Some((_, from, to)) = adm.resize {
            (ask, old, present) = (to, from, from);
        } else if let Some((old_group, dem)) = adm.old {
            moved = old_group != group;
            if moved {
                ask = [0, 1].map(|k| ask[k].max(dem[k]).max(charge[k]));
            } else {
                old = dem;
            }
        }
        let need: Vec<_> = (0..2).filter(|k| ask[*k] > old[*k]).collect();
        if need.is_empty() && !moved {
            return Ok(false);
        }
        let grow: Vec<_> = need.into_iter().filter(|k| ask[*k] > present[*k]).collect();
        if (!grow.is_empty() || moved) && ledger.frozen(group) {
            return Err(Reason::UnknownGroup);
        }
        if grow.contains(&0) && self.cash_out(ledger, group) {
            return Err(Reason::CashExhausted);
        }
        let _ = (till, now);
        ledger.reserve(position, 0, adm);
        let after = ledger.used();
        let broken = GROUPS.iter().any(|g| {
            let limit = ledger.limit(g);
            (0..2).any(|k| after[g][k] > before[g][k] && after[g][k] > limit[k])
        });
        if broken {
            ledger.unreserve(position);
            return Err(Reason::QuotaExceeded);
        }
        Ok(true)
    }

    fn cash_out(&self, ledger: &Model, group: &'static str) -> bool {
        let mut open = vec![group];
        while let Some(group) = open.pop() {
            let limit = ledger.limit(group)[2];
            if limit == NONE {
                open.extend(ledger.parents(group));
            } else if ledger.budget_used(group, &self.real.till, self.real.now) >= i128::from(limit)
            {
                return true;
            }
        }
        false
    }

    /// Reviews a batch by both; facts may come between the decision and its record.
    fn review(&mut self, asked: Vec<Adm>) {
        let verdicts = self.real.review(&asked);
        let mut ledger = self.model.clone();
        for (i, (adm, verdict)) in asked.iter().zip(&verdicts).enumerate() {
            let expected = self.judge(&mut ledger, u64::MAX - i as u64, adm);
            let verdict = match verdict {
                Ok(record) => Ok(record.is_some()),
                Err(refusal) => Err(refusal.reason),
            };
            self.trace.push(format!("  {adm:?}: {verdict:?}"));
            assert_eq!(verdict, expected);
            self.seen.note(match verdict {
                Ok(true) => "admitted",
                Ok(false) => "allowed without a record",
                Err(Reason::QuotaExceeded) => "exceeded",
                Err(Reason::CashExhausted) => "exhausted",
                Err(_) => "frozen",
            });
        }
        self.compare();
        if self.one_in(3) {
            self.deliver(2);
        }
        let records: Vec<_> = verdicts.iter().filter_map(|v| v.clone().ok().flatten()).collect();
        if !records.is_empty() {
            self.append(Rec::Admitted(records));
        }
        let position = self.model.position;
        for (adm, verdict) in asked.into_iter().zip(verdicts) {
            if verdict.is_ok() {
                self.allowed.push((position, Ask::Work(adm)));
            }
        }
    }

    fn review_quota(&mut self, asked: Prop) {
        let allow_orphans = self.one_in(2);
        let verdict = self.real.review_quota(&asked, allow_orphans);
        let named = verdict.as_ref().map(|_| ()).map_err(|refusal| refusal.reason);
        self.trace.push(format!("  {asked:?}: {named:?}"));
        self.compare();
        let Ok(proposal) = verdict else {
            self.seen.note("quota refused");
            return;
        };
        self.seen.note("quota proposed");
        let before = self.model.clone();
        self.append(Rec::Proposed(proposal.clone()));
        let (till, now) = (&self.real.till, self.real.now);
        assert!(self.model.grown_from(&before, asked.name, till, now), "a proposal breaks a sum");
        self.allowed.push((self.model.position, Ask::Quota(proposal)));
    }
}

/// What happens in the world.
impl World {
    fn ask_work(&mut self) -> Option<Adm> {
        let update = !self.objects.is_empty() && self.one_in(2);
        if !update {
            let (uid, name) = (self.uid(), *NAMES.choose(&mut self.rng).unwrap());
            let dem = [1 + self.up_to(4), if self.one_in(2) { self.up_to(2) } else { 0 }];
            let group = self.a_group();
            return Some(Adm {
                op: Create,
                uid,
                name,
                old_rv: 0,
                group,
                dem,
                old: None,
                resize: None,
            });
        }
        if self.one_in(4) {
            let bound: Vec<_> = self.pods.iter().filter(|(_, p)| p.bound).collect();
            let (uid, pod) = bound.choose(&mut self.rng)?;
            let (uid, pod) = (**uid, (*pod).clone());
            let to = [1 + self.up_to(3), pod.dem[1]];
            let resize = Some((uid, pod.dem, to));
            let (group, old_rv) = (pod.group, pod.rv);
            let dem = pod.dem;
            return Some(Adm {
                op: Update,
                uid: pod.top,
                name: "p",
                old_rv,
                group,
                dem,
                old: None,
                resize,
            });
        }
        let names: Vec<_> = self.objects.keys().copied().collect();
        let name = *names.choose(&mut self.rng)?;
        let obj = self.objects[name].clone();
        let group = if self.one_in(3) { self.a_group() } else { obj.group };
        let dem = [self.up_to(5), if self.one_in(2) { self.up_to(2) } else { obj.dem[1] }];
        let old = Some((obj.group, obj.dem));
        Some(Adm { op: Update, uid: obj.uid, name, old_rv: obj.rv, group, dem, old, resize: None })
    }

    fn some_hard(&mut self) -> Hard {
        let list =
            |world: &mut Self, most, step| (!world.one_in(3)).then(|| step * world.up_to(most));
        [list(self, 6, 1), list(self, 3, 1), list(self, 10, 40)]
    }

    fn ask_quota(&mut self) -> Option<Prop> {
        let name = GROUPS[..5].choose(&mut self.rng).copied()?;
        let used = self.model.used()[name];
        let below = |hard: Hard| (0..2).any(|k| hard[k].is_some_and(|hard| hard < used[k]));
        let Some((uid, old_rv, spec)) = self.quotas.get(name).copied() else {
            let parent = *["", "R", "A", "B", "D", "S"].choose(&mut self.rng)?;
            let (uid, hard) = (self.uid(), self.some_hard());
            if self.strict && below(hard) {
                return None;
            }
            return Some(Prop { op: Create, name, uid, old_rv: 0, spec: Some((parent, hard)) });
        };
        if self.one_in(5) {
            return Some(Prop { op: Delete, name, uid, old_rv, spec: None });
        }
        let (mut parent, mut hard) = spec;
        if self.one_in(3) {
            parent = *["", "R", "A", "B", "D", "S"].choose(&mut self.rng)?;
        } else {
            let (k, now) = (self.rng.random_range(0..3), self.some_hard());
            hard[k] = now[k];
        }
        if self.strict && below(hard) {
            return None;
        }
        Some(Prop { op: Update, name, uid, old_rv, spec: Some((parent, hard)) })
    }

    /// One request reaches the API server's storage, or does not.
    fn commit(&mut self) {
        if self.allowed.is_empty() {
            return;
        }
        let i = self.rng.random_range(0..self.allowed.len());
        let (_, ask) = self.allowed.swap_remove(i);
        if self.one_in(5) {
            self.seen.note("lost after allowed");
            return;
        }
        match ask {
            Ask::Work(adm) if adm.resize.is_some() => self.commit_resize(&adm),
            Ask::Work(adm) => self.commit_work(&adm),
            Ask::Quota(proposal) => self.commit_quota(&proposal),
        }
    }

    fn commit_resize(&mut self, adm: &Adm) {
        let (uid, _, to) = adm.resize.unwrap();
        let Some(pod) = self.pods.get_mut(&uid).filter(|pod| pod.rv == adm.old_rv) else { return };
        self.rv += 1;
        (pod.rv, pod.dem) = (self.rv, to);
        let pod = pod.clone();
        self.tell_pod(uid, &pod);
        self.seen.note("resized");
    }

    fn commit_work(&mut self, adm: &Adm) {
        let known = self.objects.get(adm.name);
        let fits = match adm.op {
            Create => known.is_none(),
            _ => known.is_some_and(|o| o.uid == adm.uid && o.rv == adm.old_rv),
        };
        if !fits {
            self.seen.note("conflict");
            return;
        }
        self.store(adm.uid, adm.name, adm.group, adm.dem);
        if self.strict && adm.op == Create {
            // Rule 4 counts on it that only one of several creates of a name succeeds; it would not if the first
            // were deleted, its pods left behind, within the timeout of the second.
            self.allowed.retain(|(_, ask)| {
                !matches!(ask, Ask::Work(other) if other.op == Create && other.name == adm.name)
            });
        }
    }

    fn store(&mut self, uid: u32, name: &'static str, group: &'static str, dem: Dem) {
        self.rv += 1;
        let rv = self.rv;
        let was = self.objects.insert(name, Obj { uid, rv, group, dem });
        self.facts.push(Rec::Observed { uid, name, rv, group, dem });
        if was.is_some_and(|old| old.group != group) {
            self.seen.note("moved");
            let mut moved: Vec<_> =
                self.pods.iter().filter(|(_, p)| p.top == uid).map(|(u, _)| *u).collect();
            for pod in moved.drain(..) {
                let row = self.pods.get_mut(&pod).unwrap();
                row.group = group;
                let row = row.clone();
                self.tell_pod(pod, &row);
            }
        }
    }

    fn tell_pod(&mut self, uid: u32, pod: &LivePod) {
        let LivePod { top, group, dem, bound, .. } = *pod;
        self.facts.push(Rec::Pod { uid, top, group, dem, bound });
    }

    fn commit_quota(&mut self, p: &Prop) {
        let known = self.quotas.get(p.name).copied();
        let fits = match p.op {
            Create => known.is_none(),
            _ => known.is_some_and(|(uid, rv, _)| uid == p.uid && rv == p.old_rv),
        };
        if !fits {
            return;
        }
        self.rv += 1;
        match p.spec {
            Some(spec) => {
                self.quotas.insert(p.name, (p.uid, self.rv, spec));
                self.facts.push(Rec::Declared { name: p.name, uid: p.uid, rv: self.rv, spec });
                let moved = known.is_some_and(|(_, _, old)| old.0 != spec.0);
                self.seen.note(if moved { "re-parented" } else { "declared" });
            }
            None => {
                self.quotas.remove(p.name);
                self.facts.push(Rec::Removed { name: p.name, uid: p.uid });
                self.seen.note("removed");
            }
        }
    }

    fn a_pod(&mut self) {
        let names: Vec<_> = self.objects.keys().copied().collect();
        let Some(name) = names.choose(&mut self.rng) else { return };
        let obj = self.objects[name].clone();
        let live = self.pods.values().filter(|p| p.top == obj.uid).map(|p| p.dem);
        let have = live.fold([0, 0], |a, b| [a[0] + b[0], a[1] + b[1]]);
        let mut dem = [1 + self.up_to(2), self.up_to(1)];
        let mut group = obj.group;
        if self.strict {
            dem = [0, 1].map(|k| dem[k].min(obj.dem[k] - have[k]).max(0));
            if dem == [0, 0] {
                return;
            }
        } else if self.one_in(3) {
            group = self.a_group();
            self.seen.note("apart or not");
        }
        let (uid, bound) = (self.uid(), self.one_in(2));
        self.rv += 1;
        let pod = LivePod { top: obj.uid, rv: self.rv, group, dem, bound };
        self.tell_pod(uid, &pod);
        self.pods.insert(uid, pod);
    }

    fn change_a_pod(&mut self) {
        let uids: Vec<_> = self.pods.keys().copied().collect();
        let Some(uid) = uids.choose(&mut self.rng).copied() else { return };
        self.rv += 1;
        if self.pods[&uid].bound && self.one_in(2) {
            self.pods.remove(&uid);
            self.facts.push(Rec::Ended { uid });
            return;
        }
        let (rv, group) = (self.rv, self.a_group());
        let wild = !self.strict && self.one_in(3);
        let pod = self.pods.get_mut(&uid).unwrap();
        (pod.rv, pod.bound) = (rv, true);
        if wild {
            pod.group = group;
        }
        let pod = pod.clone();
        self.tell_pod(uid, &pod);
    }

    fn delete(&mut self) {
        let names: Vec<_> = self.objects.keys().copied().collect();
        if let Some(name) = names.choose(&mut self.rng) {
            let obj = self.objects.remove(name).unwrap();
            self.rv += 1;
            self.facts.push(Rec::Gone { uid: obj.uid });
            self.seen.note("deleted");
        }
    }

    /// Something happens that no review saw.
    fn bypass(&mut self) {
        if self.one_in(3) {
            if let Some(asked) = self.ask_quota() {
                self.seen.note("quota bypassed");
                self.commit_quota(&asked);
            }
        } else if let Some(adm) = self.ask_work().filter(|adm| adm.resize.is_none()) {
            self.seen.note("bypassed");
            self.commit_work(&adm);
        }
    }

    /// Says the end of something; when everybody keeps to the rules, only of what cannot happen any more.
    fn expire(&mut self) {
        let open = self.model.open();
        let Some((position, uid, quota)) = open.choose(&mut self.rng).copied() else { return };
        let waits = self.allowed.iter().any(|(p, _)| *p == position);
        if self.strict && (waits || self.read < self.facts.len()) {
            return;
        }
        self.seen.note("expired");
        self.append(Rec::Expired { position, uid, quota });
    }

    fn step(&mut self) {
        match self.rng.random_range(0..100) {
            0..22 => {
                let n = 1 + usize::from(self.one_in(3));
                let asked: Vec<_> = (0..n).filter_map(|_| self.ask_work()).collect();
                self.review(asked);
            }
            22..36 => {
                if let Some(asked) = self.ask_quota() {
                    self.review_quota(asked);
                }
            }
            36..54 => self.commit(),
            54..70 => self.deliver(4),
            70..74 => self.deliver_again(),
            74..81 => self.a_pod(),
            81..87 => self.change_a_pod(),
            87..89 => self.delete(),
            89..95 => self.expire(),
            95..98 => self.real.now += self.rng.random_range(1..30),
            _ if self.strict => self.deliver(2),
            _ => self.bypass(),
        }
    }

    /// Everything comes to rest: what is open ends, and the book says what is real.
    fn settle(&mut self) {
        self.allowed.clear();
        self.deliver(usize::MAX);
        while let Some((position, uid, quota)) = self.model.open().first().copied() {
            self.append(Rec::Expired { position, uid, quota });
        }
        assert_eq!(self.real.book.reservations().count(), 0);
        let mut truth: BTreeMap<&str, Dem> = BTreeMap::new();
        let mut tops: BTreeMap<(u32, &str), Dem> = BTreeMap::new();
        for pod in self.pods.values() {
            let sum = tops.entry((pod.top, pod.group)).or_default();
            *sum = [sum[0] + pod.dem[0], sum[1] + pod.dem[1]];
        }
        for obj in self.objects.values() {
            let most = tops.entry((obj.uid, obj.group)).or_default();
            *most = [most[0].max(obj.dem[0]), most[1].max(obj.dem[1])];
        }
        for ((_, group), dem) in tops {
            let sum = truth.entry(group).or_default();
            *sum = [sum[0] + dem[0], sum[1] + dem[1]];
        }
        // Pods above what their workload asks for by now (it was scaled down, they still run) count as unreviewed.
        let above: BTreeSet<_> = self
            .pods
            .values()
            .filter(|p| {
                let sum = self.pods.values().filter(|q| q.top == p.top).map(|q| q.dem);
                let sum = sum.fold([0, 0], |a, b| [a[0] + b[0], a[1] + b[1]]);
                let asks = self.objects.values().find(|o| o.uid == p.top).map_or([0, 0], |o| o.dem);
                (0..2).any(|k| sum[k] > asks[k])
            })
            .flat_map(|p| self.model.above(p.group))
            .collect();
        for group in GROUPS {
            let truth = truth.get(group).copied().unwrap_or_default();
            assert_eq!(self.real.own(group), truth, "at rest {group} is charged what is real");
            if self.strict {
                if !above.contains(group) {
                    assert_eq!(self.real.unreviewed(group), [0, 0], "{group} was reviewed");
                }
                let (limit, used) = (self.model.limit(group), self.real.used(group));
                assert!((0..2).all(|k| used[k] <= limit[k]), "{group} uses {used:?} of {limit:?}");
                let declared = self.model.declared(group);
                let real = self.quotas.get(group).map(|(uid, _, spec)| (*uid, *spec));
                if self.model.accounts.get(group).is_none_or(|a| a.invalid.is_none()) {
                    assert_eq!(declared, real, "{group} is in force as it is");
                }
            }
        }
    }
}

/// Runs so many histories, or as many as `BIZRQ_HISTORIES` says.
fn run(count: u64, strict: bool, expected: &[&'static str]) {
    let count = std::env::var("BIZRQ_HISTORIES").map_or(count, |n| n.parse().unwrap());
    let first = if strict { 0 } else { 1_000_000 };
    let seeds = first..first + count;
    let mut all = BTreeMap::new();
    let mut records = 0;
    for seed in seeds {
        let mut world = World::new(seed, strict);
        let steps = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..110 {
                world.step();
            }
            world.settle();
        }));
        if let Err(error) = steps {
            let tail = world.trace.iter().rev().take(60).rev();
            eprintln!(
                "seed {seed}, strict {strict}:\n{}",
                tail.cloned().collect::<Vec<_>>().join("\n")
            );
            std::panic::resume_unwind(error);
        }
        if seed % 3 == 0 {
            // What the book was told, by a whole ledger that is written and read again.
            let what = format!("history {seed}, strict {strict}");
            let mut dice = Dice::seed_from_u64(seed);
            restored::check(&what, Options::default(), &world.real.told, &mut dice);
        }
        records += world.model.position;
        for (what, n) in world.seen.0 {
            *all.entry(what).or_insert(0) += n;
        }
    }
    println!("{records} records: {all:?}");
    let seen: BTreeSet<_> =
        all.into_iter().filter(|(_, n)| *n >= 10).map(|(what, _)| what).collect();
    for what in expected.iter().filter(|_| count >= 100) {
        assert!(seen.contains(what), "`{what}` hardly ever happened");
    }
}

const COMMON: [&str; 16] = [
    "admitted",
    "allowed without a record",
    "conflict",
    "declared",
    "deleted",
    "exceeded",
    "exhausted",
    "expired",
    "frozen",
    "lost after allowed",
    "moved",
    "quota proposed",
    "quota refused",
    "re-parented",
    "removed",
    "resized",
];

#[test]
fn the_book_and_the_model_agree_when_everybody_keeps_to_the_rules() {
    run(120, true, &COMMON);
}

#[test]
fn the_book_and_the_model_agree_whatever_happens() {
    let more = ["apart or not", "bypassed", "quota bypassed", "repeated"];
    run(120, false, &[&COMMON[..], &more].concat());
}

#[test]
fn a_group_that_admits_nothing_says_why() {
    let mut world = World::new(1, true);
    let a = world.real.group("A");
    let uid = world.quotas["A"].0;
    let removal = Prop { op: Delete, name: "A", uid, old_rv: 2, spec: None };
    world.append(Rec::Proposed(removal));
    assert_eq!(world.real.book.frozen(a), Some(Frozen::Leaving));
}
